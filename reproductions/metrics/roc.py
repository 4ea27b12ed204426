"""Anomalies for a test, and the curves that tell how well they are found."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from reproductions.metrics import figures
from reproductions.metrics.rows import Rows, tables
from veilflow.evaluation import Roc


def anomalies(rows: Any, num_rows: int | None = None, *, seed: int | None = None) -> Rows:
    """Rows around the tails of others, as in the DP-NF paper's experiment.

    In each column, on either side by the toss of a coin, a cell is uniform between the 5th and 30th or
    between the 70th and 95th percentile of `rows`. The columns are independent of each other.

    Args:
        rows: Test rows, whose percentiles are read: the anomalies are as private as they are.
        num_rows: Number of anomalies; by default, that of the rows.
        seed: Seed of the anomalies.
    """
    (rows,) = tables(rows=rows)
    if num_rows is None:
        num_rows = len(rows)
    rng = np.random.default_rng(seed)
    ends = np.percentile(rows, [5, 30, 70, 95], axis=0)
    size = (num_rows, rows.shape[1])
    lower, upper = rng.uniform(ends[0], ends[1], size), rng.uniform(ends[2], ends[3], size)
    return np.where(rng.random(size) < 0.5, lower, upper)


def draw_roc(path: str | os.PathLike[str], curves: Mapping[str, Roc], *, title: str = "") -> None:
    """Draw ROC curves by name, each with its area. As private as the rows behind them."""
    figure, ((axis,),) = figures.canvas(1, 1, panel=(4.6, 4.2))
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle=":")
    for color, (name, curve) in zip(figures.cycle(), curves.items(), strict=False):
        label = f"{name}, area {curve.auroc:.3f}"
        axis.plot(curve.false_positive, curve.true_positive, color=color, label=label)
    axis.set(xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
    axis.set_xlabel("ordinary rows called anomalies", fontsize=9)
    axis.set_ylabel("anomalies found", fontsize=9)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    figures.save(figure, path, title=title)
