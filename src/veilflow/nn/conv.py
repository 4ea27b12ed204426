"""Two-dimensional convolution over one record's image, (channels, height, width).

A convolution is a dense layer used once at every output position, on the patch under it. One
record's kernel gradient is a sum over positions of outer products; its norm comes either from the
positions x positions Gram matrices or from the (small) kernel gradient itself, whichever is smaller.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow.nn import outer
from veilflow.nn.dense import uniform_init
from veilflow.nn.tap import AbstractLayer, Tap, observe

Padding = Literal["SAME", "VALID"] | tuple[tuple[int, int], tuple[int, int]]


class Conv2d(AbstractLayer):
    """A convolution of images of a fixed size."""

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
        """A fresh layer with random weights and a zero bias."""
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        weight = uniform_init(key, shape, in_channels * kernel_size**2)
        zeros = jnp.zeros(out_channels) if bias else None
        return cls(weight=weight, bias=zeros, image_size=image_size, stride=stride, padding=padding)

    def __call__(self, x: Float[Array, "in_channels h w"]) -> Float[Array, "out_channels p q"]:
        y = self._convolve(x[None], self.weight)[0]
        return observe(y if self.bias is None else y + self.bias[:, None, None], x, self.tap)

    @property
    def stack(self) -> tuple[int, ...]:
        return self.weight.shape[:-4]

    def tap_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        image = (self.weight.shape[-3], *self.image_size)
        kernel = jax.ShapeDtypeStruct(self.weight.shape[-4:], jnp.float32)
        batch = jax.ShapeDtypeStruct((1, *image), jnp.float32)
        return image, jax.eval_shape(self._convolve, batch, kernel).shape[1:]

    def squared_norm(self, tap: Tap) -> Float[Array, " records"]:
        d, patches = self._unfold(tap)
        norm = outer.squared_norm(d, patches, uses=True)
        return norm if self.bias is None else norm + outer.summed_bias_norm(d, uses=True)

    def weighted_sum(self, tap: Tap, factors: Float[Array, "records ..."]) -> "Conv2d":
        d, patches = self._unfold(tap)
        weight = outer.weighted_sum(d, patches, factors, uses=True).reshape(self.weight.shape[-4:])
        bias = None if self.bias is None else outer.weighted_total(d, factors, uses=True)
        return self._like(weight, bias)

    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        gradient = self.per_record(tap)
        axes = (2, 3, 4)
        l1 = jnp.sum(jnp.abs(gradient.weight), axes)
        l2 = jnp.sum(jnp.square(gradient.weight), axes)
        if gradient.bias is not None:
            l1, l2 = l1 + jnp.abs(gradient.bias), l2 + jnp.square(gradient.bias)
        return l1, outer.raised(l2, outer.row_lengths(*self._unfold(tap)))

    def per_record(self, tap: Tap) -> "Conv2d":
        d, patches = self._unfold(tap)
        weight = outer.outer(d, patches, uses=True).reshape(-1, *self.weight.shape[-4:])
        return self._like(weight, None if self.bias is None else outer.total(d, uses=True))

    def _convolve(self, x: Array, weight: Array) -> Array:
        return jax.lax.conv_general_dilated(x, weight, (self.stride, self.stride), self.padding)

    def _unfold(self, tap: Tap) -> tuple[Array, Array]:
        """Cotangents and patches as uses of a dense layer: (records, positions, width)."""
        a, d = tap.a, tap.d
        records = d.shape[0]
        if self.uses is not None:  # uses and positions are one long list of uses
            a = a.reshape(-1, *a.shape[2:])
        patches = jax.lax.conv_general_dilated_patches(
            a, self.weight.shape[-2:], (self.stride, self.stride), self.padding,
            precision=jax.lax.Precision.HIGHEST,
        )  # fmt: skip
        patches = jnp.moveaxis(patches, 1, -1).reshape(records, -1, patches.shape[1])
        d = jnp.moveaxis(d, -3, -1).reshape(records, -1, d.shape[-3])
        return d, patches

    def _like(self, weight: Array, bias: Array | None) -> "Conv2d":
        return Conv2d(
            weight=weight,
            bias=bias,
            image_size=self.image_size,
            stride=self.stride,
            padding=self.padding,
            uses=self.uses,
        )
