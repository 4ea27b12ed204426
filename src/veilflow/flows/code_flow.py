"""The autoregressive flow of a row of codes.

A code with a uniform number in its bin is a point of the unit interval, and the map of that point to
the conditional distribution function is an autoregressive flow with piecewise linear scalar maps: its
knots are the borders of the bins, which are public, and a masked network sets how far it rises in
each. The density it gives to a row is the product of the conditional shares of its codes, so none of
this has to be built as such: one masked network, a softmax for each column, exact in both directions.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from veilflow._core import check
from veilflow.flows.code_sampler import FREE, CodeSampler
from veilflow.flows.codebook import Codebook
from veilflow.flows.conditioner import hidden_degrees
from veilflow.flows.scalar_maps.bounded import soft_bound
from veilflow.nn.masked import MaskedDense

_BOUND = 20.0
"""Logits move by at most this much: sums of their exponentials stay within float32."""


class CodeFlow(eqx.Module):
    """A density over rows of codes: each column's shares are set by the columns before it.

    The last layer sees the hidden units and the row itself, so pairs of columns need no hidden unit.
    """

    codebook: Codebook
    layers: tuple[MaskedDense, ...]
    order: tuple[int, ...] = eqx.field(static=True)
    """Columns from the first to the last."""

    @classmethod
    def create(
        cls,
        codebook: Codebook,
        *,
        key: Key[Array, ""],
        order: Sequence[int] | None = None,
        hidden: tuple[int, ...] = (256,),
    ) -> "CodeFlow":
        """A fresh flow, whose columns are independent with the masses of the codebook.

        Args:
            codebook: Codes and their shares.
            key: Spent here, for the weights.
            order: Columns from the first to the last; None takes them as they are.
            hidden: Sizes of the hidden layers; none for a network of pairs only.
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
        last = degrees[-1] + inputs if hidden else inputs
        keys = jax.random.split(key, len(degrees))
        layers = [
            MaskedDense.create(degrees[i], degrees[i + 1], key=keys[i]) for i in range(len(hidden))
        ]
        head = MaskedDense.create(last, tuple(int(p) for p in place), key=keys[-1])
        layers.append(eqx.tree_at(lambda m: m.weight, head, jnp.zeros_like(head.weight)))
        return cls(codebook, tuple(layers), order)

    @property
    def dim(self) -> int:
        """How many codes a row has."""
        return self.codebook.num_columns

    def log_prob(
        self, codes: Int[Array, " dim"], weights: Float[np.ndarray, " dim"] | None = None
    ) -> Float[Array, ""]:
        """The natural log of the share of one row among all.

        Args:
            codes: The row.
            weights: How often each column counts; None for once, which makes it a log-share.
        """
        book = self.codebook
        counted = np.ones(self.dim) if weights is None else weights
        one_hot, logits = self._logits(codes)
        own = jnp.sum(one_hot * logits * counted[book.slot_columns].astype(np.float32))
        # sums over a column's slots as one product for all columns: compile time does not grow
        member = np.equal.outer(book.slot_columns, np.arange(self.dim)).astype(np.float32)
        return own - jnp.log(jnp.exp(logits) @ member) @ counted.astype(np.float32)

    def _logits(self, codes: Array) -> tuple[Float[Array, " slots"], Float[Array, " slots"]]:
        """Ones at the slots of a row, and logits of all slots given the columns before."""
        book = self.codebook
        one_hot = book.one_hot(codes)
        features = book.features(one_hot)
        *below, head = self.layers
        hidden = features
        for layer in below:
            hidden = jnp.tanh(layer(hidden))
        seen = jnp.concatenate([hidden, features]) if below else features
        return one_hot, book.logits(self.bounded(head(seen)))

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

        Free columns are drawn in order, each given those before it. The weight is the probability of
        the given codes along the way, and of what is allowed where it is drawn: the same for all rows
        where given columns come first and all is allowed, and then rows are exact draws. Otherwise
        rows are to be resampled by weight.

        Args:
            key: Spent here.
            given: Codes, or `FREE`.
            allowed: Slots of the codebook that may be drawn; None for all.
        """
        if allowed is None:
            allowed = jnp.ones(self.codebook.log_mass.shape, bool)
        return CodeSampler.of(self).sample_given(key, given, allowed)

    def bounded(self, params: Array) -> Array:
        """What the network says, held to numbers whose exponentials can be summed."""
        return soft_bound(params, _BOUND)
