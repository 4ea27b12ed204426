"""One look for all figures: panels, colors and legends, and how they are saved.

A figure of private rows is as private as they are. Densities of a released model cost nothing.
"""

import io
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from reproductions.metrics.log_likelihood import HasLogProb

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From the Okabe-Ito palette: told apart by every kind of eye.
BLUE, VERMILION = "#0072B2", "#D55E00"
_COLORS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

Grid = Float[np.ndarray, "y x"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a figure.

    Attributes:
        x: Where its points are.
        y: How high; a single one is a level line, for references.
        spread: Drawn as bars above and below.
        style: As matplotlib writes it: `-`, `--`, `-.` or `:`.
        like: The name of an earlier line whose color it takes.
    """

    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    style: str = "-"
    like: str | None = None


def density_grid(model: HasLogProb, *, low: Any, high: Any, size: int = 160) -> Grid:
    """The density of a model of two columns on a grid, `[y, x]`. Costs nothing: it sees no rows.

    Args:
        model: Anything with `log_prob` of rows of two numbers.
        low: Lowest corner: a number, or one for x and y.
        high: Highest corner.
        size: Points in each direction.
    """
    low, high = (np.broadcast_to(np.float64(corner), (2,)) for corner in (low, high))
    x, y = (np.linspace(a, b, size) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return np.exp(np.asarray(model.log_prob(grid), dtype=np.float64)).reshape(size, size)


def canvas(
    rows: int, columns: int, *, panel: tuple[float, float]
) -> "tuple[Figure, list[list[Axes]]]":
    """A figure of equal panels, without pyplot: no global state, no display, nothing to close."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(columns * panel[0], rows * panel[1] + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).tolist()
    for axis in itertools.chain(*axes):
        axis.tick_params(length=2, labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    return figure, axes


def legend(figure: "Figure", *, columns: int) -> None:
    """Names of the first panel's lines, below the axes: inside they would hide something."""
    handles, names = figure.axes[0].get_legend_handles_labels()
    where = {"loc": "outside lower center", "ncols": columns, "handlelength": 3.0}
    figure.legend(handles, names, **where, fontsize=8, frameon=False)


def cycle() -> Iterator[str]:
    """Colors for lines, again from the start when they run out."""
    return itertools.cycle(_COLORS)


def save(figure: "Figure", path: str | os.PathLike[str], *, title: str = "") -> None:
    """Write a PNG once it is drawn; the same figure gives the same bytes."""
    if title:
        figure.suptitle(title, fontsize=10)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150, metadata={"Software": None})
    Path(path).write_bytes(content.getvalue())
