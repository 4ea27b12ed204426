"""DP-NF (Waites and Cummings, 2021): Tables 1, 2, 4 and 5 and the figures.

`veilflow reproduce dp-nf` on the command line; here, `reproduce(splits=1)` and the like. Runs are
kept in `reproductions/dp-nf/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions.dp_nf import figures, page, paper, probes, runs, tables
from reproductions.dp_nf.data import FACTS, SPLITS
from reproductions.system import System

RUN, ENSEMBLE = "run", "ensemble"


def _told(result: dict[str, Any]) -> str:
    if "unanimous" in result:
        return f"unanimous on {result['unanimous']:.0%} of the box"
    mean = result["log_likelihood"]["mean"]
    return f"log-likelihood {'minus infinity' if mean is None else f'{mean:.3f}'}"


SYSTEM = System(
    name="dp-nf",
    splits=SPLITS,
    most_splits=SPLITS,
    data=FACTS,
    blocks=paper.BLOCKS,
    kinds=(RUN, ENSEMBLE),
    kind_of=lambda task: ENSEMBLE if task.method.startswith(ENSEMBLE) else RUN,
    probes=probes.PROBES,
    runs=runs,
    told=_told,
    tables=tables,
    unmeasured=tables.unmeasured,
    figures=figures,
    page=page,
)
reproduce = SYSTEM.reproduce
