"""Anomaly detection: Figures 5 and 8 of DP-NF, Table 3 of DP-LFlow, sparse vector, attacks and frauds.

`veilflow reproduce anomaly` on the command line; here, `reproduce(small=True)` and the like. Runs are
kept in `reproductions/anomaly/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions import dp_lflow, dp_nf
from reproductions.anomaly_detection import figures, page, runs, tables, targets
from reproductions.anomaly_detection.runs import ENSEMBLE, PARTS, REFERENCE, STREAMS, Task
from reproductions.anomaly_detection.tables import SHEET
from reproductions.system import Kind, System

FITS = "fits"


def _told(result: dict[str, Any]) -> str:
    words = {"auroc": "AUROC", "unanimous": "unanimous votes", "equal": "plain queries as accurate"}
    found = [f"{word} {result[name]:.4g}" for name, word in words.items() if name in result]
    return ", ".join(found) or "done"


def _kind_of(task: Task) -> str:
    if task.method == REFERENCE:
        return REFERENCE
    return task.data if task.data in _KINDS else FITS


def _fits(*own: str) -> Kind:
    run = dp_nf.SYSTEM.kinds[dp_nf.RUN]
    return Kind(
        own=(*own, "dp_nf/data", "dp_nf/estimators"),
        library=(*run.library, "models.detect.likelihood"),
        besides=run.besides,
    )


_VOTES = ("datasets", "models.detect.ensemble")
_STREAMS = Kind(own=("ensembles", "streams"), library=_VOTES, besides=("tabular",))
_KINDS = {
    FITS: _fits("fits", "sets"),
    REFERENCE: _fits("fits", "references", "sets"),
    ENSEMBLE: Kind(own=("ensembles",), library=_VOTES, besides=("tabular",)),
    **dict.fromkeys((PARTS, *STREAMS), _STREAMS),
}
SYSTEM = System(
    name="anomaly",
    splits=3,
    most_splits=10,
    data=tables.TITLES,
    blocks=SHEET.blocks,
    kinds=_KINDS,
    kind_of=_kind_of,
    runs=runs,
    told=_told,
    tables=tables,
    unmeasured=SHEET.unmeasured,
    figures=figures,
    page=page,
    small=lambda splits: (tables.tasks(targets.SMALL, splits), ()),
    borrows=(dp_nf.SYSTEM, dp_lflow.SYSTEM),
)
reproduce = SYSTEM.reproduce
