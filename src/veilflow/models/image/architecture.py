"""Sizes of the networks of an image model, as plain settings: what a file can hold."""

from dataclasses import dataclass
from typing import Literal

import jax
from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows import Flow
from veilflow.models.image.latent_flow import latent_flow
from veilflow.models.image.networks import Activation, Decoder, Encoder


@dataclass(frozen=True, kw_only=True)
class ImageArchitecture:
    """Encoder, decoder and latent flow for images of one size. Every field is a public fact."""

    size: tuple[int, int]
    """Height and width of an image."""
    colors: int = 1
    channels: tuple[int, ...] = (32, 64)
    """Of the encoder's convolutions; the decoder has them in reverse."""
    latent: int = 20
    """How many numbers a code has."""
    blocks: int = 9
    hidden: tuple[int, ...] = (200, 200)
    """Sizes of the hidden layers in each block of the flow."""
    scalar_map: Literal["affine", "spline"] = "affine"

    def __post_init__(self) -> None:
        check.count(height=self.size[0], width=self.size[1], colors=self.colors)
        check.count(latent=self.latent, blocks=self.blocks)
        check.one_of(("affine", "spline"), scalar_map=self.scalar_map)

    @property
    def activation(self) -> Activation:
        """As published: ReLU for gray images, leaky ReLU for colors."""
        return "relu" if self.colors == 1 else "leaky_relu"

    def build(
        self, *, key: Key[Array, ""], condition_dim: int = 0
    ) -> tuple[Encoder, Decoder, Flow]:
        """Fresh networks; `condition_dim` is how many numbers the flow is conditioned on."""
        encoder_key, decoder_key, flow_key = jax.random.split(key, 3)
        sizes = {
            "size": self.size,
            "colors": self.colors,
            "channels": self.channels,
            "latent": self.latent,
            "activation": self.activation,
        }
        flow = latent_flow(
            self.latent,
            key=flow_key,
            blocks=self.blocks,
            hidden=self.hidden,
            scalar_map=self.scalar_map,
            condition_dim=condition_dim,
        )
        return (
            Encoder.create(**sizes, key=encoder_key),
            Decoder.create(**sizes, key=decoder_key),
            flow,
        )


PRESETS = {
    "28x28x1": ImageArchitecture(size=(28, 28)),
    "32x32x3": ImageArchitecture(size=(32, 32), colors=3, channels=(64, 128, 256), latent=32),
    # not published: the smaller one's depth grown by a convolution, for a code of the same size
    "64x64x3": ImageArchitecture(size=(64, 64), colors=3, channels=(32, 64, 128, 256), latent=32),
    "256x256x3": ImageArchitecture(
        size=(256, 256),
        colors=3,
        channels=(16, 32, 64, 128, 256, 512),
        latent=64,
        blocks=12,
        hidden=(256, 256),
    ),
}
"""Table 5 of DP-LFlow, by height, width and colors."""
