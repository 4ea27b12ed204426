"""The flow of codes as a density of rows: exact scores, given cells, gaps filled."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Key

from veilflow._core.chunks import apply_in_chunks
from veilflow.flows.code_flow import CodeFlow
from veilflow.flows.codebook import Codebook
from veilflow.models.table.architecture import CodeArchitecture
from veilflow.models.table.balance import balanced
from veilflow.models.table.coder import Coder
from veilflow.models.table.conditional import draw
from veilflow.models.table.density import AbstractTableDensity, Loss
from veilflow.tabular.codec import EncodedRows

_BALANCE_ROWS, _BALANCE_CELLS = 100_000, 2**21
"""Rows that shares are compared on: fewer where columns are many, for time."""
_CHUNK = 4096


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
        architecture: CodeArchitecture,
        *,
        label: int | None,
        key: Key[Array, ""],
    ) -> "CodeDensity":
        """Columns that are independent; the key is spent, for the weights.

        Args:
            coder: Of the table.
            architecture: With all of its sizes.
            label: The column that comes last in the order of the flow, and counts by its weight.
            key: Spent here.
        """
        book = codebook_of(coder, architecture)
        flow = _flow(book, architecture, label=label, key=key)
        assert architecture.label_weight is not None
        return cls(coder, flow, 1.0 if label is None else architecture.label_weight)

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
        exact = apply_in_chunks(lambda part: _log_prob(self.flow, part), codes, size=_CHUNK)
        return exact.astype(np.float64) + self.coder.log_within(rows)

    @property
    def num_features(self) -> tuple[int, ...]:
        """Features of each ordered column; spikes have one of their own."""
        return self.flow.codebook.num_waves

    def arrays(self) -> dict[str, Any]:
        """Weights, biases and the shares they stand on."""
        layers = [{"weight": layer.weight, "bias": layer.bias} for layer in self.flow.layers]
        return {"log_mass": self.flow.codebook.log_mass, "layers": layers}

    @classmethod
    def shapes(
        cls,
        num_codes: tuple[int, ...],
        num_features: tuple[int, ...],
        architecture: CodeArchitecture,
        *,
        ordered: tuple[bool, ...],
        label: int | None,
    ) -> dict[str, Any]:
        """The shapes of `arrays`.

        Args:
            num_codes: Of each column.
            num_features: As the property says.
            architecture: With all of its sizes.
            ordered: Which columns have codes in their order.
            label: The place of the label.
        """
        slots = sum(num for num, own in zip(num_codes, ordered, strict=True) if own)

        def make() -> CodeFlow:
            book = Codebook(
                sizes=num_codes,
                ordered=ordered,
                num_waves=num_features,
                most_waves=architecture.num_waves or 0,
                log_mass=jnp.zeros(sum(num_codes)),
                waves=jnp.zeros((slots, sum(num_features))),
            )
            return _flow(book, architecture, label=label, key=jax.random.key(0))

        skeleton = eqx.filter_eval_shape(make)
        return cls(Coder(()), skeleton).arrays()

    @classmethod
    def restored(
        cls,
        coder: Coder,
        arrays: dict[str, Any],
        architecture: CodeArchitecture,
        *,
        label: int | None,
    ) -> "CodeDensity":
        """The density of `arrays`; features are made again from the shares of the coder.

        Raises:
            ValueError: Arrays are of other shapes than the columns ask for.
        """
        book = codebook_of(coder, architecture)
        skeleton = eqx.filter_eval_shape(
            lambda: _flow(book, architecture, label=label, key=jax.random.key(0))
        )
        wanted = jax.tree.map(lambda leaf: leaf.shape, cls(coder, skeleton).arrays())
        if wanted != jax.tree.map(lambda leaf: leaf.shape, arrays):
            raise ValueError("arrays do not have the shapes that the columns ask for.")
        layers = [
            eqx.tree_at(lambda one: (one.weight, one.bias), layer, (own["weight"], own["bias"]))
            for layer, own in zip(skeleton.layers, arrays["layers"], strict=True)
        ]
        book = eqx.tree_at(lambda one: one.log_mass, book, arrays["log_mass"])
        assert architecture.label_weight is not None
        weight = 1.0 if label is None else architecture.label_weight
        return cls(coder, CodeFlow(book, tuple(layers), skeleton.order), weight)


def _flow(
    book: Codebook, architecture: CodeArchitecture, *, label: int | None, key: Key[Array, ""]
) -> CodeFlow:
    # the label last: its shares given all other columns are what records say most about
    order = [j for j in range(book.num_columns) if j != label]
    order += [] if label is None else [label]
    assert architecture.hidden is not None
    return CodeFlow.create(book, key=key, order=order, hidden=architecture.hidden)


def codebook_of(coder: Coder, architecture: CodeArchitecture) -> Codebook:
    """The codebook of a coder: shares of codes, and features of ordered ones."""
    columns = coder.columns
    assert architecture.num_waves is not None
    return Codebook.create(
        [column.mass for column in columns],
        ordered=[column.ordered for column in columns],
        gaps=[column.ordered and column.nullable for column in columns],
        num_waves=architecture.num_waves,
    )


@eqx.filter_jit
def _log_prob(flow: CodeFlow, codes: Array) -> Array:
    return jax.vmap(flow.log_prob)(codes)
