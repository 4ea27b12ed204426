"""ExpM+NF (Bridges, Tombs and Stanley, 2024): AUC over epsilon, exact samplers beside flows, attacks.

`veilflow reproduce expm-nf` on the command line; here, `reproduce(small=True)` and the like. Runs are
kept in `reproductions/expm-nf/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions.expm_nf import figures, page, probes, runs, tables, targets
from reproductions.expm_nf.runs import AUDIT, EXACT, TIME, Task
from reproductions.expm_nf.tables import SHEET, TITLES
from reproductions.system import System

FITS = "fits"


def _told(result: dict[str, Any]) -> str:
    words = {"auc": "AUC", "distance": "total variation", "lower_bound": "epsilon at least"}
    words |= {"second": "seconds of a second fit"}
    return ", ".join(f"{word} {result[name]:.3f}" for name, word in words.items() if name in result)


def _kind_of(task: Task) -> str:
    where = task.data.partition("/")[0]
    return where if where in _KINDS else FITS


_KINDS = (FITS, EXACT, AUDIT, TIME)
SYSTEM = System(
    name="expm-nf",
    splits=10,
    most_splits=10,
    data=tuple(dict.fromkeys(name.partition("/")[0] for name in TITLES)),
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
    small=lambda splits: (
        tables.tasks((targets.SMALL,), splits) + tables.quick_attacks(splits),
        (),
    ),
)
reproduce = SYSTEM.reproduce
