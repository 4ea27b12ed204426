"""The autoregressive flow of a row of codes.

A code with a uniform number in its bin is a point of the unit interval. The map of that point to the
conditional distribution function is an autoregressive flow with piecewise linear scalar maps: its knots
are the public borders of the bins, and a masked network sets how far it rises in
each. The density of a row is the product of the conditional shares of its codes, so none of this has to
be built as such: one masked network and a softmax for each column are exact in both directions.

To sample, `CodeSampler` tabulates once what each code adds to the units and outputs after it. A column
then costs a look-up, the few hidden units that it completes, and the logits of its own codes. Columns
are scanned, so the program is as long for a hundred of them as for two.

Rules on missing cells (`gap_rules`) take away codes that the columns before a column rule out: the
others share its probability.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from veilflow._core import check
from veilflow.flows.codebook import Codebook, span
from veilflow.flows.conditioner import hidden_degrees
from veilflow.flows.gap_rules import GapRule, consequences
from veilflow.flows.scalar_maps.simple import soft_bound
from veilflow.nn.masked import MaskedDense

_BOUND = 20.0
"""Logits move by at most this much: sums of their exponentials stay within float32."""
FREE = -1
"""In place of a code that is not given."""
_RULED_OUT = -3e4
"""The logit of a code that a rule takes away: its exponential is zero, and nothing is infinite."""


class CodeFlow(eqx.Module):
    """A density over rows of codes: each column's shares are set by the columns before it.

    The last layer sees the hidden units and, if it is direct, the row itself, so that pairs of columns
    need no hidden unit. Its weights then grow with the square of the features.
    """

    codebook: Codebook
    layers: tuple[MaskedDense, ...]
    order: tuple[int, ...] = eqx.field(static=True)
    """Columns from the first to the last."""
    rules: tuple[GapRule, ...] = eqx.field(static=True, default=())
    """On missing cells, which are the last code of the columns that rules name."""

    @classmethod
    def create(
        cls,
        codebook: Codebook,
        *,
        key: Key[Array, ""],
        order: Sequence[int] | None = None,
        hidden: tuple[int, ...] = (256,),
        direct: bool = True,
        rules: tuple[GapRule, ...] = (),
    ) -> "CodeFlow":
        """A new flow, whose columns are independent with the masses of the codebook.

        Args:
            codebook: Codes and their shares.
            key: Spent here, for the weights.
            order: Columns from the first to the last; None for the order of the codebook.
            hidden: Sizes of the hidden layers; empty for a network of pairs only.
            direct: Whether the last layer also sees the row itself; without hidden layers it must.
            rules: On missing cells.
        """
        dim = codebook.num_columns
        order = tuple(range(dim)) if order is None else tuple(int(j) for j in order)
        if sorted(order) != list(range(dim)):
            raise ValueError(f"order must name each of the {dim} columns once, got {order}.")
        for size in hidden:
            check.count(hidden=size)
        place = np.argsort(order)[codebook.feature_columns]
        inputs = tuple(int(p) + 1 for p in place)
        degrees = [inputs, *(hidden_degrees(dim, size) for size in hidden)]
        last = degrees[-1] + inputs if hidden and direct else degrees[-1]
        keys = jax.random.split(key, len(degrees))
        layers = [
            MaskedDense.create(degrees[i], degrees[i + 1], key=keys[i]) for i in range(len(hidden))
        ]
        head = MaskedDense.create(last, tuple(int(p) for p in place), key=keys[-1])
        layers.append(eqx.tree_at(lambda m: m.weight, head, jnp.zeros_like(head.weight)))
        return cls(codebook, tuple(layers), order, rules)

    @property
    def dim(self) -> int:
        """How many codes a row has."""
        return self.codebook.num_columns

    @property
    def direct(self) -> bool:
        """Whether the last layer sees the row itself."""
        *below, head = self.layers
        return not below or len(head.in_degrees) > len(below[-1].out_degrees)

    def log_prob(
        self, codes: Int[Array, " dim"], weights: Float[np.ndarray, " dim"] | None = None
    ) -> Float[Array, ""]:
        """The natural log of the share of one row among all.

        Args:
            codes: The row. One that breaks a rule has a share of practically zero.
            weights: Weight of each column; None for 1 each, which gives a log-share.
        """
        book = self.codebook
        column_weights = np.ones(self.dim) if weights is None else weights
        one_hot, logits = self._logits(codes)
        if self.rules:
            logits = jnp.where(self._ruled_out(codes), _RULED_OUT, logits)
        own = jnp.sum(one_hot * logits * column_weights[book.slot_columns].astype(np.float32))
        log_sums = jnp.log(book.column_sums(jnp.exp(logits)))
        return own - log_sums @ column_weights.astype(np.float32)

    def _logits(self, codes: Array) -> tuple[Float[Array, " slots"], Float[Array, " slots"]]:
        """Ones at the slots of a row, and logits of all slots given the columns before."""
        book = self.codebook
        one_hot = book.one_hot(codes)
        features = book.features(one_hot)
        *below, head = self.layers
        hidden = features
        for layer in below:
            hidden = jnp.tanh(layer(hidden))
        seen = jnp.concatenate([hidden, features]) if below and self.direct else hidden
        return one_hot, book.logits(self.bounded(head(seen)))

    def _ruled_out(self, codes: Array) -> Bool[Array, " slots"]:
        """The slots that rules take away, given the columns before each."""
        book, columns = self.codebook, self.codebook.slot_columns
        is_gap = codes == np.array(book.sizes) - 1
        state = jnp.stack([~is_gap, is_gap], axis=1).astype(jnp.float32)
        required = consequences(self.rules, order=self.order).astype(np.float32)
        present, missing = (jnp.tensordot(state, required, 2) > 0).T
        last = book.slot_codes == np.array(book.sizes)[columns] - 1
        return jnp.where(last, (present & ~missing)[columns], missing[columns])

    def sample(self, key: Key[Array, ""]) -> Int[Array, " dim"]:
        """One row; the key is spent."""
        return self.sample_given(key, jnp.full(self.dim, FREE))[0]

    def sample_given(
        self,
        key: Key[Array, ""],
        given: Int[Array, " dim"],
        allowed: Bool[Array, " slots"] | None = None,
    ) -> tuple[Int[Array, " dim"], Float[Array, ""]]:
        """One row with some codes given, and the log of its importance weight; the key is spent.

        Free columns are drawn in order, each given those before it. The weight is the product of the
        probabilities of the given codes and, where a code is drawn, of what is allowed. It is the same
        for all rows if given columns come first and everything is allowed: then rows are exact draws.
        Otherwise rows must be resampled by weight.

        Args:
            key: Spent here.
            given: Codes, or `FREE`.
            allowed: Slots of the codebook that may be drawn; None for all.
        """
        if allowed is None:
            allowed = jnp.ones(self.codebook.log_mass.shape, bool)
        return CodeSampler.of(self).sample_given(key, given, allowed)

    def bounded(self, params: Array) -> Array:
        """Outputs of the network, bounded so that their exponentials can be summed."""
        return soft_bound(params, _BOUND)


class _Places(NamedTuple):
    """Where the entries of a column start, or of all columns: arrays in the order of the flow."""

    column: Int[np.ndarray, "..."]
    slot: Int[np.ndarray, "..."]
    """The first slot."""
    size: Int[np.ndarray, "..."]
    feature: Int[np.ndarray, "..."]
    """The first output."""
    wave: Int[np.ndarray, "... 2"]
    """The first row and column in the table of waves; arbitrary for a listed column."""
    ordered: Bool[np.ndarray, "..."]
    units: Int[np.ndarray, "... layers 2"]
    """For each hidden layer, the range of units that the columns before this one complete."""


class CodeSampler(eqx.Module):
    """The tables from which rows are drawn: computed once, for many rows.

    Windows into the tables are as wide as the widest column needs. Tables are padded by that much, and
    what a window shows beyond its column is not used.
    """

    flow: CodeFlow
    biases: tuple[Float[Array, " units"], ...]
    added: tuple[Float[Array, "slots units"], ...]
    """What a code adds to the first layer and, behind hidden layers, to a last one that is direct."""
    behind: tuple[Float[Array, "units units_behind"], ...]
    """What the units of a hidden layer add to the next layer."""

    @classmethod
    def of(cls, flow: CodeFlow) -> "CodeSampler":
        """The tables of a flow."""
        layers, wide = flow.layers, _widths(flow)
        biases = [
            jnp.pad(jnp.zeros(len(m.out_degrees)) if m.bias is None else m.bias, (0, w))
            for m, w in zip(layers, wide, strict=True)
        ]
        weights = [
            jnp.pad((layer.weight * layer.mask).T, ((0, 0), (0, w)))
            for layer, w in zip(layers, wide, strict=True)
        ]
        features = flow.codebook.slot_features()
        added, behind = [features @ weights[0]], []
        for layer, w, weight in zip(layers[:-1], wide[:-1], weights[1:], strict=True):
            size = len(layer.out_degrees)  # the last layer sees hidden units, then the row
            behind.append(jnp.pad(weight[:size], ((0, w), (0, 0))))
        if behind and flow.direct:
            added.append(features @ weights[-1][len(layers[-2].out_degrees) :])
        return cls(flow, tuple(biases), tuple(added), tuple(behind))

    def sample_given(
        self, key: Key[Array, ""], given: Int[Array, " dim"], allowed: Bool[Array, " slots"]
    ) -> tuple[Int[Array, " dim"], Float[Array, ""]]:
        """One row with some codes given, and the log of its importance weight; the key is spent.

        Args:
            key: Spent here.
            given: Codes, or `FREE`.
            allowed: Slots of the codebook that may be drawn.
        """
        flow, book = self.flow, self.flow.codebook
        *units, _ = _widths(flow)
        codes, waves = max(book.sizes), max(book.num_waves)
        # all noise at once: a generator for each column would be most of the program
        noise = jax.random.gumbel(key, book.log_mass.shape)
        by_slot = [jnp.pad(each, (0, codes)) for each in (book.log_mass, noise, allowed)]
        wave_table = jnp.pad(book.waves, ((0, codes), (0, waves)))

        rules = bool(flow.rules)
        required = jnp.asarray(consequences(flow.rules, order=flow.order)) if rules else None

        def step(state: tuple[Any, Any], at: _Places) -> tuple[tuple[Any, Any], tuple]:
            """The next column's code and log-weight.

            The state holds the inputs of the layers, and what rules require of each column, so far.
            """
            sums, musts = state
            layers = list(sums)
            for depth, (table, width) in enumerate(zip(self.behind, units, strict=True)):
                first, end = at.units[depth]
                active = jnp.tanh(_window(layers[depth], first, width))
                active = jnp.where(jnp.arange(width) < end - first, active, 0.0)
                layers[depth + 1] += active @ _window(table, first, width)
            outputs = flow.bounded(_window(layers[-1], at.feature, max(codes, waves)))
            own_waves = jax.lax.dynamic_slice(wave_table, at.wave, (codes, waves))
            smooth = book.bounded(own_waves @ outputs[:waves])
            mass, gumbel, may = (_window(each, at.slot, codes) for each in by_slot)
            own = jnp.arange(codes) < at.size
            logits = mass + jnp.where(at.ordered, smooth, outputs[:codes])
            if rules:
                present, missing = musts[at.column]
                last = jnp.arange(codes) == at.size - 1
                out = jnp.where(last, present & ~missing, missing)
                logits = jnp.where(out, _RULED_OUT, logits)
            logits = jax.nn.log_softmax(jnp.where(own, logits, -jnp.inf))
            may &= own
            drawn = jnp.argmax(jnp.where(may, logits + gumbel, -jnp.inf))
            fixed = given[at.column]
            code = jnp.where(fixed >= 0, fixed, drawn).astype(jnp.int32)
            allowed_part = jax.nn.logsumexp(logits, where=may)
            log_weight = jnp.where(fixed >= 0, logits[code], allowed_part)
            for layer, table in zip((0, -1), self.added, strict=False):
                layers[layer] += table[at.slot + code]
            if required is not None:
                musts = musts | required[at.column, (code == at.size - 1).astype(jnp.int32)]
            return (tuple(layers), musts), (code, log_weight)

        places = jax.tree.map(jnp.asarray, _places(flow))
        musts = jnp.zeros((flow.dim, 2), bool) if rules else None
        _, (drawn, log_weights) = jax.lax.scan(step, (self.biases, musts), places)
        return drawn[np.argsort(flow.order)], jnp.sum(log_weights)


def _window(table: Array, first: Any, width: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(table, first, width)


def _widths(flow: CodeFlow) -> tuple[int, ...]:
    """For each layer, the most units that belong to one place of the order."""
    book = flow.codebook
    units = _places(flow).units
    most = (units[..., 1] - units[..., 0]).max(axis=0, initial=0)
    return (*map(int, most), max(*book.sizes, *book.num_waves))


def _places(flow: CodeFlow) -> _Places:
    book = flow.codebook
    listed = book.log_mass.shape[0] - book.waves.shape[0]
    slots = [span(book.slot_columns, j).start for j in flow.order]
    features = [span(book.feature_columns, j).start for j in flow.order]
    ordered = np.array([book.ordered[j] for j in flow.order])
    waves = np.where(ordered[:, None], np.stack([slots, features], 1) - listed, 0)
    units = [
        [np.searchsorted(layer.out_degrees, (place, place + 1)) for layer in flow.layers[:-1]]
        for place in range(flow.dim)
    ]
    return _Places(
        column=np.array(flow.order),
        slot=np.array(slots),
        size=np.array([book.sizes[j] for j in flow.order]),
        feature=np.array(features),
        wave=waves,
        ordered=ordered,
        units=np.array(units, dtype=int).reshape(flow.dim, len(flow.layers) - 1, 2),
    )
