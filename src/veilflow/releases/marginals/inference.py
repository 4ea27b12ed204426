"""Inference: the maximum-entropy distribution for noisy tables.

The model is an exponential family: every cell of a released table has a weight, and the log-probability
of a row is the sum of the weights of its cells. With n records, the weights maximize

    sum(weights * counts) - n log Z(weights) - sum(ridge * weights^2) / 2.

Without noise and ridge this is maximum likelihood, and the tables are matched. With noise, every weight
has a normal prior around zero, which stands for the model without the table, and the ridge makes the
solution the posterior mode: cells below the noise hardly change. See `ridges`.

The minimizer is a limited-memory BFGS in NumPy. SciPy's calls BLAS for vectors of a few numbers, whose
threads wait for each other much longer than they work on a busy machine: most of the time of a small
fit was spent there.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from veilflow.releases.marginals.codes import Groups, flat_index
from veilflow.releases.marginals.graph import Bag, Columns, bags_of, together_in

_ITERATIONS = 150
_TOLERANCE = 1e-9
"""Relative to the log-likelihood of a record."""
_SPREADS = np.geomspace(0.02, 4.0, 24)
"""Candidates for the prior standard deviation of weights."""
_LEAST_EXPECTED = 1e-3
Vector = Float[np.ndarray, " n"]
_MEMORY = 20
_DECREASE = 1e-4
_SHORTEST = 1e-10
"""Shortest step relative to the full one: shorter ones only gain rounding errors."""


class Table(NamedTuple):
    """A released table: noisy counts of merged codes, and the ridge of each weight."""

    columns: Columns
    groups: tuple[Groups, ...]
    counts: Float[np.ndarray, "..."]
    ridge: Float[np.ndarray, "..."]


class Tree(NamedTuple):
    """The conditional of each bag; its last axis is the column of the bag."""

    bags: tuple[Bag, ...]
    conditionals: tuple[np.ndarray, ...]


def ridges(counts: np.ndarray, expected: np.ndarray, noise_stddev: float) -> np.ndarray:
    """The ridge of each cell, by empirical Bayes over the whole table.

    A count is normal around `expected` with variance v + (expected * spread)^2, where v is the variance
    of noise and sampling, noise^2 + expected, and `spread` is the prior deviation of a weight. The
    spread with the largest likelihood for the whole table is used. To first order, a ridge of
    v / (expected * spread^2) then shrinks each weight by signal / (signal + noise).
    """
    expected = np.maximum(expected, _LEAST_EXPECTED)
    chance = noise_stddev**2 + expected
    variances = chance[..., None] + np.square(expected[..., None] * _SPREADS)
    deviance = np.square(counts - expected)[..., None] / variances + np.log(variances)
    spread = _SPREADS[deviance.reshape(-1, len(_SPREADS)).sum(axis=0).argmin()]
    return chance / (expected * spread**2)


def fitted(
    sizes: Sequence[int],
    tables: Sequence[Table],
    *,
    num_records: float,
    start: Sequence[np.ndarray] = (),
) -> tuple[Tree, list[np.ndarray]]:
    """The tree that fits the tables best, and the weights of their cells.

    Args:
        sizes: Codes of each column.
        tables: Released tables that include every column at least once.
        num_records: Number of records in the tables.
        start: Weights of the first tables, from an earlier fit.
    """
    propagation = _Propagation(sizes, tables)
    counts = _flat([table.counts for table in tables]) / num_records
    ridge = _flat([table.ridge for table in tables]) / num_records
    # about the root of the curvature, so that all weights are on a similar scale
    scale = np.sqrt(np.maximum(counts, 1 / num_records) + ridge)

    def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        weights = scaled / scale
        log_z, probabilities = propagation.run(weights)
        loss = log_z - (weights * counts).sum() + (ridge * weights**2).sum() / 2
        return float(loss), (probabilities - counts + ridge * weights) / scale

    first = np.zeros_like(counts)
    known = _flat(start)
    first[: known.size] = known
    scaled = minimized(objective, first * scale, iterations=_ITERATIONS, tolerance=_TOLERANCE)
    weights = scaled / scale
    propagation.run(weights)
    return propagation.tree, propagation.split(weights)


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)])


class _Propagation:
    """Belief propagation: messages in the order of elimination, then back."""

    def __init__(self, sizes: Sequence[int], tables: Sequence[Table]):
        self.tables = tables
        bags = bags_of(sizes, together_in(len(sizes), [t.columns for t in tables]))
        place = {bag.column: i for i, bag in enumerate(bags)}
        self.tree = Tree(bags, ())
        self.shapes = [tuple(sizes[c] for c in bag.axes) for bag in bags]
        # of the columns of a table, the first to be eliminated has all others in its bag
        self.homes = [min(place[c] for c in table.columns) for table in tables]
        self.parents = [min((place[c] for c in bag.parents), default=None) for bag in bags]
        self.indices = [flat_index(table.groups) for table in tables]
        self.table_shapes = [tuple(sizes[c] for c in table.columns) for table in tables]
        self.ends = np.cumsum([table.counts.size for table in tables])

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """One array for each table."""
        parts = np.split(flat, self.ends[:-1])
        return [part.reshape(t.counts.shape) for part, t in zip(parts, self.tables, strict=True)]

    def run(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Log Z and the probability of each cell of each table; updates `tree`."""
        bags, logs = self.tree.bags, [np.zeros(shape) for shape in self.shapes]
        for i, part in enumerate(self.split(weights)):
            table, home = part.ravel()[self.indices[i]].reshape(self.table_shapes[i]), self.homes[i]
            logs[home] += _aligned(table, self.tables[i].columns, bags[home].axes)
        log_z = 0.0
        for i, (bag, parent) in enumerate(zip(bags, self.parents, strict=True)):
            message = _normalized(logs[i])
            if parent is None:
                log_z += float(message)
            else:
                logs[parent] += _aligned(message, bag.parents, bags[parent].axes)
        self.tree = Tree(bags, tuple(logs))
        beliefs = list(logs)
        for i in reversed(range(len(bags))):
            parent = self.parents[i]
            if parent is not None:
                above = _summed(beliefs[parent], bags[parent].axes, bags[i].parents)
                beliefs[i] = logs[i] * above[..., None]
        probabilities: list[np.ndarray] = []
        for table, home, index in zip(self.tables, self.homes, self.indices, strict=True):
            marginal = _summed(beliefs[home], bags[home].axes, table.columns)
            probabilities.append(np.bincount(index, marginal.ravel(), minlength=table.counts.size))
        return log_z, _flat(probabilities)


def _normalized(log: np.ndarray) -> np.ndarray:
    """Turn logarithms into conditionals of the last axis, in place; return the log normalizers."""
    top = log.max(axis=-1, keepdims=True)
    np.exp(np.subtract(log, top, out=log), out=log)
    mass = log.sum(axis=-1, keepdims=True)
    log /= mass
    return (top + np.log(mass))[..., 0]


def _aligned(table: np.ndarray, columns: Columns, axes: Columns) -> np.ndarray:
    """The table with its axes in the positions of `axes`, and length 1 for the others."""
    inside = [c for c in axes if c in columns]
    moved = table.transpose([columns.index(c) for c in inside])
    return moved.reshape([moved.shape[inside.index(c)] if c in columns else 1 for c in axes])


def _summed(table: np.ndarray, axes: Columns, columns: Columns) -> np.ndarray:
    """The table summed over all axes but `columns`, in their order."""
    away = tuple(i for i, c in enumerate(axes) if c not in columns)
    remaining = [c for c in axes if c in columns]
    return (table.sum(axis=away) if away else table).transpose(
        [remaining.index(c) for c in columns]
    )


def minimized(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    iterations: int,
    tolerance: float,
) -> Vector:
    """The approximate minimizer of a smooth convex function.

    Args:
        function: Returns its value and its gradient.
        start: The initial point.
        iterations: The most steps.
        tolerance: The search ends when a step lowers the value by less than this, relative to it.
    """
    at, (value, gradient) = start, function(start)
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=_MEMORY)
    for _ in range(iterations):
        direction = -_newton_like(gradient, pairs)
        slope = _dot(gradient, direction)
        if slope >= 0:
            break  # the gradient is zero up to rounding
        step = 1.0 if pairs else min(1.0, 1.0 / np.sqrt(-slope))
        while True:
            new_value, new_gradient = function(at + step * direction)
            if new_value <= value + _DECREASE * step * slope or step < _SHORTEST:
                break
            # the minimum of the parabola through both values, within limits
            parabola = -slope * step**2 / (2 * (new_value - value - slope * step))
            step = float(np.clip(parabola, 0.1 * step, 0.5 * step))
        if step < _SHORTEST:
            break
        moved, bent = step * direction, new_gradient - gradient
        if _dot(moved, bent) > 1e-12 * _dot(bent, bent):
            pairs.append((moved, bent))
        gain = value - new_value
        at, value, gradient = at + moved, new_value, new_gradient
        if gain <= tolerance * max(abs(value), 1.0):
            break
    return at


def _newton_like(gradient: Vector, pairs: deque[tuple[Vector, Vector]]) -> Vector:
    """The gradient times the inverse curvature that the latest steps suggest."""
    result = gradient.copy()
    shares: list[float] = []
    for moved, bent in reversed(pairs):
        shares.append(_dot(moved, result) / _dot(moved, bent))
        result -= shares[-1] * bent
    if pairs:
        moved, bent = pairs[-1]
        result *= _dot(moved, bent) / _dot(bent, bent)
    for (moved, bent), share in zip(pairs, reversed(shares), strict=True):
        result += (share - _dot(bent, result) / _dot(moved, bent)) * moved
    return result


def _dot(one: Vector, two: Vector) -> float:
    return float((one * two).sum())
