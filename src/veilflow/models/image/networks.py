"""From an image to a code and back: strided convolutions, no normalization across a batch.

Every convolution halves the image and every transposed one doubles it, so the sizes in between follow
from how many there are. All parameters live in layers that know each record's gradient.
"""

from itertools import pairwise
from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from veilflow import nn
from veilflow._core import check

Activation = Literal["relu", "leaky_relu"]
ACTIVATIONS = {"relu": jax.nn.relu, "leaky_relu": jax.nn.leaky_relu}


def halved(size: tuple[int, int], times: int) -> list[tuple[int, int]]:
    """`size` of an image, then of what each of some strided convolutions makes of it."""
    sizes = [size]
    for _ in range(times):
        height, width = sizes[-1]
        sizes.append(((height + 1) // 2, (width + 1) // 2))
    return sizes


class Encoder(eqx.Module):
    """Images to codes: convolutions without bias, an activation after each, a dense layer."""

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
            colors: How many channels an image has.
            channels: How many channels come out of each convolution; each halves the image.
            latent: How many numbers a code has.
            activation: "relu" or "leaky_relu".
            key: Spent here, for the weights.

        Raises:
            ValueError: If a size is below 1 or the activation is unknown.
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
        # once more, as published: nothing for ReLU, a still smaller slope for leaky ReLU
        return self.code(act(image.ravel()))


class Decoder(eqx.Module):
    """Codes to images, the encoder turned around; numbers of any size come out, not pixels."""

    start: nn.Dense
    convolutions: tuple[nn.ConvTranspose2d, ...]
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
    ) -> "Decoder":
        """A fresh network that mirrors the encoder of the same settings; see `Encoder.create`."""
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
                # 1 for an even size; an odd one was rounded up on the way down
                output_padding=(to[0] - 2 * seen[0] + 1, to[1] - 2 * seen[1] + 1),
                key=k,
            )
            for (before, after), (seen, to), k in zip(
                pairwise((*channels[::-1], colors)), pairwise(sizes), keys, strict=True
            )
        )
        (height, width), deepest = sizes[0], channels[-1]
        return cls(
            nn.Dense.create(latent, deepest * height * width, key=first), convolutions, activation
        )

    def __call__(self, code: Float[Array, " latent"]) -> Float[Array, "colors height width"]:
        """One image, before whatever squashes it into the range of pixels."""
        act = ACTIVATIONS[self.activation]
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
