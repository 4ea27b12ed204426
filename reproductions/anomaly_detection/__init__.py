"""Anomaly detection: Figures 5 and 8 of DP-NF, Table 3 of DP-LFlow, sparse vector, attacks and frauds.

`veilflow reproduce anomaly` on the command line; here, `reproduce(small=True)` and the like. Runs are
kept in `reproductions/anomaly/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions.anomaly_detection import figures, page, probes, runs, tables, targets
from reproductions.anomaly_detection.runs import ENSEMBLE, PARTS, REFERENCE, STREAMS, Task
from reproductions.anomaly_detection.tables import SHEET
from reproductions.system import System

FITS = "fits"


def _told(result: dict[str, Any]) -> str:
    words = {"auroc": "AUROC", "unanimous": "unanimous votes", "equal": "plain queries as accurate"}
    found = [f"{word} {result[name]:.4g}" for name, word in words.items() if name in result]
    return ", ".join(found) or "done"


def _kind_of(task: Task) -> str:
    if task.method == REFERENCE:
        return REFERENCE
    return task.data if task.data in _KINDS else FITS


_KINDS = (FITS, REFERENCE, ENSEMBLE, PARTS, *STREAMS)
SYSTEM = System(
    name="anomaly",
    splits=3,
    most_splits=10,
    data=tables.TITLES,
    blocks=SHEET.blocks,
    kinds=_KINDS,
    kind_of=_kind_of,
    probes=probes.PROBES,
    runs=runs,
    told=_told,
    tables=tables,
    unmeasured=SHEET.unmeasured,
    figures=figures,
    page=page,
    small=lambda splits: (tables.tasks(targets.SMALL, splits), ()),
)
reproduce = SYSTEM.reproduce
