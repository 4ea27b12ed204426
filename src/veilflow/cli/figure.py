"""The demo's picture: data, synthetic data and density, side by side."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from veilflow._core.store import atomic_path

_POINTS = 4000  # per panel; more only hide each other
_GRID = 160


def draw(
    path: Path,
    *,
    data: np.ndarray,
    synthetic: np.ndarray,
    log_prob: Callable[[np.ndarray], np.ndarray],
    low: tuple[float, float],
    high: tuple[float, float],
    claim: str,
) -> None:
    """Draw three panels with the same axes. Shows rows of `data`: for generated data only."""
    # Without pyplot: no global figure, no display, nothing to close.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 2.7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    # Blue and vermilion of the Okabe-Ito palette, and cividis: told apart by every kind of eye.
    for axis, points, color, name in (
        (axes[0], data, "#0072B2", "data"),
        (axes[1], synthetic, "#D55E00", f"synthetic, {claim}"),
    ):
        axis.scatter(*points[:_POINTS].T, s=1.5, color=color, alpha=0.5, linewidths=0)
        axis.set_title(name, fontsize=10)
    x, y = (np.linspace(a, b, _GRID) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    density = np.exp(np.asarray(log_prob(grid.reshape(-1, 2)), dtype=np.float64))
    axes[2].pcolormesh(x, y, density.reshape(_GRID, _GRID), cmap="cividis", rasterized=True)
    axes[2].set_title("density", fontsize=10)
    for axis in axes:
        axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axis.tick_params(length=2, labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=160, metadata={"Software": None})
