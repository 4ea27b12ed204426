"""The flow of codes as a density of rows: exact scores, given cells, gaps filled."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Key

from veilflow._core import check
from veilflow.flows.code_flow import CodeFlow
from veilflow.flows.codebook import Codebook
from veilflow.models.table.balance import balanced
from veilflow.models.table.coder import Coder
from veilflow.models.table.conditional import draw
from veilflow.models.table.density import AbstractTableDensity, Loss, finite
from veilflow.tabular.codec import EncodedRows

_BALANCE_ROWS, _BALANCE_CELLS = 100_000, 2**21
"""Rows that shares are compared on: fewer where columns are many, for time."""
_CHUNK = 4096
_MOST_UNITS = 2**16


@cache
def _weighted_loss(last: float) -> Loss:
    """Minus the log-density, the last column of the order counted `last` times."""

    def loss(flow: CodeFlow, codes: Array, key: Key[Array, ""]) -> Array:
        weights = np.ones(flow.dim)
        weights[flow.order[-1]] = last
        return -flow.log_prob(codes, weights)

    return loss


@dataclass(frozen=True)
class CodeDensity(AbstractTableDensity):
    """A `CodeFlow` over the codes of a coder; within a bin, the released histogram."""

    flow: CodeFlow
    label_weight: float = 1.0
    """How often the last column of the order counts in training."""

    kind = "codes"
    public_loss = None

    @property
    def loss(self) -> Loss:
        """Minus the log-density, the label weighted."""
        return _weighted_loss(self.label_weight)

    @classmethod
    def create(
        cls,
        coder: Coder,
        *,
        label: int | None,
        label_weight: float,
        num_waves: int,
        hidden: tuple[int, ...],
        key: Key[Array, ""],
    ) -> "CodeDensity":
        """Columns that are independent; the key is spent, for the weights.

        Args:
            coder: Of the table.
            label: The column that comes last in the order of the flow.
            label_weight: How often it counts in training, where there is one.
            num_waves: Most cosines of a number.
            hidden: Sizes of the hidden layers.
            key: Spent here.
        """
        # the label last: its shares given all other columns are what records say most about
        order = [j for j in range(len(coder.columns)) if j != label]
        order += [] if label is None else [label]
        book = codebook_of(coder, num_waves=num_waves)
        flow = CodeFlow.create(book, key=key, order=order, hidden=hidden)
        return cls(coder, flow, 1.0 if label is None else float(label_weight))

    def records(self, rows: EncodedRows) -> Int32[np.ndarray, "rows columns"]:
        """The codes of rows."""
        return self.coder.codes(rows)

    def records_of_codes(
        self, codes: Int32[np.ndarray, "rows columns"], rng: np.random.Generator
    ) -> Int32[np.ndarray, "rows columns"]:
        """The codes themselves."""
        return codes

    def adjusted(self, key: Key[Array, ""]) -> "CodeDensity":
        """With single columns as they were released."""
        masses = [column.mass for column in self.coder.columns]
        num_rows = min(_BALANCE_ROWS, _BALANCE_CELLS // len(masses))
        return self.with_flow(balanced(self.flow, masses, num_rows=num_rows, key=key))

    def draw(self, num_rows: int, key: Key[Array, ""], rng: np.random.Generator) -> EncodedRows:
        """Exact draws."""
        return self.coder.rows(np.asarray(draw(self.flow, key, num_rows)), rng)

    def log_prob(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """Exact scores."""
        codes = self.coder.codes(rows)
        found = np.empty(len(codes))
        for first in range(0, len(codes), _CHUNK):
            part = codes[first : first + _CHUNK]
            padded = np.zeros((_CHUNK, codes.shape[1]), np.int32)
            padded[: len(part)] = part
            found[first : first + _CHUNK] = np.asarray(_log_prob(self.flow, jnp.asarray(padded)))[
                : len(part)
            ]
        return found + self.coder.log_within(rows)

    def settings(self) -> dict[str, Any]:
        """What the arrays do not say."""
        return {
            "order": list(self.flow.order),
            "hidden": [len(layer.out_degrees) for layer in self.flow.layers[:-1]],
            "num_waves": self.flow.codebook.most_waves,
            "label_weight": self.label_weight,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Weights, biases and the shares they stand on."""
        arrays = {"log_mass": np.asarray(self.flow.codebook.log_mass)}
        for i, layer in enumerate(self.flow.layers):
            arrays[f"weight{i}"] = np.asarray(layer.weight)
            arrays[f"bias{i}"] = np.asarray(layer.bias)
        return arrays

    @classmethod
    def read(
        cls, settings: dict[str, Any], arrays: dict[str, np.ndarray], coder: Coder
    ) -> "CodeDensity":
        """The flow in a file. Layers must be of the shapes that the columns ask for."""
        if set(settings) != {"order", "hidden", "num_waves", "label_weight"}:
            raise ValueError(
                "a flow of codes has an order, hidden, num_waves and label_weight, and no other."
            )
        check.positive(label_weight=settings["label_weight"])
        hidden, order = tuple(settings["hidden"]), tuple(settings["order"])
        for size in hidden:
            check.count(hidden=size)
        for place in order:
            check.count(order=place, at_least=0)
        check.count(num_waves=settings["num_waves"])
        if sum(hidden) > _MOST_UNITS or f"weight{len(hidden)}" not in arrays:
            raise ValueError("the network is not one that is fitted here.")
        book = codebook_of(coder, num_waves=settings["num_waves"])
        skeleton = eqx.filter_eval_shape(
            lambda: CodeFlow.create(book, key=jax.random.key(0), order=order, hidden=hidden)
        )
        layers = []
        for i, layer in enumerate(skeleton.layers):
            weight, bias = finite(arrays[f"weight{i}"]), finite(arrays[f"bias{i}"])
            if weight.shape != layer.weight.shape or bias.shape != layer.bias.shape:
                raise ValueError("arrays do not have the shapes the settings ask for.")
            both = jnp.asarray(weight), jnp.asarray(bias)
            layers.append(eqx.tree_at(lambda one: (one.weight, one.bias), layer, both))
        log_mass = finite(arrays["log_mass"])
        if log_mass.shape != book.log_mass.shape:
            raise ValueError("arrays do not have the shapes the settings ask for.")
        book = eqx.tree_at(lambda one: one.log_mass, book, jnp.asarray(log_mass))
        flow = CodeFlow(book, tuple(layers), skeleton.order)
        return cls(coder, flow, float(settings["label_weight"]))


def codebook_of(coder: Coder, *, num_waves: int) -> Codebook:
    """The codebook of a coder: shares of codes, and features of ordered ones."""
    columns = coder.columns
    return Codebook.create(
        [column.mass for column in columns],
        ordered=[column.ordered for column in columns],
        gaps=[column.ordered and column.nullable for column in columns],
        num_waves=num_waves,
    )


@eqx.filter_jit
def _log_prob(flow: CodeFlow, codes: Array) -> Array:
    return jax.vmap(flow.log_prob)(codes)
