"""Rows of codes drawn from a flow of codes, column by column in its order.

What one code adds to the units and outputs behind it is a row of a table, made once; so a column
costs a look-up, the few hidden units it completes, and the logits of its own codes. Columns are
scanned: the program is as long for a hundred of them as for two.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from veilflow.flows.codebook import span

if TYPE_CHECKING:
    from veilflow.flows.code_flow import CodeFlow

FREE = -1
"""In place of a code that is not given."""


class _Places(NamedTuple):
    """Where what belongs to a column is. Of all columns at once: arrays, in the order of the flow."""

    column: Int[np.ndarray, "..."]
    slot: Int[np.ndarray, "..."]
    """The first slot."""
    size: Int[np.ndarray, "..."]
    feature: Int[np.ndarray, "..."]
    """The first output."""
    wave: Int[np.ndarray, "... 2"]
    """The first row and column in the table of waves; of a listed column, any."""
    ordered: Bool[np.ndarray, "..."]
    units: Int[np.ndarray, "... layers 2"]
    """Of each hidden layer, the units that the columns before complete: from, and to before."""


class CodeSampler(eqx.Module):
    """The tables from which rows are drawn: made once, for many rows.

    Windows into tables are as wide as the widest column needs. Tables go on for so long past their
    ends, and what a window shows beside its column is not used.
    """

    flow: "CodeFlow"
    biases: tuple[Float[Array, " units"], ...]
    added: tuple[Float[Array, "slots units"], ...]
    """What a code adds to the first layer and, where there are hidden ones, to the last."""
    behind: tuple[Float[Array, "units units_behind"], ...]
    """What the units of a hidden layer add to the layer behind it."""

    @classmethod
    def of(cls, flow: "CodeFlow") -> "CodeSampler":
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
        if behind:
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
        # all noise at once: a generator for every column would be most of the program
        noise = jax.random.gumbel(key, book.log_mass.shape)
        by_slot = [jnp.pad(each, (0, codes)) for each in (book.log_mass, noise, allowed)]
        wave_table = jnp.pad(book.waves, ((0, codes), (0, waves)))

        def step(sums: tuple[Array, ...], at: _Places) -> tuple[tuple[Array, ...], tuple]:
            """The next column's code and log-weight; `sums` go into the layers so far."""
            layers = list(sums)
            for depth, (table, width) in enumerate(zip(self.behind, units, strict=True)):
                first, end = at.units[depth]
                mine = jnp.tanh(_window(layers[depth], first, width))
                mine = jnp.where(jnp.arange(width) < end - first, mine, 0.0)
                layers[depth + 1] += mine @ _window(table, first, width)
            outputs = flow.bounded(_window(layers[-1], at.feature, max(codes, waves)))
            own_waves = jax.lax.dynamic_slice(wave_table, at.wave, (codes, waves))
            smooth = book.bounded(own_waves @ outputs[:waves])
            mass, gumbel, may = (_window(each, at.slot, codes) for each in by_slot)
            own = jnp.arange(codes) < at.size
            logits = mass + jnp.where(at.ordered, smooth, outputs[:codes])
            logits = jax.nn.log_softmax(jnp.where(own, logits, -jnp.inf))
            may &= own
            drawn = jnp.argmax(jnp.where(may, logits + gumbel, -jnp.inf))
            fixed = given[at.column]
            code = jnp.where(fixed >= 0, fixed, drawn).astype(jnp.int32)
            allowed_part = jax.nn.logsumexp(logits, where=may)
            log_weight = jnp.where(fixed >= 0, logits[code], allowed_part)
            for layer, table in zip((0, -1), self.added, strict=False):
                layers[layer] += table[at.slot + code]
            return tuple(layers), (code, log_weight)

        places = jax.tree.map(jnp.asarray, _places(flow))
        _, (drawn, log_weights) = jax.lax.scan(step, self.biases, places)
        return drawn[np.argsort(flow.order)], jnp.sum(log_weights)


def _window(table: Array, first: Any, width: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(table, first, width)


def _widths(flow: "CodeFlow") -> tuple[int, ...]:
    """Of each layer, the most units that belong to one place of the order."""
    book = flow.codebook
    units = _places(flow).units
    most = (units[..., 1] - units[..., 0]).max(axis=0, initial=0)
    return (*map(int, most), max(*book.sizes, *book.num_waves))


def _places(flow: "CodeFlow") -> _Places:
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
