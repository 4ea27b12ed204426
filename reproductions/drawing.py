"""Figures as papers have them: lines over epsilon, points by setting, densities, matrices."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from reproductions.metrics.figures import BLUE, Line, canvas, cycle, legend, save

_LEGEND_WIDTH = 46
"""Names longer than this stand below each other, not in two columns."""


def draw_curves(
    path: Path,
    lines: Mapping[str, Line],
    *,
    x_label: str,
    y_label: str,
    ticks: Sequence[float] = (),
    y_range: tuple[float, float] | None = None,
    log_y: bool = False,
) -> None:
    """Draw lines by name over one pair of axes, x in powers.

    Args:
        path: The PNG to write.
        lines: By name; one that takes the color of another is drawn with open markers.
        x_label: Below.
        y_label: At the left.
        ticks: Numbers to write below; those of matplotlib where not given.
        y_range: What is shown; what lies outside is cut off.
        log_y: Whether y is in powers, too.
    """
    figure, ((axis,),) = canvas(1, 1, panel=(6.4, 4.0))
    fresh, colors = cycle(), {}
    for name, line in lines.items():
        color = colors[name] = colors[line.like] if line.like else next(fresh)
        label = subscripted(name)
        if len(line.y) == 1:
            axis.axhline(line.y[0], color=color, linestyle=line.style, linewidth=1.2, label=label)
            continue
        look: dict[str, Any] = {"color": color, "linestyle": line.style, "linewidth": 1.4}
        if len(line.x) <= 12:
            look |= {"marker": "o", "markersize": 4, "capsize": 2}
            look |= {"markerfacecolor": "white" if line.like else color}
        axis.errorbar(line.x, line.y, line.spread, label=label, **look)
    axis.set_xscale("log")
    if log_y:
        axis.set_yscale("log")
    if ticks:
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_xticks([], minor=True)
    if y_range:
        axis.set_ylim(*y_range)
    axis.set_xlabel(x_label, fontsize=9)
    axis.set_ylabel(y_label, fontsize=9)
    axis.grid(color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)
    legend(figure, columns=2 if max(map(len, lines)) < _LEGEND_WIDTH else 1)
    save(figure, path)


def draw_densities(
    path: Path,
    rows: Mapping[str, Sequence[np.ndarray]],
    *,
    columns: Sequence[str],
    low: Sequence[float],
    high: Sequence[float],
    labels: Sequence[str],
    title: str,
    scale: str = "density",
) -> None:
    """Draw densities over the same rectangle, a row of panels for each name, on one color scale.

    Args:
        path: The PNG to write. As private as the densities in it.
        rows: By name, densities on a grid, `[y, x]`.
        columns: Above the first row.
        low: Lowest corner.
        high: Highest corner.
        labels: Labels of the two axes.
        title: Above the whole figure.
        scale: What the colors stand for.
    """
    figure, axes = canvas(len(rows), len(columns), panel=(1.9, 1.85))
    grids = np.concatenate([grid.ravel() for each in rows.values() for grid in each])
    # a few cells of a histogram tower above the rest: they must not darken everything else
    brightest = np.quantile(grids[grids > 0], 0.995) if (grids > 0).any() else 1.0
    look: dict[str, Any] = {"cmap": "inferno", "vmin": 0.0, "vmax": brightest, "aspect": "auto"}
    look |= {"origin": "lower", "extent": (low[0], high[0], low[1], high[1])}
    image = None
    for row, (name, each) in zip(axes, rows.items(), strict=True):
        for axis, grid in zip(row, each, strict=True):
            image = axis.imshow(grid, **look)
            axis.label_outer()
            axis.locator_params(nbins=4)
            axis.tick_params(labelsize=7)
        row[0].set_ylabel(f"{subscripted(name)}\n{labels[1]}", fontsize=9)
    for axis, text in zip(axes[0], columns, strict=True):
        axis.set_title(text, fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel(labels[0], fontsize=9)
    if image is not None:
        over = "max" if grids.max() > brightest else "neither"
        bar = figure.colorbar(image, ax=list(chain(*axes)), extend=over, aspect=30, pad=0.01)
        bar.set_label(scale, fontsize=9)
        bar.ax.tick_params(labelsize=7)
    save(figure, path, title=title)


def draw_points(
    path: Path,
    rows: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]],
    *,
    title: str,
) -> None:
    """Draw panels of points with bars: a row of panels for each setting, a panel for each measure.

    Args:
        path: The PNG to write.
        rows: By the name of the setting and the measure, value and spread at each choice.
        title: Above the whole figure.
    """
    figure, axes = canvas(len(rows), max(map(len, rows.values())), panel=(2.6, 2.4))
    for line, (setting, panels) in zip(axes, rows.items(), strict=True):
        for axis, (measure, points) in zip(line, panels.items(), strict=True):
            places = np.arange(len(points))
            values, spreads = (np.array(part) for part in zip(*points.values(), strict=True))
            axis.errorbar(places, values, spreads, color=BLUE, marker="o", markersize=4, capsize=2)
            axis.set_xticks(places, list(points), rotation=20, fontsize=8)
            axis.margins(x=0.15, y=0.25)
            axis.set_title(measure, fontsize=9)
            axis.grid(axis="y", color="0.9", linewidth=0.6)
            axis.set_axisbelow(True)
        line[0].set_ylabel(setting, fontsize=9)
    save(figure, path, title=title)


def draw_matrices(
    path: Path, panels: Mapping[str, np.ndarray], *, labels: Sequence[str], title: str
) -> None:
    """Draw matrices of correlations beside each other, on one scale from -1 to 1.

    Args:
        path: The PNG to write. As private as the matrices in it.
        panels: By name, square matrices of the same columns.
        labels: Names of the columns, at the left; below they are numbered.
        title: Above the whole figure.
    """
    figure, (axes,) = canvas(1, len(panels), panel=(3.0, 2.7))
    places, image = np.arange(len(labels)), None
    for axis, (name, matrix) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0)
        axis.set_title(name, fontsize=9)
        axis.set_xticks(places, [str(place + 1) for place in places], fontsize=7)
        shown = _numbered(labels) if axis is axes[0] else [""] * len(labels)
        axis.set_yticks(places, shown, fontsize=7)
    if image is not None:
        figure.colorbar(image, ax=list(axes), aspect=30, pad=0.01).ax.tick_params(labelsize=7)
    save(figure, path, title=title)


def _numbered(labels: Sequence[str]) -> list[str]:
    return [f"{label} {place}" for place, label in enumerate(labels, start=1)]


def subscripted(name: str) -> str:
    """A name as matplotlib sets it: `MoG_3` with a small 3."""
    return re.sub(r"_(\d+)", r"$_{\1}$", name)
