"""DP-NF (Waites and Cummings, 2021): Tables 1, 2, 4 and 5 and Figures 1 to 5, 7 and 9.

`veilflow reproduce dp-nf` on the command line; here, `reproduce(splits=1)` and the like. Runs are
kept in `reproductions/dp-nf/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions.dp_nf import figures, page, paper, runs, tables
from reproductions.dp_nf.data import FACTS, SPLITS
from reproductions.system import Kind, System

RUN = "run"


def _told(result: dict[str, Any]) -> str:
    mean = result["log_likelihood"]["mean"]
    return f"log-likelihood {'minus infinity' if mean is None else f'{mean:.3f}'}"


_MEASURES = ("log_likelihood", "marginals", "projection", "regression", "roc")
_RUN = Kind(
    own=("data", "estimators", "runs"),
    library=(
        "datasets",
        *(f"evaluation.{name}" for name in _MEASURES),
        "models.density",
        "models.mixture",
        "privacy.budget",
    ),
    besides=("tabular",),  # what reads and writes files: rows of a run come as arrays
)
SYSTEM = System(
    name="dp-nf",
    splits=SPLITS,
    most_splits=SPLITS,
    data=FACTS,
    blocks=paper.BLOCKS,
    kinds={RUN: _RUN},
    kind_of=lambda task: RUN,
    runs=runs,
    told=_told,
    tables=tables,
    unmeasured=tables.unmeasured,
    figures=figures,
    page=page,
)
reproduce = SYSTEM.reproduce
