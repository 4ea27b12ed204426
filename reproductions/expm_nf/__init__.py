"""ExpM+NF (Bridges, Tombs and Stanley, 2024): AUC over epsilon, exact samplers beside flows, attacks.

`veilflow reproduce expm-nf` on the command line; here, `reproduce(small=True)` and the like. Runs are
kept in `reproductions/expm-nf/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions.expm_nf import figures, page, runs, tables, targets
from reproductions.expm_nf.runs import AUDIT, EXACT, TIME, Task
from reproductions.expm_nf.tables import SHEET, TITLES
from reproductions.system import Kind, System

FITS = "fits"


def _told(result: dict[str, Any]) -> str:
    words = {"auc": "AUC", "distance": "total variation", "lower_bound": "epsilon at least"}
    words |= {"second": "seconds of a second fit"}
    return ", ".join(f"{word} {result[name]:.3f}" for name, word in words.items() if name in result)


def _kind_of(task: Task) -> str:
    where = task.data.partition("/")[0]
    return where if where in _OWN else FITS


_FITTED = ("adult", "data", "fits", "methods", "sets")
_OWN = {
    FITS: _FITTED,
    EXACT: ("exact",),
    AUDIT: ("audit", "exact"),
    TIME: (*_FITTED, "timing"),
}
_SAMPLERS = ("flow_sampler", "grid", "rejection", "zoom")
_BASELINES = ("dp_sgd", "non_private", "objective", "output", "trainable_grud")
_LIBRARY = (
    "datasets",
    "models.expm.classifier",
    *(f"models.expm.{name}" for name in ("diagnostics", "grud", *_SAMPLERS)),
    *(f"models.expm.baselines.{name}" for name in _BASELINES),
)
SYSTEM = System(
    name="expm-nf",
    splits=10,
    most_splits=10,
    data=tuple(dict.fromkeys(name.partition("/")[0] for name in TITLES)),
    blocks=SHEET.blocks,
    kinds={kind: Kind(own=own, library=_LIBRARY) for kind, own in _OWN.items()},
    kind_of=_kind_of,
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
