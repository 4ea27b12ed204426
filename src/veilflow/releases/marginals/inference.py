"""Inference: the distribution of largest entropy that noisy tables speak for.

The model is an exponential family: every cell of a released table has a weight, and the log-probability
of a row is the sum of the weights of its cells. With n records, the weights maximize

    sum(weights * counts) - n log Z(weights) - sum(ridge * weights^2) / 2.

Without noise and ridge this is maximum likelihood, and the tables are matched. With noise every
weight has a normal prior around zero, which is what the model says without the table, and the ridge
makes the answer the most probable one: cells below the noise stay where they were. See `ridges`.
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
"""Standard deviations of weights that are tried as prior."""
_LEAST_EXPECTED = 1e-3
Vector = Float[np.ndarray, " n"]
_MEMORY = 20
_DECREASE = 1e-4
_SHORTEST = 1e-10
"""Of a step, relative to the full one: beyond it rounding decides, and there is nothing to gain."""


class Table(NamedTuple):
    """A released table: noisy counts of merged codes, and how hard each weight is held at zero."""

    columns: Columns
    groups: tuple[Groups, ...]
    counts: Float[np.ndarray, "..."]
    ridge: Float[np.ndarray, "..."]


class Tree(NamedTuple):
    """The conditional of each bag, which has the bag's column as last axis."""

    bags: tuple[Bag, ...]
    conditionals: tuple[np.ndarray, ...]


def ridges(counts: np.ndarray, expected: np.ndarray, noise_stddev: float) -> np.ndarray:
    """The ridge of each cell, from how far the whole table is from what was expected of it.

    Take a count as normal around `expected` with variance v + (expected * spread)^2, where v is that of
    noise and sampling, noise^2 + expected, and `spread` the prior deviation of a weight. The
    likeliest spread for the whole table is used. To first order a ridge of v / (expected * spread^2)
    then shrinks each weight by signal over signal plus noise.
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
        tables: Released tables that hold every column at least once.
        num_records: How many records they speak of.
        start: Weights of the first tables, from an earlier fit.
    """
    propagation = _Propagation(sizes, tables)
    counts = _flat([table.counts for table in tables]) / num_records
    ridge = _flat([table.ridge for table in tables]) / num_records
    # about the root of the curvature: in these units all weights are about equally hard to move
    scale = np.sqrt(np.maximum(counts, 1 / num_records) + ridge)

    def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        weights = scaled / scale
        log_z, probabilities = propagation.run(weights)
        loss = log_z - (weights * counts).sum() + (ridge * weights**2).sum() / 2
        return float(loss), (probabilities - counts + ridge * weights) / scale

    first = np.zeros_like(counts)
    given = _flat(start)
    first[: given.size] = given
    found = minimized(objective, first * scale, iterations=_ITERATIONS, tolerance=_TOLERANCE)
    weights = found / scale
    propagation.run(weights)
    return propagation.tree, propagation.split(weights)


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)])


class _Propagation:
    """Sums over all rows, by messages: up in the order of elimination, then down again."""

    def __init__(self, sizes: Sequence[int], tables: Sequence[Table]):
        self.tables = tables
        bags = bags_of(sizes, together_in(len(sizes), [t.columns for t in tables]))
        place = {bag.column: i for i, bag in enumerate(bags)}
        self.tree = Tree(bags, ())
        self.shapes = [tuple(sizes[c] for c in bag.axes) for bag in bags]
        # the first of some columns that share a bag to be eliminated has all others in its own
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
        """Log Z and the probability of each cell of each table; `tree` is the model after it."""
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
        probabilities = []
        for table, home, index in zip(self.tables, self.homes, self.indices, strict=True):
            marginal = _summed(beliefs[home], bags[home].axes, table.columns)
            probabilities.append(np.bincount(index, marginal.ravel(), minlength=table.counts.size))
        return log_z, _flat(probabilities)


def _normalized(log: np.ndarray) -> np.ndarray:
    """Make logarithms conditionals of the last axis, in place; what was divided by is returned."""
    top = log.max(axis=-1, keepdims=True)
    np.exp(np.subtract(log, top, out=log), out=log)
    mass = log.sum(axis=-1, keepdims=True)
    log /= mass
    return (top + np.log(mass))[..., 0]


def _aligned(table: np.ndarray, columns: Columns, axes: Columns) -> np.ndarray:
    """The table with its axes where `axes` has them, and axes of length 1 for the others."""
    inside = [c for c in axes if c in columns]
    moved = table.transpose([columns.index(c) for c in inside])
    return moved.reshape([moved.shape[inside.index(c)] if c in columns else 1 for c in axes])


def _summed(table: np.ndarray, axes: Columns, columns: Columns) -> np.ndarray:
    """The table summed over all axes but `columns`, in their order."""
    away = tuple(i for i, c in enumerate(axes) if c not in columns)
    kept = [c for c in axes if c in columns]
    return (table.sum(axis=away) if away else table).transpose([kept.index(c) for c in columns])


def minimized(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    iterations: int,
    tolerance: float,
) -> Vector:
    """Where `function`, which returns its value and its gradient, is about least.

    Args:
        function: Smooth and convex.
        start: Where to begin.
        iterations: At most so many steps.
        tolerance: Steps that lower the value by less than this, relative to it, end the search.
    """
    at, (value, gradient) = start, function(start)
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=_MEMORY)
    for _ in range(iterations):
        direction = -_newton_like(gradient, pairs)
        slope = _dot(gradient, direction)
        if slope >= 0:
            break  # the gradient is zero, or all rounding
        step = 1.0 if pairs else min(1.0, 1.0 / np.sqrt(-slope))
        while True:
            new_value, new_gradient = function(at + step * direction)
            if new_value <= value + _DECREASE * step * slope or step < _SHORTEST:
                break
            # where the parabola through both values has its lowest point, within reason
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
    """The gradient times an inverse curvature that the latest steps speak for."""
    result, shares = gradient.copy(), []
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
