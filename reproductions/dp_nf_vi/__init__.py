"""DP-NF-VI (Su et al., 2023): Tables 2, 3, 5, 6 and 7, its figures, and corner plots of ours.

`veilflow reproduce dp-nf-vi` on the command line; here, `reproduce(splits=1)` and the like. Runs are
kept in `reproductions/dp-nf-vi/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions.dp_nf_vi import figures, page, probes, runs, tables
from reproductions.dp_nf_vi.data import TITLES
from reproductions.system import System

REGRESSION, COHORT = "regression", "cohort"


def _told(result: dict[str, Any]) -> str:
    if "largest_error" in result:
        return f"largest error {result['largest_error']:.2f} SDs"
    if "accuracy" in result:
        return f"accuracy {result['accuracy']:.2f}"
    return "a posterior"


SYSTEM = System(
    name="dp-nf-vi",
    splits=5,
    most_splits=5,
    data=TITLES,
    blocks=tables.SHEET.blocks,
    kinds=(REGRESSION, COHORT),
    kind_of=lambda task: REGRESSION if task.data == REGRESSION else COHORT,
    probes=probes.PROBES,
    runs=runs,
    told=_told,
    tables=tables,
    unmeasured=tables.SHEET.unmeasured,
    figures=figures,
    page=page,
)
reproduce = SYSTEM.reproduce
