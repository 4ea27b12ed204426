"""One look for all figures: densities as panels, figures of merit as lines.

A figure of private rows is as private as they are. Densities of a released model cost nothing.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.store import atomic_path
from veilflow.evaluation.log_likelihood import HasLogProb

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From the Okabe-Ito palette: told apart by every kind of eye.
BLUE, VERMILION = "#0072B2", "#D55E00"
_COLORS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LONG_NAME = 40

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
    check.count(size=size, at_least=2)
    low, high = (np.broadcast_to(np.float64(corner), (2,)) for corner in (low, high))
    x, y = (np.linspace(a, b, size) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return np.exp(np.asarray(model.log_prob(grid), dtype=np.float64)).reshape(size, size)


def draw_panels(
    path: str | os.PathLike[str],
    panels: Sequence[tuple[str, Grid]],
    *,
    low: Any,
    high: Any,
    per_row: int = 4,
    title: str = "",
) -> None:
    """Draw densities over the same square, light where there is much, on one color scale.

    Args:
        path: The PNG to write. As private as the densities in it.
        panels: Names and densities on a grid, `[y, x]`.
        low: Lowest corner: a number, or one for x and y.
        high: Highest corner.
        per_row: Panels beside each other.
        title: Above the whole figure.
    """
    low, high = (np.broadcast_to(np.float64(corner), (2,)) for corner in (low, high))
    columns = min(per_row, len(panels))
    figure, axes = canvas(-(-len(panels) // columns), columns, panel=(2.5, 2.6))
    # a few cells of a real histogram tower above the rest: they must not darken everything else
    full = np.concatenate([grid.ravel() for _, grid in panels])
    brightest = np.quantile(full[full > 0], 0.995) if (full > 0).any() else 1.0
    spots = list(itertools.chain(*axes))
    for axis, (name, grid) in zip(spots, panels, strict=False):
        axis.imshow(
            grid,
            origin="lower",
            extent=(low[0], high[0], low[1], high[1]),
            aspect="auto",
            cmap="inferno",
            vmin=0.0,
            vmax=brightest,
        )
        axis.set_title(name, fontsize=9)
    for axis in spots[len(panels) :]:
        axis.set_axis_off()
    save(figure, path, title=title)


def draw_lines(
    path: str | os.PathLike[str],
    lines: Mapping[str, Line],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    title: str = "",
) -> None:
    """Draw lines by name over one pair of axes. As private as the numbers in it."""
    figure, ((axis,),) = canvas(1, 1, panel=(7.0, 4.6))
    fresh, colors = cycle(), {}
    for name, line in lines.items():
        color = colors[name] = colors[line.like] if line.like else next(fresh)
        if len(line.y) == 1:
            axis.axhline(line.y[0], color=color, linestyle=line.style, label=name)
            continue
        marker = "o" if len(line.x) <= 12 else None
        axis.errorbar(
            line.x, line.y, line.spread, color=color, linestyle=line.style, marker=marker,
            markersize=4, capsize=2, label=name,
        )  # fmt: skip
    if log_x:
        axis.set_xscale("log")
    axis.set_xlabel(x_label, fontsize=9)
    axis.set_ylabel(y_label, fontsize=9)
    axis.grid(color="0.9", linewidth=0.6)
    legend(figure, columns=2 if max(map(len, lines)) < _LONG_NAME else 1)
    save(figure, path, title=title)


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
    """Write a PNG, all or nothing; the same figure gives the same bytes."""
    if title:
        figure.suptitle(title, fontsize=10)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
