"""What other reproductions have measured and this page is about: Figure 5 and Table 3.

Their fits take a GPU, and are not done twice. Records keep the commit, the date and the device of
the run.
"""

import math
from dataclasses import replace
from pathlib import Path

from reproductions import dp_lflow, dp_nf
from reproductions import records as record_files
from reproductions.dp_nf.tables import AREA, FIGURE_5
from reproductions.records import Record

TABLE_3 = "3"
_FLOW, _MIXTURE, _PLAIN = "DP-NF", "DP-MoG_3", "NF without privacy"
_LEAD = "AUROC above that of DP-MoG_3 by"
_LOST = "AUROC below that without privacy by"
METRICS = (_LEAD, _LOST)
"""What must be reached of Figure 5."""
_MEAN = "OOD AUROC"


def records() -> list[Record]:
    """Figure 5 with what must be reached of it, and the means of Table 3."""
    areas = _of(dp_nf.SYSTEM.out / "results.json", FIGURE_5, AREA)
    images = _of(dp_lflow.SYSTEM.out / "results.json", TABLE_3, _MEAN)
    return [*_targets(areas), *areas, *images]


def _of(path: Path, table: str, metric: str) -> list[Record]:
    return [r for r in record_files.read(path) if (r.table, r.metric) == (table, metric)]


def _targets(areas: list[Record]) -> list[Record]:
    """Differences of two areas; none where one of them is missing."""
    known = {(r.row, r.column): r for r in areas if r.ours is not None}
    found = []
    for epsilon, other, at, metric, must in (
        (1.0, _MIXTURE, 1.0, _LEAD, 0.0),
        (4.0, _PLAIN, math.inf, _LOST, 0.02),
    ):
        mine, theirs = known.get((_FLOW, _column(epsilon))), known.get((other, _column(at)))
        if mine is None or theirs is None:
            continue
        assert mine.ours is not None
        assert theirs.ours is not None
        lead = mine.ours - theirs.ours
        found.append(
            replace(
                mine,
                table="targets",
                metric=metric,
                ours=lead if metric == _LEAD else -lead,
                spread=None,
                must=must,
                better="higher" if metric == _LEAD else "lower",
                note="measured by veilflow reproduce dp-nf",
            )
        )
    return found


def _column(epsilon: float) -> str:
    return f"Life Science, {epsilon:g}"
