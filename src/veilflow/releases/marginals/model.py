"""The fitted model: rows and marginals, from conditionals of released tables."""

# NumPy leaves some results open
# pyright: reportUnknownVariableType=false

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Int, Key

from veilflow._core import check
from veilflow.releases.marginals.codes import Groups
from veilflow.releases.marginals.graph import Columns
from veilflow.releases.marginals.inference import Tree

_CHUNK = 2**18
"""Rows drawn at a time."""
_MOST_CELLS = 2**24
"""Cells of the largest intermediate table of `marginal`."""


@dataclass(frozen=True)
class Spread:
    """The distribution of the codes of a column within the merged codes of the tree.

    Attributes:
        groups: The merged code of each code.
        within: The probability of each code, given its merged code.
        order: The codes, sorted by merged code.
        edges: Merged code plus cumulative probability within it, in this order.
    """

    groups: Groups
    within: np.ndarray
    order: np.ndarray
    edges: np.ndarray

    @classmethod
    def of(cls, groups: Groups, mass: np.ndarray) -> "Spread":
        """From the mass of each code; codes of a group without mass are equally likely."""
        total, size = np.bincount(groups, mass), np.bincount(groups)
        safe = np.where(total > 0, total, 1.0)
        return cls.given(groups, np.where(total[groups] > 0, mass / safe[groups], 1 / size[groups]))

    @classmethod
    def given(cls, groups: Groups, within: np.ndarray) -> "Spread":
        """From the probability of each code in its group."""
        order, size = np.argsort(groups, kind="stable"), np.bincount(groups)
        last = np.cumsum(size) - 1
        up_to = np.cumsum(within[order])
        before = np.concatenate([[0.0], up_to[last[:-1]]])
        edges = groups[order] + np.minimum(up_to - before[groups[order]], 1.0)
        edges[last] = np.arange(
            1.0, len(size) + 1
        )  # so that rounding does not move a code to the next group
        return cls(groups, within, order, edges)

    def draw(self, merged: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """A code for each merged code."""
        return self.order[np.searchsorted(self.edges, merged + uniform, side="right")]


@dataclass(frozen=True)
class MarginalModel:
    """A distribution of rows of codes, made of releases only: using it costs nothing.

    Attributes:
        sizes: Number of codes of each column.
        num_records: Number of records, declared or estimated.
        cliques: The sets of columns that were measured together, in the order of their choice.
        tree: Conditionals of merged codes.
        spreads: The distribution within merged codes, for each column.
    """

    sizes: tuple[int, ...]
    num_records: float
    cliques: tuple[Columns, ...]
    tree: Tree
    spreads: tuple[Spread, ...]

    def sample(self, num_rows: int, key: Key[Array, ""]) -> Int[np.ndarray, "rows columns"]:
        """`num_rows` independent rows of codes."""
        check.count(num_rows=num_rows, at_least=0)
        rows = np.empty((num_rows, len(self.sizes)), np.int32)
        for i, first in enumerate(range(0, num_rows, _CHUNK)):
            size = min(_CHUNK, num_rows - first)
            tree_key, code_key = jax.random.split(jax.random.fold_in(key, i))
            merged = sampled(self.tree, size, tree_key)
            for column, spread in enumerate(self.spreads):
                within = _uniform(jax.random.fold_in(code_key, column), size)
                rows[first : first + size, column] = spread.draw(merged[:, column], within)
        return rows

    def marginal(self, columns: Sequence[int]) -> np.ndarray:
        """Probabilities of all combinations of codes of `columns`, one axis for each.

        Raises:
            ValueError: If a column does not exist or repeats, or an intermediate table is too large.
        """
        wanted = tuple(columns)
        if len(set(wanted)) != len(wanted) or not set(wanted) <= set(range(len(self.sizes))):
            raise ValueError(
                f"columns must be different numbers from 0 to {len(self.sizes) - 1}, got {wanted}."
            )
        _check_cells([self.sizes[c] for c in wanted])
        table = _contracted(self.tree, wanted)
        for axis, column in enumerate(wanted):
            spread = self.spreads[column]
            shape = [-1 if i == axis else 1 for i in range(len(wanted))]
            table = np.take(table, spread.groups, axis=axis) * spread.within.reshape(shape)
        return table


def sampled(tree: Tree, num_rows: int, key: Key[Array, ""]) -> Int[np.ndarray, "rows columns"]:
    """Rows of merged codes: columns in the reverse order of elimination, each condition its parents."""
    rows = np.empty((num_rows, len(tree.bags)), np.int32)
    for i in reversed(range(len(tree.bags))):
        bag, conditional = tree.bags[i], tree.conditionals[i]
        size = conditional.shape[-1]
        condition = np.zeros(num_rows, np.int64)
        for parent, length in zip(bag.parents, conditional.shape[:-1], strict=True):
            condition = condition * length + rows[:, parent]
        edges = np.cumsum(conditional.reshape(-1, size), axis=1)
        edges[:, -1] = 1.0  # so that rounding cannot move a row to the next
        np.minimum(edges, 1.0, out=edges)
        edges += np.arange(len(edges))[:, None]
        uniform = _uniform(jax.random.fold_in(key, i), num_rows)
        cells = np.searchsorted(edges.ravel(), condition + uniform, side="right")
        rows[:, bag.column] = cells - condition * size
    return rows


def _uniform(key: Key[Array, ""], num_rows: int) -> np.ndarray:
    return np.asarray(jax.random.uniform(key, (num_rows,)), np.float64)


def _contracted(tree: Tree, wanted: Columns) -> np.ndarray:
    """The marginal of merged codes: the product of the relevant conditionals, summed over the rest."""
    parents = {bag.column: bag.parents for bag in tree.bags}
    needed, open_ = set(wanted), list(wanted)
    while open_:
        new = [p for p in parents[open_.pop()] if p not in needed]
        needed.update(new)
        open_.extend(new)
    factors = [
        (bag.axes, table)
        for bag, table in zip(tree.bags, tree.conditionals, strict=True)
        if bag.column in needed
    ]
    sizes = {bag.column: table.shape[-1] for bag, table in zip(*tree, strict=True)}
    rest = needed - set(wanted)
    while rest:
        reach = {c: set[int]().union(*(axes for axes, _ in factors if c in axes)) for c in rest}
        column = min(rest, key=lambda c: np.prod([float(sizes[a]) for a in reach[c]]))
        touched = [factor for factor in factors if column in factor[0]]
        factors = [factor for factor in factors if column not in factor[0]]
        factors.append(_product(touched, tuple(sorted(reach[column] - {column})), sizes))
        rest.remove(column)
    return _product(factors, wanted, sizes)[1]


def _product(
    factors: list[tuple[Columns, np.ndarray]], kept: Columns, sizes: dict[int, int]
) -> tuple[Columns, np.ndarray]:
    """The product of all factors, summed over the axes that are not kept."""
    touched = sorted({c for axes, _ in factors for c in axes} | set(kept))
    _check_cells([sizes[c] for c in touched])
    name = {c: i for i, c in enumerate(touched)}
    operands = [part for axes, table in factors for part in (table, [name[c] for c in axes])]
    return kept, np.einsum(*operands, [name[c] for c in kept], optimize="greedy")


def _check_cells(sizes: Sequence[int]) -> None:
    cells = float(np.prod(np.asarray(sizes, np.float64)))
    if cells > _MOST_CELLS:
        raise ValueError(
            f"the marginal needs a table of {cells:.3g} cells, at most {_MOST_CELLS} are built. "
            "Use fewer columns, or count rows from sample()."
        )
