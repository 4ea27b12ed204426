"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

import numpy as np

from reproductions import pages
from reproductions.expm_nf import features, figures, prose, targets
from reproductions.expm_nf.tables import SHEET
from reproductions.records import Record

_ICU = (
    targets.ICU,
    targets.ACCOUNTANTS,
    targets.LAST,
    targets.GRUD,
    targets.NORMALIZED,
    targets.PAPER,
)


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page, from the folder of the figures and what was measured."""
    parts = (
        (prose.TARGETS, targets.TARGETS),
        (prose.ADULT, (targets.ADULT, targets.TENTH, targets.WIDE)),
        (prose.ICU.format(features=_features()), _ICU),
        (prose.ATTACKS, (targets.ATTACKS,)),
        (prose.TIMES, (targets.TIMES, targets.TIMES_STAY)),
        (prose.SMALL, (targets.SMALL,)),
    )
    return pages.sections(
        folder,
        records,
        SHEET,
        parts,
        figures.all_figures(10),
        head=(prose.HEAD, prose.MEASURED if any(r.splits for r in records) else prose.NONE),
        remarks=(prose.SEARCH + _found(), prose.LOOKED_AT, prose.DECLARED),
        how_title=prose.HOW,
    )


def _features() -> str:
    """Which of the paper's measurements these stays have."""
    return prose.FEATURES.format(
        all=len(features.MEASUREMENTS),
        open=len(features.OPEN),
        lacking=len(features.LACKING),
        names="; ".join(features.LACKING),
    )


def _found() -> str:
    """The table of the search: of every method and epsilon the first trial and the best."""
    from reproductions.expm_nf import search  # a command, which must not be imported by its package

    trials, rows = search.trials(), []
    groups = dict.fromkeys((one["kind"], one["method"], one["epsilon"]) for one in trials)
    for kind, method, epsilon in sorted(groups):
        here = [
            t for t in trials if (t["kind"], t["method"], t["epsilon"]) == (kind, method, epsilon)
        ]
        best = max(here, key=lambda one: float(np.mean(one["aucs"])))
        scores = (f"{np.mean(one['aucs']):.4f}" for one in (here[0], best))
        words = ", ".join(f"{name} {value:g}" for name, value in best["settings"].items())
        rows.append([_KINDS[kind], method, f"{epsilon:g}", str(len(here)), *scores, words])
    heads = ["network", "method", "epsilon", "trials", "first AUC", "best AUC", "best settings"]
    return pages.table(heads, rows, words=2)


_KINDS = {"lr": "LR", "grud": "GRU-D"}
