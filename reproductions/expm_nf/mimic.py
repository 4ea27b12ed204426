"""The paper's own data, for who has them: the file `all_hourly_data.h5` that MIMIC-Extract writes.

The file holds two frames that are read here. `vitals_labs_mean` has a row for each stay and hour
(index: subject_id, hadm_id, icustay_id, hours_in) and a column for each measurement, the mean of that
hour (columns: the measurement's name, then "mean"). `patients` has a row for each stay, with age,
gender, mort_icu, los_icu (days) and max_hours. MIMIC-III is given to credentialed users only, so the
file is not part of any test; one of the same layout is.

It goes through the same code as the open data, with the same declared scales: 33 measurements that
both have, age and gender. The paper takes all 104, scaled by their own means and deviations.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reproductions.expm_nf.data import Data, stays
from reproductions.expm_nf.features import OPEN

if TYPE_CHECKING:
    import pandas as pd

_OLDEST = 91.0
"""Ages above 89 are written as 300 in MIMIC: this is what they are taken for."""
_GAP = 6
"""Hours between what a model sees and what it predicts, as in the paper."""
_ID = "icustay_id"


def read(path: str | Path) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """The frames `vitals_labs_mean` and `patients`.

    Raises:
        FileNotFoundError: The file is not there.
        ImportError: PyTables is not installed.
    """
    import pandas as pd

    if not Path(path).is_file():
        raise FileNotFoundError(
            "MIMIC-Extract's all_hourly_data.h5 is not where you said. It is made from MIMIC-III by "
            "credentialed users; the open ICU data need nothing of it."
        )
    try:
        vitals: Any = pd.read_hdf(path, "vitals_labs_mean")
        patients: Any = pd.read_hdf(path, "patients")
    except ImportError as error:
        raise ImportError("HDF5 files need PyTables: pip install tables.") from error
    return vitals, patients


def from_frames(
    vitals: "pd.DataFrame", patients: "pd.DataFrame", task: str, *, hours: int = 24
) -> Data:
    """Series and labels, split by subject.

    A subject's part is a hash of its number, 70 / 10 / 20 %. The paper permutes the subjects, by which
    one more patient would deal out all others anew.

    Args:
        vitals: As `read` returns it.
        patients: As `read` returns it.
        task: "mortality" (death in intensive care) or "stay" (there for more than three days).
        hours: How many hours a model sees. Stays that end within six hours after are left out.

    Returns:
        The parts for training, choices and test.

    Raises:
        ValueError: There is no such task.
    """
    if task not in ("mortality", "stay"):
        raise ValueError(f"the tasks are mortality and stay; got {task!r}.")
    people: Any = patients.reset_index()
    people = people[people["max_hours"] > hours + _GAP]
    label = people["mort_icu"] > 0 if task == "mortality" else people["los_icu"] > 3
    events = _events(vitals, people)
    part = np.array([_part(subject) for subject in people["subject_id"]])

    def take(wanted: int):
        rows = part == wanted
        return stays(events, people[_ID].to_numpy()[rows], label.to_numpy()[rows], hours=hours)

    return Data(take(0), take(1), take(2))


def _events(vitals: "pd.DataFrame", people: "pd.DataFrame") -> "pd.DataFrame":
    """The table of hours as a list of events, with age and gender as events of the first minute."""
    import pandas as pd

    index = vitals.index
    place = {
        "RecordID": index.get_level_values(_ID),
        "minute": 60 * index.get_level_values("hours_in").to_numpy(),
    }
    lists = []
    for column in vitals.columns:
        name = column[0] if isinstance(column, tuple) else column
        if name in OPEN:
            value = vitals[column].to_numpy()
            lists.append(pd.DataFrame(place | {"parameter": OPEN[name], "value": value}))
    age = np.minimum(people["age"].to_numpy(float), _OLDEST)
    gender = (people["gender"] == "M").to_numpy(float)
    for name, value in (("Age", age), ("Gender", gender)):
        row = {"RecordID": people[_ID].to_numpy(), "minute": 0, "parameter": name, "value": value}
        lists.append(pd.DataFrame(row))
    return pd.concat(lists, ignore_index=True)


def _part(subject: int) -> int:
    """0, 1 or 2: training, choices, test."""
    digest = hashlib.blake2b(str(int(subject)).encode(), digest_size=8).digest()
    share = int.from_bytes(digest, "little") / 2**64
    return int(share >= 0.7) + int(share >= 0.8)
