"""Posteriors in a corner: every parameter by itself, and every pair of them."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from reproductions.metrics.figures import canvas, cycle, legend, save

_LEVELS = (0.5, 0.9)
"""The mass within the contours."""
_GRID = 60


def draw_corner(
    path: str | os.PathLike[str],
    posteriors: Mapping[str, np.ndarray],
    *,
    names: Sequence[str],
    title: str = "",
) -> None:
    """Draw one or several posteriors: densities on the diagonal, normal contours of pairs below it.

    Args:
        path: The PNG to write. As private as the draws.
        posteriors: By name, draws with a row for each, at least a few hundred.
        names: Names of the parameters.
        title: Above the whole figure.
    """
    dim = len(names)
    for name, draws in posteriors.items():
        if np.ndim(draws) != 2 or np.shape(draws)[1] != dim:
            raise ValueError(f"draws of {name} must have {dim} columns, got {np.shape(draws)}.")
    # of the narrowest, so that a wide one does not shrink it to a point
    narrow = min(posteriors.values(), key=lambda draws: float(np.std(draws, axis=0).sum()))
    center, reach = narrow.mean(axis=0), 5 * narrow.std(axis=0)
    figure, axes = canvas(dim, dim, panel=(1.5, 1.35))
    colors = dict(zip(posteriors, cycle(), strict=False))
    for i in range(dim):
        for j in range(dim):
            axis = axes[i][j]
            axis.set_xlim(center[j] - reach[j], center[j] + reach[j])
            axis.locator_params(nbins=3)
            axis.tick_params(labelsize=6)
            if j > i:
                axis.set_visible(False)
            elif i == j:
                axis.set_yticks([])
            else:
                axis.set_ylim(center[i] - reach[i], center[i] + reach[i])
            for name, draws in posteriors.items():
                label = name if i == j == 0 else None
                _draw(axis, np.asarray(draws, np.float64), (i, j), colors[name], label)
            if i == dim - 1:
                axis.set_xlabel(names[j], fontsize=8)
            else:
                axis.set_xticklabels([])
            if j == 0 and i:
                axis.set_ylabel(names[i], fontsize=8)
            elif i != j:
                axis.set_yticklabels([])
    legend(figure, columns=min(4, len(posteriors)))
    save(figure, path, title=title)


def _draw(axis, draws: np.ndarray, place: tuple[int, int], color: str, label: str | None) -> None:
    i, j = place
    if i == j:
        low, high = axis.get_xlim()
        bins = np.linspace(low, high, _GRID // 2)
        found, _ = np.histogram(draws[:, j], bins=bins, density=True)
        axis.plot((bins[1:] + bins[:-1]) / 2, found, color=color, linewidth=1.2, label=label)
        return
    if j > i:
        return
    pair = draws[:, [j, i]]
    mean, factor = pair.mean(axis=0), np.linalg.cholesky(np.cov(pair.T))
    angle = np.linspace(0, 2 * np.pi, 2 * _GRID)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for level in _LEVELS:
        ring = mean + (-2 * np.log(1 - level)) ** 0.5 * circle @ factor.T
        axis.plot(*ring.T, color=color, linewidth=1.0)
