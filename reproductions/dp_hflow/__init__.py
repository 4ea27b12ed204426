"""DP-HFlow (Lee et al., 2022): Tables 1 to 3, Figures 2 to 5, and ablations of ours beside them.

`veilflow reproduce dp-hflow` on the command line; here, `reproduce(splits=1)` and the like. Runs are
kept in `reproductions/dp-hflow/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions.dp_hflow import figures, page, peers, probes, runs, tables
from reproductions.dp_hflow.estimators import MERF
from reproductions.dp_hflow.measures import TITLES
from reproductions.dp_hflow.runs import REFERENCES, Task
from reproductions.system import System

MODEL, EMBEDDING, REFERENCE = "model", "embedding", "reference"


def _told(result: dict[str, Any]) -> str:
    apart = f"2-way total variation {result['marginals']['mean_two_way']:.4f}"
    if "classifiers" not in result:
        return apart
    mean = result["classifiers"]["mean"]
    return f"AUROC {mean['auroc']:.3f}, macro-F1 {mean['macro_f1']:.3f}, {apart}"


def _kind_of(task: Task) -> str:
    if task.method in (*REFERENCES, *peers.METHODS):  # of peers, only what is measured is our code
        return REFERENCE
    return EMBEDDING if task.method == MERF else MODEL


SYSTEM = System(
    name="dp-hflow",
    splits=3,
    most_splits=10,
    data=TITLES,
    blocks=tables.SHEET.blocks,
    kinds=(REFERENCE, EMBEDDING, MODEL),
    kind_of=_kind_of,
    probes=probes.PROBES,
    runs=runs,
    told=_told,
    tables=tables,
    unmeasured=tables.SHEET.unmeasured,
    figures=figures,
    page=page,
)
reproduce = SYSTEM.reproduce
