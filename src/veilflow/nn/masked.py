"""The masked dense layer: y = (M * W) a + b, with a mask given by degrees.

Unit i sees input j if `out_degrees[i] >= in_degrees[j]`. MADE networks, triangular and block-triangular
matrices all have this form. It makes norms cheap: units of equal degree see the same inputs, so
|M * d a^T|^2 = sum over degrees g of (sum of d_i^2 at g) (sum of a_j^2 seen from g), which costs
width x degrees instead of width x width.
"""

import dataclasses
from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow.nn import outer
from veilflow.nn.dense import rows_of, rows_once, uniform_init
from veilflow.nn.tap import AbstractLayer, Tap, observe

Degrees = tuple[int, ...]


@lru_cache(maxsize=256)
def mask_of(in_degrees: Degrees, out_degrees: Degrees) -> np.ndarray:
    """The mask as float32 zeros and ones, (out, in)."""
    return np.greater_equal.outer(np.array(out_degrees), np.array(in_degrees)).astype(np.float32)


@lru_cache(maxsize=256)
def _levels(in_degrees: Degrees, out_degrees: Degrees) -> tuple[np.ndarray, np.ndarray]:
    """For each distinct set of inputs: inputs in it (in, levels), units that see it (out, levels).

    Out-degrees that see the same inputs are one level. One more level sees every input and has no
    unit. It adds next to nothing to a norm, but makes the norm infinite if an input that no unit sees
    is infinite: the product with the mask would be NaN there.
    """
    inputs = np.sort(in_degrees)
    num_seen = np.searchsorted(inputs, np.array(out_degrees), side="right")
    levels = np.unique(num_seen)
    rank = np.searchsorted(inputs, np.array(in_degrees), side="right")
    seen = np.less_equal.outer(rank, levels)
    at = np.equal.outer(num_seen, levels)
    everything, nothing = np.ones((len(seen), 1)), np.zeros((len(at), 1))
    seen, at = np.hstack([seen, everything]), np.hstack([at, nothing])
    return seen.astype(np.float32), at.astype(np.float32)


class MaskedDense(AbstractLayer):
    """A dense layer whose weight (i, j) is free if out_degrees[i] >= in_degrees[j], else zero."""

    weight: Float[Array, "... out_size in_size"]
    bias: Float[Array, "... out_size"] | None
    in_degrees: Degrees = eqx.field(static=True)
    out_degrees: Degrees = eqx.field(static=True)
    tap: Tap | None = None
    uses: int | None = eqx.field(static=True, default=None)

    @classmethod
    def create(
        cls, in_degrees: Degrees, out_degrees: Degrees, *, key: Key[Array, ""], bias: bool = True
    ) -> "MaskedDense":
        """A new layer with random weights inside the mask and a zero bias."""
        in_degrees, out_degrees = tuple(map(int, in_degrees)), tuple(map(int, out_degrees))
        shape = (len(out_degrees), len(in_degrees))
        weight = uniform_init(key, shape, shape[1]) * mask_of(in_degrees, out_degrees)
        zeros = jnp.zeros(shape[0]) if bias else None
        return cls(weight=weight, bias=zeros, in_degrees=in_degrees, out_degrees=out_degrees)

    @property
    def mask(self) -> np.ndarray:
        """Ones where a weight is free."""
        return mask_of(self.in_degrees, self.out_degrees)

    def __call__(self, x: Float[Array, " in_size"]) -> Float[Array, " out_size"]:
        # masked here, so that an optimizer that changes a masked weight has no effect
        y = (self.weight * self.mask) @ x
        return observe(y if self.bias is None else y + self.bias, x, self.tap)

    @property
    def stack(self) -> tuple[int, ...]:
        return self.weight.shape[:-2]

    def tap_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (len(self.in_degrees),), (len(self.out_degrees),)

    def squared_norm(self, tap: Tap) -> Float[Array, " records"]:
        seen, at = _levels(self.in_degrees, self.out_degrees)
        if self.uses is None:
            d2 = outer.contract("ro,og->rg", jnp.square(tap.d), at)
            a2 = outer.contract("ri,ig->rg", jnp.square(tap.a), seen)
            norm = jnp.sum((d2 + outer.TINY) * (a2 + outer.TINY), axis=1)
            # every unit is at exactly one level, so the levels add up to |d|^2, the norm of the bias
            return norm if self.bias is None else norm + jnp.sum(d2, axis=1)
        if self.uses * (len(seen) + len(at)) * at.shape[1] <= len(seen) * len(at):
            gram = outer.contract("rko,rlo,og->rklg", tap.d, tap.d, at) * outer.contract(
                "rki,rli,ig->rklg", tap.a, tap.a, seen
            )
            norm = outer.gram_norm(jnp.sum(gram, axis=(1, 2, 3)), tap.d, tap.a)
        else:
            gradient = outer.outer(tap.d, tap.a, uses=True) * self.mask[None]
            norm = outer.summed_norm(gradient, tap.d, tap.a)
        if self.bias is None:
            return norm
        return norm + outer.summed_bias_norm(tap.d, uses=True)

    def weighted_sum(self, tap: Tap, factors: Float[Array, "records ..."]) -> "MaskedDense":
        uses = self.uses is not None
        weight = outer.weighted_sum(tap.d, tap.a, factors, uses=uses) * self.mask
        bias = None if self.bias is None else outer.weighted_total(tap.d, factors, uses=uses)
        return self._like(weight, bias)

    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        if self.uses is not None:
            return rows_of(self.per_record(tap), tap)
        return rows_once(tap, jnp.asarray(self.mask), bias=self.bias is not None)

    def per_record(self, tap: Tap) -> "MaskedDense":
        uses = self.uses is not None
        bias = None if self.bias is None else outer.total(tap.d, uses=uses)
        return self._like(outer.outer(tap.d, tap.a, uses=uses) * self.mask[None], bias)

    def _like(self, weight: Array, bias: Array | None) -> "MaskedDense":
        return dataclasses.replace(self, weight=weight, bias=bias, tap=None)
