"""What the DP-HFlow paper prints (Lee et al., 2022): Tables 1 to 3, as data, ours beside it.

In Tables 2 and 3 the paper's numbers, its peers' among them, stand with their standard deviations. The
header of the first column is lost in the text at hand; it can only be that of classifiers on real rows.
"""

import math
from dataclasses import replace

from reproductions.blocks import Block, Column, Columns, Row, given, numbers
from reproductions.dp_hflow.estimators import MERF
from reproductions.dp_hflow.measures import across
from reproductions.dp_hflow.runs import REAL

OURS = {
    "TableFlow": "codes",
    "TableFlow without a warm start": "codes-cold",
    "DP-HFlow made sound": "hflow",
}
"""The rows of ours that stand in every table."""

_WITHOUT = {"TableFlow without privacy": "codes", "DP-HFlow without privacy": "hflow"}
_MERF_WITHOUT = "DP-MERF without privacy, our protocol"
_PEERS = ("DP-CGAN", "GS-WGAN", "DP-MERF", "DP-HFlow")
_OPEN_PEERS = ("CTGAN", "DP-MERF", "DP-HFlow")

TAU = across("covertype", "rmse", "mae")
F1: Columns = sum((across(x, "f1") for x in ("adult", "census", "covertype", "intrusion")), ())
AREAS: Columns = sum((across(x, y) for y in ("auroc", "ap") for x in ("adult", "census")), ())


def _block(
    table: str,
    title: str,
    columns: Columns,
    peers: tuple[str, ...],
    *,
    real: str = "",
    open_peers: tuple[str, ...] = (),
) -> Block:
    """A table of the paper: its rows, then ours; what has no privacy last."""
    rows = [given(f"{n}, paper", columns, text) for n, text in zip(_PEERS, peers, strict=True)]
    beside = numbers(columns, peers[-1])
    merf = numbers(columns, peers[_PEERS.index("DP-MERF")])
    rows.append(Row(name="DP-MERF, our protocol", method=MERF, paper=merf))
    rows += [Row(name=name, method=method, paper=beside) for name, method in OURS.items()]
    if real:
        rows.append(given("real rows, paper", columns, real, epsilon=math.inf))
        beside = numbers(columns, real)
        rows.append(Row(name="real rows", method=REAL, epsilon=math.inf, paper=beside))
    for name, text in zip(_OPEN_PEERS, open_peers, strict=False):
        without = f"{name.removeprefix('DP-')} without privacy, paper"
        rows.append(given(without, columns, text, epsilon=math.inf))
    if open_peers:
        merf = numbers(columns, open_peers[_OPEN_PEERS.index("DP-MERF")])
        rows.append(Row(name=_MERF_WITHOUT, method=MERF, epsilon=math.inf, paper=merf))
        beside = numbers(columns, open_peers[-1])
        rows += [
            Row(name=name, method=method, epsilon=math.inf, paper=beside)
            for name, method in _WITHOUT.items()
        ]
    return Block(table=table, title=title, columns=columns, rows=tuple(rows))


TABLES = (
    _block(
        "1",
        "Table 1: Kendall's tau of Covertype, distance of the matrices",
        TAU,
        (".4434 .3549", ".2058 .1396", ".1863 .1342", ".0717 .0482"),
    ),
    _block(
        "2",
        "Table 2: macro-F1, mean over nine classifiers",
        F1,
        (
            ".46±.07 .45±.09 .15±.03 .19±.09",
            ".42±.09 .44±.13 .11±.03 .13±.08",
            ".37±.15 .48±.14 .31±.05 .36±.05",
            ".56±.07 .52±.03 .22±.03 .40±.03",
        ),
        real=".79±.02 .75±.01 .77±.16 .86±.07",
        open_peers=(
            ".74±.02 .67±.04 .22±.04 .54±.05",
            ".41±.16 .50±.14 .29±.05 .38±.06",
            ".75±.01 .70±.04 .49±.04 .46±.06",
        ),
    ),
    _block(
        "3",
        "Table 3: AUROC and average precision, means over nine classifiers",
        AREAS,
        (
            ".53±.14 .50±.16 .28±.09 .07±.03",
            ".48±.11 .56±.20 .25±.05 .10±.06",
            ".63±.09 .68±.13 .34±.08 .15±.07",
            ".75±.05 .78±.06 .50±.07 .17±.05",
        ),
        real=".90±.02 .93±.02 .77±.04 .59±.06",
        open_peers=(
            ".86±.02 .89±.04 .66±.04 .43±.07",
            ".65±.10 .69±.11 .39±.10 .15±.06",
            ".87±.02 .91±.04 .70±.05 .49±.08",
        ),
    ),
)
"""The paper's tables."""


def _shares() -> dict[Column, float]:
    """The share of the score of real rows that the paper's private model reaches."""
    found = {}
    for block in TABLES[1:]:
        private, real = (
            next(r.paper for r in block.rows if r.method == m) for m in ("hflow", REAL)
        )
        for each in block.columns:
            share = replace(each, share=True)
            found[share] = round(private[each] / real[each], 3)
    return found


SHARES = _shares()
