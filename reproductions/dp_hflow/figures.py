"""Figures 2 to 5 of the paper, and two of our own, from finished runs.

Real rows appear as histograms and rank correlations only, never one by one.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from reproductions import drawing
from reproductions.blocks import Block, Column
from reproductions.dp_hflow import ablations, gradients, tables
from reproductions.dp_hflow.estimators import MERF
from reproductions.dp_hflow.measures import across
from reproductions.dp_hflow.measuring import SHOWN
from reproductions.dp_hflow.runs import GRADIENTS_OF, Task
from reproductions.figure import Figure, Find
from reproductions.metrics.figures import Line
from reproductions.metrics.marginals import Marginal, draw_marginals
from reproductions.records import Record

METHODS = {"TableFlow": "codes", "DP-HFlow made sound": "hflow"}
"""Those whose rows are shown."""
BASELINES = {"DP-MERF": MERF}
"""Those of others, in Figure 3 only."""
_EPSILON = 1.0
_LIKELIHOOD, _AREA, _F1 = across("adult", "likelihood", "auroc", "f1")


def _first(data: str, method: str) -> Task:
    return Task(data=data, method=method, epsilon=_EPSILON, split=1)


def _suffix(method: str) -> str:
    return "" if method == "codes" else f"-{method}"


def _scales() -> Figure:
    """Figure 2: norms of gradients, layer by layer."""

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        norms = {
            name.removeprefix(gradients.PREFIX): norm
            for name, norm in find(task).arrays.items()
            if name.startswith(gradients.PREFIX)
        }
        if not norms:
            raise ValueError("its run is from before gradients were kept")
        gradients.draw(path, norms, title=f"Adult, epsilon {_EPSILON:g}")

    task = _first("adult", GRADIENTS_OF)
    caption = (
        "Figure 2: norms of the gradients of single training records of Adult after a private fit at "
        "(1, 1e-5), before any clipping, by layer of the three networks: the variational dequantizer, "
        "the network of the splines, and the linear maps. Boxes are quartiles, whiskers 5 and 95 %; "
        "the y-axis is in powers, as in the paper."
    )
    return Figure("figure-2", caption, (task,), draw)


def _marginals(name: str, method: str) -> Figure:
    """Figure 3: histograms of real and synthetic rows laid over each other."""

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        found = [
            Marginal(*(find(task).arrays[f"{column}_{x}"] for x in ("edges", "real", "synthetic")))
            for task in tasks
            for column in SHOWN[task.data]
        ]
        names = [column.replace("_", " ") for task in tasks for column in SHOWN[task.data]]
        # the last two words tell long names apart well enough
        short = [" ".join(words.split()[-2:]) for words in names]
        draw_marginals(path, {name: found}, columns=short, title=f"epsilon {_EPSILON:g}")

    tasks = tuple(_first(data, method) for data in ("covertype", "adult"))
    caption = (
        f"Figure 3, {name}: histograms of three numbers of Covertype and three lists of Adult at "
        "(1, 1e-5), real training rows and synthetic rows, with their total-variation distance (TV). "
        "Listed values stand in the order of the schema, missing cells last. Of the paper's "
        "columns only Aspect is known by name."
    )
    return Figure(f"figure-3{_suffix(method)}", caption, tasks, draw)


def _rank_correlations(name: str, method: str) -> Figure:
    """The matrices whose distance Table 1 has."""

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        tau = find(task).result["rank_correlations"]
        real, made = (np.array(tau[x]) for x in ("real", "synthetic"))
        panels = {
            "real rows": real,
            f"{name}, epsilon {_EPSILON:g}": made,
            "difference": made - real,
        }
        labels = [label.replace("_", " ") for label in tau["columns"]]
        drawing.draw_matrices(path, panels, labels=labels, title="Covertype, Kendall's tau")

    task = _first("covertype", method)
    caption = f"Beside Table 1, {name}: Kendall's tau of the numbers of Covertype at (1, 1e-5)."
    return Figure(f"kendall{_suffix(method)}", caption, (task,), draw)


def _cell(records: list[Record], block: Block, row: str, column: Column, epsilon: float) -> Record:
    target = f"Adult, {epsilon:g}"
    key = (block.table, row, target, column.metric)
    return next(r for r in records if r.key == key)


def _figure_4(path: Path, find: Find, records: list[Record]) -> None:
    block, epsilon = ablations.FIGURE_4, ablations.CLIPPING_EPSILON
    settings: dict[str, Mapping[str, str]] = {
        "clipping": {name: name for name in ablations.CLIPPINGS},
        "sparsity": {f"{level:g}": f"sparsity {level:g}" for level in ablations.SPARSE},
    }
    drawing.draw_points(
        path,
        {
            setting: {
                column.metric: {
                    label: _point(_cell(records, block, row, column, epsilon))
                    for label, row in rows.items()
                }
                for column in (_LIKELIHOOD, _AREA, _F1)
            }
            for setting, rows in settings.items()
        },
        title=f"Adult, DP-HFlow made sound, epsilon {epsilon:g}",
    )


def _point(record: Record) -> tuple[float, float]:
    if record.ours is None:
        raise ValueError(f"{record.row} has no {record.metric}")
    return record.ours, record.spread or 0.0


def _over_epsilon(name: str, caption: str, block: Block, splits: int) -> Figure:
    """Lines of AUROC and macro-F1 over epsilon for each row of a block of ablations."""

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        lines: dict[str, Line] = {}
        for row in dict.fromkeys(row.name for row in block.rows):
            for column, style in ((_AREA, "-"), (_F1, "--")):
                cells = [_cell(records, block, row, column, e) for e in ablations.EPSILONS]
                values, spreads = zip(*(_point(cell) for cell in cells), strict=True)
                like = f"{row}, {_AREA.metric}" if column is _F1 else None
                lines[f"{row}, {column.metric}"] = Line(
                    x=ablations.EPSILONS, y=values, spread=spreads, style=style, like=like
                )
        drawing.draw_curves(
            path,
            lines,
            x_label="epsilon",
            y_label="mean over nine classifiers",
            ticks=ablations.EPSILONS,
        )

    return Figure(name, caption, tuple(tables.tasks((block,), splits)), draw)


def all_figures(splits: int) -> tuple[Figure, ...]:
    """Every figure; those of ablations need so many splits, the others the first one."""
    clipping = tuple(tables.tasks((ablations.FIGURE_4,), splits))
    return (
        _scales(),
        *(_marginals(name, method) for name, method in (METHODS | BASELINES).items()),
        *(_rank_correlations(name, method) for name, method in METHODS.items()),
        Figure(
            "figure-4",
            "Figure 4: log-likelihood of test rows and classification by clipping and by sparsity, on "
            "Adult. The paper shows neither epsilon nor scale.",
            clipping,
            _figure_4,
        ),
        _over_epsilon(
            "figure-5",
            "Figure 5: classification by dequantization over epsilon, on Adult.",
            ablations.FIGURE_5,
            splits,
        ),
        _over_epsilon(
            "warm-start",
            "Our own: what marginals and training bring over epsilon, on Adult.",
            ablations.WARM_START,
            splits,
        ),
    )
