"""ICU stays as hourly series with gaps: values, mask, time since measured, all by the stay itself.

The data are those of the PhysioNet/CinC Challenge 2012: 48 hours of irregular measurements of 12,000
stays. What counts as public of them: the list of parameters below with its ranges and scales, which
come from what medicine knows of adults in intensive care and not from the records, and the number of
hours. Nothing is fitted: no mean, no deviation, no imputation. A stay's arrays are made from the events
of that stay, so that one stay is one record.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

import veilflow as vf

if TYPE_CHECKING:
    import pandas as pd

HOURS = 48
"""How much of a stay the challenge gives."""
_DAY = 24.0
_FURTHEST = 4.0
"""Spreads from the usual value at which a scaled one is cut off: a record's influence is bounded.

It was set after the largest scaled value of all sets had been looked at; the page says so."""


class Scale(NamedTuple):
    """What is declared of a parameter: (mean - usual) / spread is what a model sees."""

    low: float
    """Least value that can be one. A value outside of [low, high] counts as not measured."""
    high: float
    usual: float
    """Scaled to 0: what a gap before the first measurement counts as."""
    spread: float
    """How far values of the sick usually are from it; for logarithms, in units of log(1 + value)."""
    log: bool = False
    """Whether ratios matter, not differences: concentrations that span orders of magnitude."""

    def __call__(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Values within the range, scaled and cut off."""
        usual = np.log1p(self.usual) if self.log else self.usual
        scaled = ((np.log1p(values) if self.log else values) - usual) / self.spread
        return np.clip(scaled, -_FURTHEST, _FURTHEST)


DESCRIPTORS = {
    "Age": Scale(15, 120, 65, 17),
    "Gender": Scale(0, 1, 0.5, 0.5),
    "Height": Scale(100, 230, 170, 10),
}
"""Known on admission, and through all hours: the first value counts, whenever it is written down."""

UNITS = (1, 2, 3, 4)
"""Codes of `ICUType`: coronary, cardiac surgery, medical, surgical. One column each."""

SERIES = {
    # blood pressure (mmHg), by a line in an artery and by a cuff
    "SysABP": Scale(30, 300, 120, 23),
    "DiasABP": Scale(10, 200, 60, 13),
    "MAP": Scale(15, 250, 80, 15),
    "NISysABP": Scale(30, 300, 120, 23),
    "NIDiasABP": Scale(10, 200, 60, 14),
    "NIMAP": Scale(15, 250, 78, 15),
    # heart, breath, warmth, awareness, water
    "HR": Scale(15, 260, 85, 18),
    "RespRate": Scale(2, 80, 19, 5),
    "Temp": Scale(25, 43.5, 37, 0.9),
    "GCS": Scale(3, 15, 12, 4),
    "Urine": Scale(0, 5_000, 90, 1.0, log=True),
    "Weight": Scale(25, 350, 80, 22),
    # ventilation and gases of the blood
    "MechVent": Scale(0, 1, 0, 1),
    "FiO2": Scale(0.2, 1, 0.5, 0.2),
    "SaO2": Scale(20, 100, 97, 3),
    "PaO2": Scale(15, 700, 110, 0.45, log=True),
    "PaCO2": Scale(8, 200, 40, 9),
    "pH": Scale(6.5, 8, 7.38, 0.08),
    "HCO3": Scale(2, 60, 24, 5),
    "Lactate": Scale(0.1, 40, 2, 0.45, log=True),
    # salts, sugar, kidneys
    "Na": Scale(90, 190, 139, 5),
    "K": Scale(1, 12, 4.1, 0.6),
    "Mg": Scale(0.2, 12, 2, 0.4),
    "Glucose": Scale(10, 2_000, 130, 0.35, log=True),
    "BUN": Scale(1, 300, 22, 0.65, log=True),
    "Creatinine": Scale(0.1, 30, 1.1, 0.4, log=True),
    # liver
    "ALT": Scale(1, 20_000, 40, 1.2, log=True),
    "AST": Scale(1, 30_000, 50, 1.2, log=True),
    "ALP": Scale(5, 5_000, 90, 0.6, log=True),
    "Bilirubin": Scale(0.05, 80, 1, 0.6, log=True),
    "Albumin": Scale(0.5, 7, 3, 0.7),
    "Cholesterol": Scale(20, 800, 155, 45),
    # blood cells, heart muscle
    "HCT": Scale(5, 70, 31, 5),
    "Platelets": Scale(1, 3_000, 190, 0.5, log=True),
    "WBC": Scale(0.05, 500, 11, 0.45, log=True),
    "TroponinI": Scale(0, 200, 1, 1.0, log=True),
    "TroponinT": Scale(0, 50, 0.1, 0.6, log=True),
}
"""Measured again and again, or not at all."""

NAMES = (*SERIES, *DESCRIPTORS, *(f"ICUType={code}" for code in UNITS))
"""The features, in the order of the last axis."""


class Stays(NamedTuple):
    """Stays as arrays: a record is one entry of each. Not to be changed, and never to be shown."""

    values: Float[np.ndarray, "stays hours features"]
    """Hourly means, scaled; 0 in a gap."""
    mask: Float[np.ndarray, "stays hours features"]
    """1 where the feature was measured in that hour."""
    since: Float[np.ndarray, "stays hours features"]
    """Days since the stay's last measurement of the feature, or since admission."""
    labels: Int[np.ndarray, " stays"]

    def flat(self) -> Float[np.ndarray, "stays columns"]:
        """Columns in [-1, 1] for a model without time: each hour's last value, descriptors once."""
        series = carried(self.values, self.mask)[:, :, : len(SERIES)]
        return self._with_descriptors(series)

    def last(self) -> Float[np.ndarray, "stays columns"]:
        """The same of the last hour alone: one column for each feature."""
        return self._with_descriptors(carried(self.values, self.mask)[:, -1:, : len(SERIES)])

    def _with_descriptors(self, series: Float[np.ndarray, "stays hours series"]) -> np.ndarray:
        known = self.values[:, 0, len(SERIES) :]
        return np.concatenate([series.reshape(len(series), -1), known], axis=1) / _FURTHEST


class Data(NamedTuple):
    """The three sets of the challenge."""

    train: Stays
    """Set a."""
    dev: Stays
    """Set b, for choices. None is made by set c."""
    test: Stays
    """Set c."""


@lru_cache(maxsize=2)
def load(task: str, *, hours: int = HOURS) -> Data:
    """The stays of the challenge; read from the folder `VEILFLOW_DATA`.

    - mortality: the label is death in hospital.
    - stay: the label is a stay in hospital of more than three days; where its length is unknown
      the stay is left out. Stays of less than two days are not in the challenge, and its lengths are of
      the stay in hospital, not in intensive care: more than nine in ten labels are 1.

    Args:
        task: "mortality" or "stay".
        hours: How many of the first hours a model sees, up to 48.

    Returns:
        Sets a, b and c.

    Raises:
        ValueError: There is no such task, or a file is not the one it should be.
        FileNotFoundError: A file is not there.
    """
    if task not in ("mortality", "stay"):
        raise ValueError(f"the tasks are mortality and stay; got {task!r}.")
    if not 1 <= hours <= HOURS:
        raise ValueError(f"hours must be 1 to {HOURS}, got {hours}.")
    parts: Any = vf.datasets.load("physionet2012")
    return Data(*(_set(parts, name, task, hours) for name in "abc"))


def _set(parts: Any, name: str, task: str, hours: int) -> Stays:
    outcomes = parts["outcomes"].query("set == @name")
    if task == "stay":
        outcomes = outcomes.query("length_of_stay >= 0")
        labels = outcomes["length_of_stay"].to_numpy() > 3
    else:
        labels = outcomes["in_hospital_death"].to_numpy() > 0
    events = parts["events"].query("set == @name")
    return stays(events, outcomes["RecordID"].to_numpy(), labels, hours=hours)


def stays(
    events: "pd.DataFrame",
    ids: Int[np.ndarray, " stays"],
    labels: Bool[np.ndarray, " stays"],
    *,
    hours: int,
) -> Stays:
    """Events as hourly series.

    Each array's entry of a stay depends on the events of that stay only.

    Args:
        events: Columns RecordID, minute (since admission), parameter and value, in any order.
            Parameters that are not listed here, stays that are not in `ids`, minutes beyond the hours
            and values beyond their range are left out.
        ids: The stays, each once.
        labels: Labels of the stays.
        hours: How many hours the series have.

    Returns:
        The stays in the order of `ids`.

    Raises:
        ValueError: A stay is listed twice.
    """
    import pandas as pd

    index = pd.Index(ids)
    if not index.is_unique:
        raise ValueError("ids lists a stay twice. Give each stay once.")
    place = index.get_indexer(events["RecordID"].to_numpy())
    minute = events["minute"].to_numpy().astype(np.float64)
    value = events["value"].to_numpy().astype(np.float64)
    parameter = events["parameter"].astype(str).to_numpy()
    inside = (place >= 0) & (minute >= 0) & (minute < 60 * hours)
    place, value, parameter = place[inside], value[inside], parameter[inside]
    hour = (minute[inside] // 60).astype(np.int64)

    shape = (len(ids), hours, len(NAMES))
    values, mask = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for column, (name, scale) in enumerate(SERIES.items()):
        rows = (parameter == name) & (value >= scale.low) & (value <= scale.high)
        mean, measured = _means(place[rows] * hours + hour[rows], value[rows], shape[0] * hours)
        values[:, :, column] = np.where(measured, scale(mean), 0).reshape(shape[:2])
        mask[:, :, column] = measured.reshape(shape[:2])
    for column, (name, scale) in enumerate(DESCRIPTORS.items(), start=len(SERIES)):
        rows = (parameter == name) & (value >= scale.low) & (value <= scale.high)
        mean, measured = _means(place[rows], value[rows], shape[0])
        values[:, :, column] = np.where(measured, scale(mean), 0)[:, None]
        mask[:, :, column] = measured[:, None]
    for column, code in enumerate(UNITS, start=len(SERIES) + len(DESCRIPTORS)):
        rows = (parameter == "ICUType") & (value == code)
        _, measured = _means(place[rows], value[rows], shape[0])
        values[:, :, column] = mask[:, :, column] = measured[:, None]
    return Stays(values, mask, since_measured(mask), np.asarray(labels).astype(np.int32))


def since_measured(
    mask: Float[np.ndarray, "stays hours features"],
) -> Float[np.ndarray, "stays hours features"]:
    """Days since the last earlier hour with a measurement, or since the first hour."""
    since = np.zeros_like(mask)
    for hour in range(1, mask.shape[1]):
        since[:, hour] = 1 / _DAY + np.where(mask[:, hour - 1] > 0, 0, since[:, hour - 1])
    return since


def carried(
    values: Float[np.ndarray, "stays hours features"],
    mask: Float[np.ndarray, "stays hours features"],
) -> Float[np.ndarray, "stays hours features"]:
    """In a gap the stay's last value, 0 before the first."""
    filled = np.where(mask > 0, values, 0)
    for hour in range(1, mask.shape[1]):
        filled[:, hour] = np.where(mask[:, hour] > 0, filled[:, hour], filled[:, hour - 1])
    return filled


def _means(
    cell: Int[np.ndarray, " events"], value: Float[np.ndarray, " events"], cells: int
) -> tuple[Float[np.ndarray, " cells"], Bool[np.ndarray, " cells"]]:
    """The mean of every cell's events, and whether it has any. No cell sees another's."""
    count = np.bincount(cell, minlength=cells)
    total = np.bincount(cell, weights=value, minlength=cells)
    return total / np.maximum(count, 1), count > 0
