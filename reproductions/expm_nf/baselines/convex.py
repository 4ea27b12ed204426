"""Logistic regression as a strongly convex problem, solved by Newton's method in double precision.

The objective is a sum over records, not a mean: the sum of log(1 + exp(-y w.x)), plus half of
`regularization` times the squared norm of w, plus b.w where there is a b. Its gradient moves by at
most the length of x when a record joins or leaves, and it is `regularization`-strongly convex, however
many records there are. So bounds for adding or removing a record need no number of records.
"""

import math

import numpy as np
from jaxtyping import Float, Int

_PATIENCE = 8
"""Steps without a shorter gradient, where the objective is flat, after which there is none."""
_CURVATURE = 0.25
"""The largest second derivative of log(1 + exp(-z))."""


def radius(num_features: int) -> float:
    """The largest length of a row within [-1, 1] with a 1 behind it."""
    return math.sqrt(num_features + 1)


def bounded(rows: Float[np.ndarray, "records features"], *, norm: float) -> np.ndarray:
    """Rows in double precision with a 1 behind them, none longer than `norm`, whatever they hold."""
    rows = with_one(rows)
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    # the rounding of a length is far below this
    return rows * np.minimum(1.0, norm * (1 - 1e-12) / lengths)


def with_one(rows: Float[np.ndarray, "records features"]) -> np.ndarray:
    """Rows within [-1, 1] in double precision, a 1 behind each; NaN counts as 0."""
    clean = np.clip(np.nan_to_num(np.asarray(rows, np.float64)), -1.0, 1.0)
    return np.concatenate([clean, np.ones((len(clean), 1))], axis=1)


def signed(
    rows: Float[np.ndarray, "records width"], labels: Int[np.ndarray, " records"]
) -> Float[np.ndarray, "records width"]:
    """Rows times 1 for the second class and times -1 for the first: all that the objective reads."""
    return rows * np.where(labels == 1, 1.0, -1.0)[:, None]


def gradient_bound(norm: float) -> float:
    """How far a record of length up to `norm` moves the gradient, at most: the loss has slope 1."""
    return norm


def curvature_bound(norm: float) -> float:
    """The eigenvalue that a record of length up to `norm` adds to the second derivative, at most."""
    return _CURVATURE * norm * norm


def gradient(
    weights: Float[np.ndarray, " width"],
    rows: Float[np.ndarray, "records width"],
    *,
    regularization: float,
    tilt: Float[np.ndarray, " width"] | None = None,
) -> Float[np.ndarray, " width"]:
    """The gradient of the objective for signed rows."""
    found = -rows.T @ _sigmoid(-rows @ weights) + regularization * weights
    return found if tilt is None else found + tilt


def minimum(
    rows: Float[np.ndarray, "records width"],
    *,
    regularization: float,
    tolerance: float,
    tilt: Float[np.ndarray, " width"] | None = None,
) -> Float[np.ndarray, " width"]:
    """The minimum, to a gradient of length `tolerance`, or as far as double precision goes.

    It never fails, because whether it did would tell of the records. Every step lowers the objective,
    which is strongly convex, so that in exact arithmetic the tolerance is reached. Where sums in double
    precision end before it, no step shortens the gradient any more and the best point is the answer:
    that such sums count as exact is among what a guarantee here assumes.

    Args:
        rows: As `signed` makes them.
        regularization: Above 0.
        tolerance: Tolerance of the gradient's norm; the minimum is then nearer than that over
            `regularization`.
        tilt: The b of the objective.
    """
    weights = best = np.zeros(rows.shape[1])
    value, least, idle = _objective(weights, rows, regularization, tilt), math.inf, 0
    while idle < _PATIENCE and np.isfinite(weights).all():
        slope = gradient(weights, rows, regularization=regularization, tilt=tilt)
        length = float(np.linalg.norm(slope))
        best, least, idle = (weights, length, 0) if length < least else (best, least, idle + 1)
        if length <= tolerance:
            break
        step = _newton_step(weights, rows, slope, regularization)
        with np.errstate(over="ignore", invalid="ignore"):  # too long a step is shortened
            weights, value, falls = _shortened(
                weights, step, slope, value, rows, regularization=regularization, tilt=tilt
            )
        idle = 0 if falls else idle  # while the objective falls there is progress
    return best


def _newton_step(
    weights: np.ndarray, rows: np.ndarray, slope: np.ndarray, regularization: float
) -> np.ndarray:
    """The slope over the curvature. By eigenvalues, since a solver stops at a singular matrix."""
    shares = _sigmoid(rows @ weights)
    bend = (rows * (shares * (1 - shares))[:, None]).T @ rows
    values, vectors = np.linalg.eigh(bend)
    return vectors @ ((vectors.T @ slope) / (np.maximum(values, 0.0) + regularization))


def _shortened(
    weights: np.ndarray,
    step: np.ndarray,
    slope: np.ndarray,
    value: float,
    rows: np.ndarray,
    *,
    regularization: float,
    tilt: np.ndarray | None,
) -> tuple[np.ndarray, float, bool]:
    """The next point, its objective, and whether that is below the last one by more than rounding."""
    gain, length = float(slope @ step), 1.0
    while True:
        moved = weights - length * step
        found = _objective(moved, rows, regularization, tilt)
        # near the minimum the objective no longer tells two points apart, the gradient does
        flat = not length * gain >= 1e-12 * max(1.0, abs(value))
        if flat or found <= value - 1e-4 * length * gain:
            return moved, found, not flat and found < value
        length /= 2


def _objective(
    weights: np.ndarray, rows: np.ndarray, regularization: float, tilt: np.ndarray | None
) -> float:
    found = np.logaddexp(0.0, -rows @ weights).sum() + regularization / 2 * (weights @ weights)
    return float(found if tilt is None else found + tilt @ weights)


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -z))
