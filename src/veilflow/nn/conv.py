"""Two-dimensional convolution of one record's image, (channels, height, width).

A convolution is a dense layer that is applied at every place of its window to the pixels in the
window. The kernel gradient of one record is a sum of outer products over places. Its norm is computed
either from the places x places Gram matrices or from the kernel gradient itself, whichever is
smaller.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow.nn import outer, windows
from veilflow.nn.dense import uniform_init
from veilflow.nn.tap import AbstractLayer, Tap, observe
from veilflow.nn.windows import Windows

Padding = Literal["SAME", "VALID"] | tuple[tuple[int, int], tuple[int, int]]


class Conv2d(AbstractLayer):
    """A convolution for images of a fixed size."""

    weight: Float[Array, "... out_channels in_channels height width"]
    bias: Float[Array, "... out_channels"] | None
    image_size: tuple[int, int] = eqx.field(static=True)
    stride: int = eqx.field(static=True, default=1)
    padding: Padding = eqx.field(static=True, default="SAME")
    tap: Tap | None = None
    uses: int | None = eqx.field(static=True, default=None)

    @classmethod
    def create(
        cls,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        image_size: tuple[int, int],
        key: Key[Array, ""],
        stride: int = 1,
        padding: Padding = "SAME",
        bias: bool = True,
    ) -> "Conv2d":
        """A new layer with random weights and a zero bias."""
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        weight = uniform_init(key, shape, in_channels * kernel_size**2)
        zeros = jnp.zeros(out_channels) if bias else None
        return cls(weight=weight, bias=zeros, image_size=image_size, stride=stride, padding=padding)

    def __call__(self, x: Float[Array, "in_channels h w"]) -> Float[Array, "out_channels p q"]:
        _, (_, *places) = self.tap_shapes()
        seen = self._windows().seen(x, (places[0], places[1]))
        y = jnp.einsum("oik,ikpq->opq", self.weight.reshape(*self.weight.shape[:2], -1), seen)
        return observe(y if self.bias is None else y + self.bias[:, None, None], x, self.tap)

    @property
    def stack(self) -> tuple[int, ...]:
        return self.weight.shape[:-4]

    def tap_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        out_channels, in_channels, *kernel = self.weight.shape[-4:]
        sides = zip(self.image_size, kernel, self._pads(), strict=True)
        out_size = ((side + sum(pads) - size) // self.stride + 1 for side, size, pads in sides)
        return (in_channels, *self.image_size), (out_channels, *out_size)

    def squared_norm(self, tap: Tap) -> Float[Array, " records"]:
        d, a = self._images(tap)
        norm = self._windows().squared_norm(d, a)
        if self.bias is None:
            return norm
        return norm + outer.summed_bias_norm(windows.places(d), uses=True)

    def weighted_sum(self, tap: Tap, factors: Float[Array, "records ..."]) -> "Conv2d":
        d, a = self._images(tap)
        weight = self._windows().weighted_sum(windows.scaled(d, factors), a)
        if self.bias is None:
            return self._like(weight, None)
        return self._like(weight, outer.weighted_total(windows.places(d), factors, uses=True))

    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        d, a = self._images(tap)
        gradient = self.per_record(tap)
        l1, l2 = windows.norms_by_unit(gradient.weight, gradient.bias)
        seen = jnp.sqrt(self._windows().squares_seen(d, a))
        return l1, outer.raised(l2, outer.row_lengths(windows.places(d), seen[..., None]))

    def per_record(self, tap: Tap) -> "Conv2d":
        d, a = self._images(tap)
        weight = self._windows().per_record(d, a)
        return self._like(weight, None if self.bias is None else jnp.sum(d, axis=(1, 3, 4)))

    def _pads(self) -> Sequence[tuple[int, int]]:
        if not isinstance(self.padding, str):
            return self.padding
        kernel, stride = self.weight.shape[-2:], (self.stride, self.stride)
        return jax.lax.padtype_to_pads(self.image_size, kernel, stride, self.padding)

    def _windows(self) -> Windows:
        height, width = self.weight.shape[-2:]
        (top, _), (left, _) = self._pads()
        return Windows((height, width), self.stride, (top, left))

    def _images(self, tap: Tap) -> tuple[Array, Array]:
        """The coarse image and the fine one: cotangent and input."""
        return windows.images(tap.d, uses=self.uses), windows.images(tap.a, uses=self.uses)

    def _like(self, weight: Array, bias: Array | None) -> "Conv2d":
        return dataclasses.replace(self, weight=weight, bias=bias, tap=None)
