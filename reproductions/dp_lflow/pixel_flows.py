"""Flows over pixels, as the paper tried them: a RealNVP, and one after Glow.

The RealNVP is that of the library. The other one has Glow's parts without its start from the first
batch: at each of three scales space becomes channels, and each block is a trained linear map of the
channels, the same at every pixel (scales and the 1 x 1 convolution, in LU form), and a coupling whose
network has three convolutions. Half of the channels are done after each scale. What Glow's first batch
would set is trained; what a linear map adds to the log-determinant is clipped with the rest.

References:
    Dinh, Sohl-Dickstein, Bengio, "Density estimation using Real NVP", 2017.
    Kingma, Dhariwal, "Glow: Generative flow with invertible 1x1 convolutions", 2018.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from veilflow import nn
from veilflow.flows import (
    LU,
    AbstractBijection,
    AffineMap,
    Chain,
    Flow,
    Permutation,
    PrivateLogDet,
    Scan,
    StandardNormal,
    realnvp,
)
from veilflow.flows.bijection import Condition, Mapped, Scalar, Vector, refuse_taps

Shape = tuple[int, int, int]
"""Channels, height and width."""
_KERNELS = (3, 1, 3)
_LAST_SCALE = 0.01


def dense(shape: Shape, *, key: Key[Array, ""]) -> Flow:
    """A RealNVP of about the paper's 150 MB for images of 32 x 32 in color."""
    return realnvp(prod(shape), key=key, blocks=6, hidden=(1024, 1024), activation="relu")


def glow(
    shape: Shape, *, key: Key[Array, ""], scales: int = 3, blocks: int = 4, hidden: int = 128
) -> Flow:
    """A flow after Glow; height and width must be divisible by two to the power of `scales`."""
    dim, steps = prod(shape), []
    for scale_key in jax.random.split(key, scales):
        steps.append(_First(_squeezed(shape), dim))
        channels, height, width = shape
        shape = (4 * channels, height // 2, width // 2)
        made = Scan.create(partial(_block, shape, hidden), blocks, key=scale_key)
        steps.append(_First(made, dim))
        shape = (shape[0] // 2, *shape[1:])
    # from the base to the data
    return Flow(StandardNormal(dim), Chain(reversed(steps)))


def _block(shape: Shape, hidden: int, key: Key[Array, ""]) -> Chain:
    linear_key, coupling_key = jax.random.split(key)
    linear = EveryPixel(LU.create(shape[0], key=linear_key), shape[1] * shape[2])
    turned = np.arange(prod(shape)).reshape(shape[0], -1)[::-1]
    return Chain(
        (
            ConvCoupling.create(shape, hidden, key=coupling_key),
            Permutation(turned.ravel()),
            PrivateLogDet.create(linear),
        )
    )


def _squeezed(shape: Shape) -> Permutation:
    """From (4 channels, height / 2, width / 2) to the image that is twice as high and wide."""
    channels, height, width = shape
    places = np.arange(prod(shape)).reshape(channels, height // 2, 2, width // 2, 2)
    small = places.transpose(0, 2, 4, 1, 3).ravel()
    return Permutation(np.argsort(small))


class _First(AbstractBijection):
    """A bijection of the first coordinates; the others pass."""

    bijection: AbstractBijection
    size: int = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return self.size

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        return self._apply(self.bijection.forward_and_log_det, z)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        return self._apply(self.bijection.inverse_and_private_log_det, x)

    def public_log_det(self) -> Scalar:
        return self.bijection.public_log_det()

    def _apply(self, fn: Callable[[Vector], Mapped], x: Vector) -> Mapped:
        first, log_det = fn(x[: self.bijection.dim])
        return jnp.concatenate([first, x[self.bijection.dim :]]), log_det


class EveryPixel(AbstractBijection):
    """One bijection of the channels at every pixel. Its layers are used many times: no taps."""

    bijection: AbstractBijection
    pixels: int = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return self.bijection.dim * self.pixels

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        return self._apply(self.bijection.forward_and_log_det, z)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        refuse_taps(self)
        return self._apply(self.bijection.inverse_and_private_log_det, x)

    def public_log_det(self) -> Scalar:
        return self.pixels * self.bijection.public_log_det()

    def _apply(self, fn: Callable[[Vector], Mapped], x: Vector) -> Mapped:
        mapped, log_dets = jax.vmap(fn, in_axes=1, out_axes=(1, 0))(x.reshape(-1, self.pixels))
        return mapped.ravel(), jnp.sum(log_dets)


class ConvCoupling(AbstractBijection):
    """Half of the channels set, by three convolutions, how the other half is scaled and moved."""

    layers: tuple[nn.Conv2d, ...]
    scalar_map: AffineMap
    shape: Shape = eqx.field(static=True)

    @classmethod
    def create(cls, shape: Shape, hidden: int, *, key: Key[Array, ""]) -> "ConvCoupling":
        """A coupling close to the identity."""
        passing = shape[0] // 2
        sizes = (passing, hidden, hidden, 2 * (shape[0] - passing))
        layers = [
            nn.Conv2d.create(sizes[i], sizes[i + 1], kernel, image_size=shape[1:], key=k)
            for i, (kernel, k) in enumerate(zip(_KERNELS, jax.random.split(key, 3), strict=True))
        ]
        last = eqx.tree_at(lambda c: c.weight, layers[-1], _LAST_SCALE * layers[-1].weight)
        return cls((*layers[:-1], last), AffineMap(log_scale_bound=2.0), shape)

    @property
    def dim(self) -> int:
        return prod(self.shape)

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        refuse_taps(self)
        passing, mapped, params = self._parts(z)
        mapped, log_det = self.scalar_map.forward_and_log_det(mapped, params)
        return jnp.concatenate([passing, mapped]), jnp.sum(log_det)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        passing, mapped, params = self._parts(x)
        mapped, log_det = self.scalar_map.inverse_and_log_det(mapped, params)
        return jnp.concatenate([passing, mapped]), jnp.sum(log_det)

    def _parts(self, x: Vector) -> tuple[Array, Array, Array]:
        image = x.reshape(self.shape)
        passing, mapped = jnp.split(image, [self.shape[0] // 2])
        hidden = passing
        for layer in self.layers[:-1]:
            hidden = jax.nn.relu(layer(hidden))
        params = self.layers[-1](hidden).reshape(2, -1)
        return passing.ravel(), mapped.ravel(), params
