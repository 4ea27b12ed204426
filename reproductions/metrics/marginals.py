"""Each column by itself: histograms of real and synthetic rows on the same bins.

Histograms of private rows are as private as the rows: nothing here adds noise.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from reproductions.metrics import figures
from reproductions.metrics.rows import tables


@dataclass(frozen=True)
class Marginal:
    """One column of two sets of rows, as parts of a whole per bin. As private as the rows.

    Attributes:
        edges: Edges of the bins, in the units of the data.
        real: Part of the real rows in each bin.
        synthetic: Part of the synthetic rows in each bin.
    """

    edges: Float[np.ndarray, " edges"]
    real: Float[np.ndarray, " bins"]
    synthetic: Float[np.ndarray, " bins"]

    @property
    def total_variation(self) -> float:
        """Half the L1 distance of the histograms: 0 when they are equal, 1 when they never meet."""
        return float(0.5 * np.abs(self.real - self.synthetic).sum())


def compare_marginals(
    real: Any,
    synthetic: Any,
    *,
    bins: int = 50,
    bounds: tuple[Any, Any] | None = None,
) -> tuple[Marginal, ...]:
    """Histograms of every column on bins that both sets share. As private as `real`.

    Args:
        real: Real rows.
        synthetic: Rows a model made.
        bins: Bins per column.
        bounds: `(low, high)`, numbers or one per column; cells beyond count in the outermost bins.
            Without them the bins span both sets, so the edges too tell about the real rows.
    """
    real, synthetic = tables(real=real, synthetic=synthetic)
    if bounds is None:
        both = np.concatenate([real, synthetic])
        low, high = both.min(axis=0), both.max(axis=0)
        high = np.where(high > low, high, low + 1.0)  # a constant column still needs a bin
    else:
        low, high = (np.broadcast_to(np.float64(x), real.shape[1:]) for x in bounds)
        if not (low < high).all():
            raise ValueError("bounds must rise: every low below its high.")
    return tuple(
        _marginal(*column, bins) for column in zip(real.T, synthetic.T, low, high, strict=True)
    )


def _marginal(
    real: np.ndarray, synthetic: np.ndarray, low: float, high: float, bins: int
) -> Marginal:
    edges = np.linspace(low, high, bins + 1)
    parts = [np.histogram(x.clip(low, high), edges)[0] / len(x) for x in (real, synthetic)]
    return Marginal(edges, *parts)


def draw_marginals(
    path: str | os.PathLike[str],
    models: Mapping[str, Sequence[Marginal]],
    *,
    columns: Sequence[str],
    title: str = "",
    panel: tuple[float, float] = (2.4, 1.9),
) -> None:
    """Draw one row of panels per model, real and synthetic histograms laid over each other.

    Args:
        path: The PNG to write. As private as the real rows in the histograms.
        models: By name, the marginals of the same columns.
        columns: The names of those columns.
        title: Above the whole figure.
        panel: Width and height of a panel, in inches.
    """
    figure, axes = figures.canvas(len(models), len(columns), panel=panel)
    for row, (name, found) in zip(axes, models.items(), strict=True):
        for axis, column, marginal in zip(row, columns, found, strict=True):
            for parts, color, label in (
                (marginal.real, figures.BLUE, "real"),
                (marginal.synthetic, figures.VERMILION, "synthetic"),
            ):
                axis.stairs(parts, marginal.edges, fill=True, color=color, alpha=0.45, label=label)
            axis.set_title(f"{column}, TV {marginal.total_variation:.2f}", fontsize=9)
            axis.set_yticks([])
        row[0].set_ylabel(name, fontsize=9)
    figures.legend(figure, columns=2)
    figures.save(figure, path, title=title)
