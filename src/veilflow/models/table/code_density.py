"""The flow of codes as a density of rows: exact scores, given cells, gaps filled."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Key

from veilflow._core.chunks import apply_in_chunks
from veilflow.flows.code_flow import CodeFlow
from veilflow.flows.codebook import Codebook, span
from veilflow.flows.gap_rules import GapRule, hold, made_to_hold
from veilflow.models.table.architecture import CodeArchitecture
from veilflow.models.table.coder import Coder
from veilflow.models.table.conditional import draw
from veilflow.models.table.density import AbstractTableDensity, Loss
from veilflow.tabular.codec import EncodedRows

_CHUNK = 4096
"""Rows scored at once by one compiled program."""
_BALANCE_ROWS, _BALANCE_CELLS = 100_000, 2**21
"""Rows and cells on which shares are compared, at most: wide tables take fewer rows, for speed."""
_BALANCE_ROUNDS, _BALANCE_STEP = 4, 0.9
_BALANCE_MOST = 3.0
"""The most that one round moves the logarithm of a share."""


@cache
def _weighted_loss(last: float) -> Loss:
    """The negative log-density, in which the last column of the order has the weight `last`."""

    def loss(flow: CodeFlow, codes: Array, key: Key[Array, ""]) -> Array:
        weights = np.ones(flow.dim)
        weights[flow.order[-1]] = last
        return -flow.log_prob(codes, weights)

    return loss


@dataclass(frozen=True)
class CodeDensity(AbstractTableDensity):
    """A `CodeFlow` over codes, and the released histograms within bins."""

    flow: CodeFlow
    label_weight: float = 1.0
    """The weight in training of the last column of the order."""

    kind = "codes"
    public_loss = None

    @property
    def loss(self) -> Loss:
        """The negative log-density, in which the label has its weight."""
        return _weighted_loss(self.label_weight)

    @classmethod
    def create(
        cls,
        coder: Coder,
        architecture: CodeArchitecture,
        *,
        label: int | None,
        key: Key[Array, ""],
        rules: tuple[GapRule, ...] = (),
    ) -> "CodeDensity":
        """A fresh density, in which columns are independent.

        Args:
            coder: The coder of the table.
            architecture: The flow with all of its sizes.
            label: The index of the label, which comes last in the order of the flow.
            key: For the weights.
            rules: On missing cells.
        """
        book = codebook_of(coder, architecture)
        flow = _flow(book, architecture, label=label, key=key, rules=rules)
        assert architecture.label_weight is not None
        return cls(coder, flow, 1.0 if label is None else architecture.label_weight)

    def records(self, rows: EncodedRows) -> Int32[np.ndarray, "rows columns"]:
        """The codes of the rows."""
        return self.coder.codes(rows)

    def records_of_codes(
        self, codes: Int32[np.ndarray, "rows columns"], rng: np.random.Generator
    ) -> Int32[np.ndarray, "rows columns"]:
        """The codes themselves, made to hold the rules on missing cells."""

        def present(j: int, num: int) -> np.ndarray:
            mass = self.coder.columns[j].mass[:-1]
            return rng.choice(len(mass), num, p=mass / mass.sum())

        flow = self.flow
        sizes = flow.codebook.sizes
        return made_to_hold(codes, flow.rules, sizes=sizes, order=flow.order, present=present)

    def adjusted(self, key: Key[Array, ""]) -> "CodeDensity":
        """This density with single columns as they were released."""
        masses = [column.mass for column in self.coder.columns]
        num_rows = min(_BALANCE_ROWS, _BALANCE_CELLS // len(masses))
        return self.with_flow(balanced(self.flow, masses, num_rows=num_rows, key=key))

    def placed(self, key: Key[Array, ""]) -> "CodeDensity":
        """This density with numbers that hang together within bins as they do across them."""
        num_rows = min(_BALANCE_ROWS, _BALANCE_CELLS // len(self.coder.columns))
        return replace(self, coder=self.coder.mixed(np.asarray(draw(self.flow, key, num_rows))))

    def draw(self, num_rows: int, key: Key[Array, ""], rng: np.random.Generator) -> EncodedRows:
        """Draw rows, exactly."""
        return self.coder.rows(np.asarray(draw(self.flow, key, num_rows)), rng)

    def log_prob(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """The exact log-density of each row, in the units of the data; of what cannot be, -inf."""
        codes = self.coder.codes(rows)
        exact = apply_in_chunks(lambda part: _log_prob(self.flow, part), codes, size=_CHUNK)
        total = exact.astype(np.float64) + self.coder.log_within(rows)
        if not self.flow.rules:
            return total
        missing = codes == np.array(self.flow.codebook.sizes) - 1
        return np.where(hold(self.flow.rules, missing), total, -np.inf)

    @property
    def num_features(self) -> tuple[int, ...]:
        """The number of features of each ordered column; spikes have one of their own."""
        return self.flow.codebook.num_waves

    def arrays(self) -> dict[str, Any]:
        """Weights, biases, and logarithms of shares."""
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
            num_codes: The number of codes of each column.
            num_features: The property of this name.
            architecture: The flow with all of its sizes.
            ordered: Whether the codes of each column are ordered.
            label: The index of the label.
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
        rules: tuple[GapRule, ...] = (),
    ) -> "CodeDensity":
        """The density that `arrays` described; features follow from the shares of the coder.

        Raises:
            ValueError: The arrays do not have the shapes that the columns require.
        """
        book = codebook_of(coder, architecture)
        skeleton = eqx.filter_eval_shape(
            lambda: _flow(book, architecture, label=label, key=jax.random.key(0), rules=rules)
        )
        wanted = jax.tree.map(lambda leaf: leaf.shape, cls(coder, skeleton).arrays())
        if wanted != jax.tree.map(lambda leaf: leaf.shape, arrays):
            raise ValueError("arrays do not have the shapes that the columns require.")
        layers = [
            eqx.tree_at(lambda one: (one.weight, one.bias), layer, (own["weight"], own["bias"]))
            for layer, own in zip(skeleton.layers, arrays["layers"], strict=True)
        ]
        book = eqx.tree_at(lambda one: one.log_mass, book, arrays["log_mass"])
        assert architecture.label_weight is not None
        weight = 1.0 if label is None else architecture.label_weight
        return cls(coder, CodeFlow(book, tuple(layers), skeleton.order, rules), weight)


def _flow(
    book: Codebook,
    architecture: CodeArchitecture,
    *,
    label: int | None,
    key: Key[Array, ""],
    rules: tuple[GapRule, ...] = (),
) -> CodeFlow:
    # the label comes last: its distribution given all other columns is what matters most
    order = [j for j in range(book.num_columns) if j != label]
    order += [] if label is None else [label]
    assert architecture.hidden is not None
    assert architecture.direct is not None
    settings = {"hidden": architecture.hidden, "direct": architecture.direct}
    return CodeFlow.create(book, key=key, order=order, rules=rules, **settings)


def codebook_of(coder: Coder, architecture: CodeArchitecture) -> Codebook:
    """The codebook of a coder: shares of codes, and features of ordered codes."""
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


def balanced(
    flow: CodeFlow,
    masses: list[Float[np.ndarray, " codes"]],
    *,
    num_rows: int,
    key: Key[Array, ""],
) -> CodeFlow:
    """`flow` with biases at which its rows have about these shares of codes.

    Noisy steps move the shares of single codes, which were released once, precisely. So rows are drawn
    from the flow, their shares are compared with the released ones, and the difference is added to the
    biases of the last layer. Only released numbers are read: it costs nothing.
    """
    book = flow.codebook
    shift = np.asarray(book.log_mass, np.float64).copy()
    for one in range(_BALANCE_ROUNDS):
        moved = eqx.tree_at(lambda f: f.codebook.log_mass, flow, jnp.asarray(shift, jnp.float32))
        codes = np.asarray(draw(moved, jax.random.fold_in(key, one), num_rows))
        for j, mass in enumerate(masses):
            # every code counts half a row more, so that none is lost for good
            drawn = np.bincount(codes[:, j], minlength=len(mass)) + 0.5
            wanted = np.maximum(mass, 1e-9) / np.maximum(mass, 1e-9).sum()
            wanted = (wanted * num_rows + 0.5) / (num_rows + 0.5 * len(mass))
            change = _BALANCE_STEP * (np.log(wanted) - np.log(drawn / drawn.sum()))
            shift[span(book.slot_columns, j)] += np.clip(change, -_BALANCE_MOST, _BALANCE_MOST)
    return eqx.tree_at(lambda f: f.codebook.log_mass, flow, jnp.asarray(shift, jnp.float32))
