"""Figures 1 to 3 and 6 of the paper, and some of our own, from finished runs.

Only samples are shown, never an image of the data.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reproductions import drawing
from reproductions.blocks import Block, Column
from reproductions.dp_lflow import ablations, tables
from reproductions.dp_lflow.data import FACTS
from reproductions.dp_lflow.measures import CNN, FID, SIZE
from reproductions.dp_lflow.paper import OURS, TABLE_1, TABLE_2, TRUE_EPSILONS
from reproductions.dp_lflow.runs import Task
from reproductions.dp_lflow.sharpening import RAW, SHARPENED
from reproductions.figure import Figure, Find
from reproductions.metrics.figures import Line
from reproductions.records import Record
from veilflow.images import save_grid

_CLASSES = 10
_LEAST_SIDE = 24
"""Pixels of an image in a grid, at least: smaller ones are enlarged."""


def _grid(name: str, task: Task, *, caption: str) -> Figure:
    """Samples in rows of the ten classes; beside them the same after post-processing."""

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        arrays = find(task).arrays
        shown = [arrays[f"shown_{part}"] for part in (RAW, SHARPENED) if f"shown_{part}" in arrays]
        save_grid(_enlarged(_beside(shown)), path, columns=len(shown) * (_CLASSES + 1) - 1)

    return Figure(name, caption, (task,), draw)


def _beside(grids: Sequence[np.ndarray]) -> np.ndarray:
    """Grids of ten columns as one, a white column between them."""
    white = np.full_like(grids[0].reshape(-1, _CLASSES, *grids[0].shape[1:])[:, :1], 255)
    parts = []
    for grid in grids:
        parts += [grid.reshape(-1, _CLASSES, *grid.shape[1:]), white]
    lines = np.concatenate(parts[:-1], axis=1)
    return lines.reshape(-1, *lines.shape[2:])


def _enlarged(images: np.ndarray) -> np.ndarray:
    times = -(-_LEAST_SIDE // images.shape[-1])
    return images.repeat(times, axis=2).repeat(times, axis=3)


def _samples(number: int, epsilon: float, data: str) -> Figure:
    return _grid(
        f"figure-{number}-{data}",
        Task(data=data, method="flows", epsilon=epsilon, split=1),
        caption=f"Figure {number}, {FACTS[data].title}: samples at ({epsilon:g}, 1e-5), a column for "
        "each class, on the left as they were drawn, on the right with post-processing. Neither "
        "samples of the paper's peers nor images of the data are shown.",
    )


def _faces(data: str, epsilon: float) -> Figure:
    return _grid(
        f"{data}-{epsilon:g}",
        Task(data=data, method="flows", epsilon=epsilon, split=1),
        caption=f"In the place of Figures 4 and 5: samples for {FACTS[data].title}, {_under(epsilon)}, "
        "the kinds in turns. What was learned from is generated, too.",
    )


def _pixels(method: str, name: str, epsilon: float) -> Figure:
    return _grid(
        f"figure-6-{method.removeprefix('pixels-')}-{epsilon:g}",
        Task(data="faces32", method=method, epsilon=epsilon, split=1),
        caption=f"In the place of Figure 6: samples of {name} over pixels, for "
        f"{FACTS['faces32'].title}, {_under(epsilon)}. What was learned from is generated, too.",
    )


def _under(epsilon: float) -> str:
    return "without privacy" if epsilon == math.inf else f"at ({epsilon:g}, 1e-5)"


def _told(epsilon: float) -> Figure:
    return _grid(
        f"conditional-{epsilon:g}",
        Task(data="mnist", method="conditional", epsilon=epsilon, split=1),
        caption=f"Beside Table 4: samples of the one model that is told the class, MNIST at "
        f"({epsilon:g}, 1e-5), a column for each class. The paper finds that labels are not kept.",
    )


def _small(epsilon: float) -> Figure:
    return _grid(
        f"small-{epsilon:g}",
        Task(data="digits", method="flows", epsilon=epsilon, split=1),
        caption=f"Small: samples for the digits of scikit-learn at ({epsilon:g}, 1e-5).",
    )


def _value(records: list[Record], block: Block, row: str, epsilon: float, column: Column) -> Record:
    line = next(r for r in block.rows if (r.name, r.epsilon) == (row, epsilon))
    key = tables.SHEET.key(block, line, column)
    found = next((record for record in records if record.key == key), None)
    if found is None or found.ours is None:
        raise ValueError(f"{row} has no {column.metric} at epsilon {epsilon:g}")
    return found


def _sizes(path: Path, find: Find, records: list[Record]) -> None:
    block = ablations.FIGURE_1
    size, distance = Column("mnist", SIZE), Column("mnist", FID)
    lines = {}
    for epsilon in ablations.BUDGETS:
        cells = [
            [_value(records, block, row, epsilon, column) for row in ablations.WIDTHS]
            for column in (size, distance)
        ]
        name = f"epsilon {epsilon:g}" if epsilon < np.inf else "no privacy"
        lines[name] = Line(
            x=[cell.ours or 0.0 for cell in cells[0]],
            y=[cell.ours or 0.0 for cell in cells[1]],
            spread=[cell.spread or 0.0 for cell in cells[1]],
        )
    sizes = sorted({float(f"{x:.2g}") for line in lines.values() for x in line.x})
    drawing.draw_curves(
        path,
        lines,
        x_label="size of the model of a class, MB",
        y_label=FID.name,
        ticks=sizes,
        log_y=True,
    )


def _over_epsilon(path: Path, find: Find, records: list[Record]) -> None:
    block, lines = ablations.EPSILON, {}
    for data in ("mnist", "fashion"):
        column, ours = Column(data, CNN), f"{FACTS[data].title}, ours"
        cells = [_value(records, block, OURS, e, column) for e in ablations.EPSILONS]
        lines[ours] = Line(
            x=ablations.EPSILONS,
            y=[cell.ours or 0.0 for cell in cells],
            spread=[cell.spread or 0.0 for cell in cells],
        )
        printed = {
            row.epsilon: row.paper[column]
            for table in (TABLE_2, TABLE_1)
            for row in table.rows
            if row.name == OURS
        }
        lines[f"{FACTS[data].title}, paper, at its true epsilon"] = Line(
            x=[TRUE_EPSILONS[epsilon] for epsilon in printed],
            y=list(printed.values()),
            style="--",
            like=ours,
        )
    drawing.draw_curves(
        path,
        lines,
        x_label="epsilon",
        y_label="CNN accuracy, %",
        ticks=(*ablations.EPSILONS, *sorted(TRUE_EPSILONS.values())),
    )


SMALL = tuple(_small(epsilon) for epsilon in (10.0, 1.0))
"""Those that the small table needs no further run for."""


def all_figures(splits: int) -> tuple[Figure, ...]:
    """Every figure; those of ablations need so many splits, the others the first one."""
    return (
        Figure(
            "figure-1",
            "Figure 1: the FID by the size of the networks, on MNIST. The paper shows that of a "
            "variational autoencoder.",
            tuple(tables.tasks((ablations.FIGURE_1,), splits)),
            _sizes,
            by_records=True,
        ),
        *(
            _samples(number, epsilon, data)
            for number, epsilon in ((2, 10.0), (3, 1.0))
            for data in ("mnist", "fashion")
        ),
        *(_told(epsilon) for epsilon in (10.0, 1.0)),
        *(
            _pixels(method, name, epsilon)
            for method, name in (
                ("pixels-realnvp", "a RealNVP"),
                ("pixels-glow", "a flow after Glow"),
            )
            for epsilon in (math.inf, 10.0)
        ),
        *(
            _faces(data, epsilon)
            for data in ("faces32", "faces64", "faces128", "scenes")
            for epsilon in (math.inf, 10.0, 1.0)
        ),
        Figure(
            "epsilon",
            "Our own: CNN accuracy over epsilon. The paper's numbers stand at what its settings really "
            "spend.",
            tuple(tables.tasks((ablations.EPSILON,), splits)),
            _over_epsilon,
            by_records=True,
        ),
        *SMALL,
    )
