"""The networks of an image model: an encoder, a decoder, and a flow over codes.

Every convolution halves the image and every transposed one doubles it, so the sizes in between follow
from their number. Nothing is normalized across a batch, and all parameters are in layers that know each
record's gradient.
"""

from functools import partial
from itertools import pairwise
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow import nn
from veilflow._core import check
from veilflow.flows import (
    AbstractBijection,
    AffineMap,
    Chain,
    Composed,
    Coupling,
    Flow,
    Permutation,
    Scan,
    SplineMap,
    StandardNormal,
)

Activation = Literal["relu", "leaky_relu"]
_SPLINE_BINS, _SPLINE_BOUND = 8, 4.0
"""Splines have 8 bins and bend inside [-4, 4]."""
ACTIVATIONS = {"relu": jax.nn.relu, "leaky_relu": jax.nn.leaky_relu}
TOLD_BLOCKS = ("every", "first", "last", "ends", "none")
"""Blocks of a flow that see its condition; the first is nearest to the code, the last to the noise."""


def halved(size: tuple[int, int], times: int) -> list[tuple[int, int]]:
    """The size of an image, then those after each of `times` strided convolutions."""
    sizes = [size]
    for _ in range(times):
        height, width = sizes[-1]
        sizes.append(((height + 1) // 2, (width + 1) // 2))
    return sizes


class Encoder(eqx.Module):
    """Images to codes: convolutions without bias, each followed by an activation, and a dense layer."""

    convolutions: tuple[nn.Conv2d, ...]
    code: nn.Dense
    activation: Activation = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        *,
        size: tuple[int, int],
        colors: int,
        channels: tuple[int, ...],
        latent: int,
        activation: Activation,
        key: Key[Array, ""],
    ) -> "Encoder":
        """A fresh network.

        Args:
            size: Height and width of an image.
            colors: The number of channels of an image.
            channels: The number of channels after each convolution; each halves the image.
            latent: The number of coordinates of a code.
            activation: "relu" or "leaky_relu".
            key: For the weights.

        Raises:
            ValueError: A size is below 1, or the activation is unknown.
        """
        check_sizes(size, colors, channels, latent, activation)
        *keys, last = jax.random.split(key, len(channels) + 1)
        sizes = halved(size, len(channels))
        convolutions = tuple(
            nn.Conv2d.create(
                before,
                after,
                3,
                image_size=seen,
                stride=2,
                padding=((1, 1), (1, 1)),
                bias=False,
                key=k,
            )
            for (before, after), seen, k in zip(
                pairwise((colors, *channels)), sizes, keys, strict=False
            )
        )
        (height, width), deepest = sizes[-1], channels[-1]
        return cls(
            convolutions, nn.Dense.create(deepest * height * width, latent, key=last), activation
        )

    def __call__(self, image: Float[Array, "colors height width"]) -> Float[Array, " latent"]:
        """The code of one image."""
        act = ACTIVATIONS[self.activation]
        for convolution in self.convolutions:
            image = act(convolution(image))
        # a second time, as published: no effect for ReLU, a smaller slope for leaky ReLU
        return self.code(act(image.ravel()))


class Decoder(eqx.Module):
    """Codes to logits of pixels: the mirror image of the encoder."""

    start: nn.Dense
    convolutions: tuple[nn.ConvTranspose2d, ...]
    activation: Activation = eqx.field(static=True)
    condition_dim: int = eqx.field(static=True, default=0)
    """The number of coordinates of a condition that comes with the code; 0 for none."""

    @classmethod
    def create(
        cls,
        *,
        size: tuple[int, int],
        colors: int,
        channels: tuple[int, ...],
        latent: int,
        activation: Activation,
        condition_dim: int = 0,
        key: Key[Array, ""],
    ) -> "Decoder":
        """A fresh network, which mirrors the encoder of the same settings; see `Encoder.create`."""
        check_sizes(size, colors, channels, latent, activation)
        first, *keys = jax.random.split(key, len(channels) + 1)
        sizes = halved(size, len(channels))[::-1]
        convolutions = tuple(
            nn.ConvTranspose2d.create(
                before,
                after,
                3,
                image_size=seen,
                stride=2,
                padding=1,
                # 1 for an even size; the encoder rounded an odd one up
                output_padding=(to[0] - 2 * seen[0] + 1, to[1] - 2 * seen[1] + 1),
                key=k,
            )
            for (before, after), (seen, to), k in zip(
                pairwise((*channels[::-1], colors)), pairwise(sizes), keys, strict=True
            )
        )
        (height, width), deepest = sizes[0], channels[-1]
        start = nn.Dense.create(latent + condition_dim, deepest * height * width, key=first)
        return cls(start, convolutions, activation, condition_dim)

    def __call__(
        self, code: Float[Array, " latent"], condition: Float[Array, " condition"] | None = None
    ) -> Float[Array, "colors height width"]:
        """The logits of one image's pixels."""
        act = ACTIVATIONS[self.activation]
        if self.condition_dim:
            assert condition is not None
            code = jnp.concatenate([code, condition])
        image = self.start(code).reshape(self.convolutions[0].tap_shapes()[0])
        for convolution in self.convolutions:
            image = convolution(act(image))
        return image


def check_sizes(
    size: tuple[int, int], colors: int, channels: tuple[int, ...], latent: int, activation: str
) -> None:
    """Raise unless networks of these sizes can be built."""
    check.count(height=size[0], width=size[1], colors=colors, latent=latent)
    if not channels:
        raise ValueError("channels must name at least one convolution, such as (32, 64), got none.")
    for number in channels:
        check.count(channels=number)
    check.one_of(tuple(ACTIVATIONS), activation=activation)


def latent_flow(
    dim: int,
    *,
    key: Key[Array, ""],
    blocks: int = 9,
    hidden: tuple[int, ...] = (200, 200),
    scalar_map: str = "affine",
    condition_dim: int = 0,
    told: str = "every",
) -> Flow:
    """A coupling flow over codes, close to the identity, whose blocks are scanned.

    The published flow masks every other coordinate, the same ones in each block, and reorders them at
    random in between; its networks take all coordinates and set parameters for all, and the mask
    hides half of both. Here a network has only the inputs and outputs that count: in a private step
    the others would get noise and no gradient.

    Args:
        dim: The number of coordinates of a code.
        key: For the weights.
        blocks: The number of couplings; coordinates that pass through one are mapped in the next.
        hidden: Sizes of the hidden layers in each block's network.
        scalar_map: "affine", or "spline" for an affine map followed by a spline.
        condition_dim: The number of coordinates of a condition; 0 for an unconditional density.
        told: Which blocks see the condition, one of `TOLD_BLOCKS`.

    Raises:
        ValueError: A size is out of range, or the scalar map is unknown.
    """
    check.count(dim=dim, blocks=blocks)
    check.one_of(("affine", "spline"), scalar_map=scalar_map)
    element = AffineMap(log_scale_bound=1.0)  # as published
    if scalar_map == "spline":  # data to base: first into the box, then through the spline
        element = Composed((SplineMap(num_bins=_SPLINE_BINS, bound=_SPLINE_BOUND), element))

    def block(key: Key[Array, ""], condition_dim: int = condition_dim) -> Chain:
        coupling = Coupling.create(
            dim, element, key=key, hidden=hidden, activation="relu", condition_dim=condition_dim
        )
        return Chain((_rotation(dim), coupling))

    if told == "every" or not condition_dim:
        return Flow(StandardNormal(dim), Scan.create(block, blocks, key=key))
    first_key, last_key, rest_key = jax.random.split(key, 3)
    rest = blocks - num_told_blocks(blocks, told)
    bijections: list[AbstractBijection] = []  # from the noise to the code
    if told in ("last", "ends"):
        bijections.append(block(last_key))
    if rest:
        bijections.append(Scan.create(partial(block, condition_dim=0), rest, key=rest_key))
    if told in ("first", "ends"):
        bijections.append(block(first_key))
    return Flow(StandardNormal(dim), Chain(bijections))


def num_told_blocks(blocks: int, told: str) -> int:
    """The number of blocks of a flow that see its condition.

    Raises:
        ValueError: There are fewer blocks than that, or `told` is not one of `TOLD_BLOCKS`.
    """
    check.one_of(TOLD_BLOCKS, told=told)
    number = {"every": blocks, "first": 1, "last": 1, "ends": 2, "none": 0}[told]
    if number > blocks:
        raise ValueError(f"a flow whose two ends see the condition needs 2 blocks, got {blocks}.")
    return number


def _rotation(dim: int) -> Permutation:
    """Exchanges the halves, less one coordinate where they are equal, so that all coordinates mix."""
    step = dim // 2 - (dim > 2 and dim % 2 == 0)
    return Permutation((i - step) % dim for i in range(dim))
