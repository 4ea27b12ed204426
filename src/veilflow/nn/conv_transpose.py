"""Transposed two-dimensional convolution of one record's image, (channels, height, width).

It is the map that carries a cotangent back through a convolution, so input and cotangent swap roles:
every input pixel contributes to a window of the output, and the kernel gradient of one record is a sum
over input pixels of outer products of the pixel and the cotangent in its window.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.nn import outer, windows
from veilflow.nn.dense import uniform_init
from veilflow.nn.tap import AbstractLayer, Tap, observe
from veilflow.nn.windows import Windows


class ConvTranspose2d(AbstractLayer):
    """A transposed convolution for images of a fixed size, with PyTorch's geometry.

    An image of height h becomes one of `(h - 1) stride - 2 padding + kernel + output_padding`; the
    width likewise. A 3 x 3 kernel with stride 2 and both paddings 1 doubles an image.
    """

    weight: Float[Array, "... out_channels in_channels height width"]
    """Units come first, as in every layer here; in PyTorch the input channels do."""
    bias: Float[Array, "... out_channels"] | None
    image_size: tuple[int, int] = eqx.field(static=True)
    stride: int = eqx.field(static=True, default=1)
    padding: int = eqx.field(static=True, default=0)
    output_padding: tuple[int, int] = eqx.field(static=True, default=(0, 0))
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
        padding: int = 0,
        output_padding: int | tuple[int, int] = 0,
        bias: bool = True,
    ) -> "ConvTranspose2d":
        """A new layer with random weights and a zero bias.

        Args:
            in_channels: Channels of the input.
            out_channels: Channels of the output.
            kernel_size: Height and width of the kernel.
            image_size: Height and width of the input.
            key: Key for the weights.
            stride: Distance of neighboring input pixels in the output.
            padding: Number of rows and columns that are cut off at each side of the output.
            output_padding: Number of rows below and columns on the right that are added back; one
                number, or one for the height and one for the width. At most `stride - 1`.
            bias: Whether each output channel has a bias.

        Raises:
            ValueError: A size is out of range, or the output would be empty.
        """
        check.count(in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size)
        check.count(stride=stride, height=image_size[0], width=image_size[1])
        check.count(at_least=0, padding=padding)
        if isinstance(output_padding, int):
            output_padding = (output_padding, output_padding)
        for extra in output_padding:
            check.count(at_least=0, output_padding=extra)
            if extra >= stride:
                raise ValueError(
                    f"output_padding must be below stride={stride}, got {extra}. Pixels further away "
                    "from the last input pixel would depend on the bias alone."
                )
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        # as PyTorch does, whose fan-in of a transposed convolution counts the output channels
        weight = uniform_init(key, shape, out_channels * kernel_size**2)
        zeros = jnp.zeros(out_channels) if bias else None
        layer = cls(
            weight=weight,
            bias=zeros,
            image_size=image_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        if min(layer.out_size) < 1:
            raise ValueError(
                f"padding={padding} leaves an output of {layer.out_size}. It must be smaller for "
                f"images of {image_size} and a kernel of {kernel_size}."
            )
        return layer

    def __call__(self, x: Float[Array, "in_channels h w"]) -> Float[Array, "out_channels p q"]:
        image = jax.ShapeDtypeStruct((self.weight.shape[0], *self.out_size), x.dtype)
        back = jax.linear_transpose(lambda y: self._windows().seen(y, self.image_size), image)
        kernel = self.weight.reshape(*self.weight.shape[:2], -1)
        (y,) = back(jnp.einsum("oik,ipq->okpq", kernel, x))
        return observe(y if self.bias is None else y + self.bias[:, None, None], x, self.tap)

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        kept = self.weight.shape[-1] - 2 * self.padding
        (h, w), (below, right) = self.image_size, self.output_padding
        return (h - 1) * self.stride + kept + below, (w - 1) * self.stride + kept + right

    @property
    def stack(self) -> tuple[int, ...]:
        return self.weight.shape[:-4]

    def tap_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        out_channels, in_channels = self.weight.shape[-4:-2]
        return (in_channels, *self.image_size), (out_channels, *self.out_size)

    def squared_norm(self, tap: Tap) -> Float[Array, " records"]:
        a, d = self._images(tap)
        norm = self._windows().squared_norm(a, d)
        if self.bias is None:
            return norm
        return norm + outer.summed_bias_norm(windows.places(d), uses=True)

    def weighted_sum(self, tap: Tap, factors: Float[Array, "records ..."]) -> "ConvTranspose2d":
        a, d = self._images(tap)
        if factors.ndim == 1:  # the input is the smaller image and cheaper to scale
            weight = self._windows().weighted_sum(windows.scaled(a, factors), d)
        else:
            weight = self._windows().weighted_sum(a, windows.scaled(d, factors))
        weight = jnp.swapaxes(weight, 0, 1)
        if self.bias is None:
            return self._like(weight, None)
        return self._like(weight, outer.weighted_total(windows.places(d), factors, uses=True))

    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        a, d = self._images(tap)
        gradient = self.per_record(tap)
        own = jnp.sum(jnp.square(windows.rows(a)), axis=1, keepdims=True)
        seen = self._windows().squares_by_channel(a, d)
        lengths = jnp.sum(jnp.sqrt((own + outer.TINY) * (seen + outer.TINY)), axis=2)
        l1, l2 = windows.norms_by_unit(gradient.weight, None)
        l2 = outer.raised(l2, lengths)
        if gradient.bias is None:
            return l1, l2
        l2_of_bias = outer.raised(jnp.square(gradient.bias), jnp.sum(jnp.abs(d), axis=(1, 3, 4)))
        return l1 + jnp.abs(gradient.bias), l2 + l2_of_bias

    def per_record(self, tap: Tap) -> "ConvTranspose2d":
        a, d = self._images(tap)
        weight = jnp.swapaxes(self._windows().per_record(a, d), 1, 2)
        return self._like(weight, None if self.bias is None else jnp.sum(d, axis=(1, 3, 4)))

    def _windows(self) -> Windows:
        height, width = self.weight.shape[-2:]
        return Windows((height, width), self.stride, (self.padding, self.padding))

    def _images(self, tap: Tap) -> tuple[Array, Array]:
        """The coarse image and the fine one: input and cotangent."""
        return windows.images(tap.a, uses=self.uses), windows.images(tap.d, uses=self.uses)

    def _like(self, weight: Array, bias: Array | None) -> "ConvTranspose2d":
        return dataclasses.replace(self, weight=weight, bias=bias, tap=None)
