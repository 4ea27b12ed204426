"""The 104 measurements of the paper's data, and which of them the open ICU stays have.

The paper's columns are the hourly means that MIMIC-Extract makes of MIMIC-III. The names are those of
its file, with its spelling.
"""

_NAMES = """
alanine aminotransferase; albumin; albumin ascites; albumin pleural; albumin urine;
alkaline phosphate; anion gap; asparate aminotransferase; basophils; bicarbonate; bilirubin;
blood urea nitrogen; calcium; calcium ionized; calcium urine; cardiac index;
cardiac output fick; cardiac output thermodilution; central venous pressure; chloride;
chloride urine; cholesterol; cholesterol hdl; cholesterol ldl; co2;
co2 (etco2, pco2, etc.); creatinine; creatinine ascites; creatinine body fluid;
creatinine pleural; creatinine urine; diastolic blood pressure; eosinophils; fibrinogen;
fraction inspired oxygen; fraction inspired oxygen set; glascow coma scale total; glucose;
heart rate; height; hematocrit; hemoglobin; lactate; lactate dehydrogenase;
lactate dehydrogenase pleural; lactic acid; lymphocytes; lymphocytes ascites;
lymphocytes atypical; lymphocytes atypical csl; lymphocytes body fluid; lymphocytes percent;
lymphocytes pleural; magnesium; mean blood pressure; mean corpuscular hemoglobin;
mean corpuscular hemoglobin concentration; mean corpuscular volume; monocytes; monocytes csl;
neutrophils; oxygen saturation; partial pressure of carbon dioxide;
partial pressure of oxygen; partial thromboplastin time; peak inspiratory pressure; ph;
ph urine; phosphate; phosphorous; plateau pressure; platelets;
positive end-expiratory pressure; positive end-expiratory pressure set; post void residual;
potassium; potassium serum; prothrombin time inr; prothrombin time pt;
pulmonary artery pressure mean; pulmonary artery pressure systolic;
pulmonary capillary wedge pressure; red blood cell count; red blood cell count ascites;
red blood cell count csf; red blood cell count pleural; red blood cell count urine;
respiratory rate; respiratory rate set; sodium; systemic vascular resistance;
systolic blood pressure; temperature; tidal volume observed; tidal volume set;
tidal volume spontaneous; total protein; total protein urine; troponin-i; troponin-t;
venous pvo2; weight; white blood cell count; white blood cell count urine
"""
MEASUREMENTS = tuple(name.strip() for name in _NAMES.split(";"))
"""All hourly means of MIMIC-Extract."""

OPEN = {
    "systolic blood pressure": "SysABP",
    "diastolic blood pressure": "DiasABP",
    "mean blood pressure": "MAP",
    "heart rate": "HR",
    "respiratory rate": "RespRate",
    "temperature": "Temp",
    "glascow coma scale total": "GCS",
    "weight": "Weight",
    "height": "Height",
    "fraction inspired oxygen": "FiO2",
    "oxygen saturation": "SaO2",
    "partial pressure of oxygen": "PaO2",
    "partial pressure of carbon dioxide": "PaCO2",
    "ph": "pH",
    "bicarbonate": "HCO3",
    "lactate": "Lactate",
    "sodium": "Na",
    "potassium": "K",
    "magnesium": "Mg",
    "glucose": "Glucose",
    "blood urea nitrogen": "BUN",
    "creatinine": "Creatinine",
    "alanine aminotransferase": "ALT",
    "asparate aminotransferase": "AST",
    "alkaline phosphate": "ALP",
    "bilirubin": "Bilirubin",
    "albumin": "Albumin",
    "cholesterol": "Cholesterol",
    "hematocrit": "HCT",
    "platelets": "Platelets",
    "white blood cell count": "WBC",
    "troponin-i": "TroponinI",
    "troponin-t": "TroponinT",
}
"""Those that the challenge has, by its names."""

LACKING = tuple(name for name in MEASUREMENTS if name not in OPEN)
"""Those that it lacks."""
