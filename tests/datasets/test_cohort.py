"""The simulated cohort has the attributes, ranges and gaps of the paper's table."""

import numpy as np
import pytest

import veilflow as vf
from veilflow.datasets import cohort


@pytest.fixture(scope="module")
def patients():
    return vf.hospital(500, seed=3)


def test_there_are_26_attributes_and_a_label(patients):
    assert list(patients.columns) == [*cohort.ATTRIBUTES, cohort.LABEL]
    assert len(cohort.ATTRIBUTES) == 26
    assert len(set(cohort.ATTRIBUTES) - set(cohort.DROPPED)) == 19


def test_values_are_in_the_declared_ranges(patients):
    for name, attribute in cohort.ATTRIBUTES.items():
        values = patients[name].dropna()
        assert values.between(attribute.low, attribute.high).all(), name


def test_cells_are_there_as_often_as_in_the_paper(patients):
    for name, attribute in cohort.ATTRIBUTES.items():
        share = patients[name].notna().mean()
        assert share == pytest.approx(attribute.observed / cohort.PATIENTS, abs=0.09), name


def test_the_label_follows_the_rule_and_both_kinds_are_common(patients):
    known = patients.dropna(subset=["pap_diastolic", "pap_systolic"])
    pressure = cohort.mean_pressure(known["pap_diastolic"], known["pap_systolic"])
    np.testing.assert_array_equal(known[cohort.LABEL], pressure > cohort.THRESHOLD)
    assert 0.3 < patients[cohort.LABEL].mean() < 0.7


def test_a_seed_gives_the_same_patients_and_the_schema_fits_them(patients):
    again = vf.hospital(500, seed=3)
    assert patients.equals(again)
    assert vf.hospital_schema().names == tuple(patients.columns)
    assert len(vf.hospital_schema(kept=True, label=False).names) == 19
