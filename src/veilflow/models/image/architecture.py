"""Sizes of the networks of an image model, as plain settings that a file can hold."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import jax
from jaxtyping import Array, Key

from veilflow._core import fields
from veilflow.flows import Flow
from veilflow.models.image.networks import (
    TOLD_BLOCKS,
    Activation,
    Decoder,
    Encoder,
    check_sizes,
    halved,
    latent_flow,
    num_told_blocks,
)

_MOST_SIDE = 8192
_MOST_LAYERS = 20
_MOST_BLOCKS = 1000
"""The largest sizes that a file may have: it cannot ask for more work than it has numbers."""
_FEWEST = 8
"""The fewest channels of a convolution that the planner chooses."""
_COLOR_DISTANCE = 0.5
"""The distance of another number of colors, in doublings of the side."""
_NUM_PARAMS = {"affine": 2, "spline": 25}
"""Parameters of the map of one coordinate of a code."""


@dataclass(frozen=True, kw_only=True)
class ImageArchitecture:
    """Encoder, decoder and latent flow for images of one size.

    Attributes:
        size: Height and width of an image.
        colors: The number of channels of an image.
        channels: Channels after each convolution of the encoder; the decoder has them in reverse.
        latent: The number of coordinates of a code.
        blocks: The number of blocks of the flow.
        hidden: Sizes of the hidden layers in each block of the flow.
        scalar_map: How each coordinate of a code is mapped: "affine" or "spline".
        decoder_sees_class: Whether a decoder that several classes share is told the class beside the
            code.
        told_blocks: Which blocks of a flow that serves all classes are told the class: "every",
            "first" (nearest to the code), "last", "ends" for both, or "none".
    """

    size: tuple[int, int]
    colors: int = 1
    channels: tuple[int, ...] = (32, 64)
    latent: int = 20
    blocks: int = 9
    hidden: tuple[int, ...] = (200, 200)
    scalar_map: str = "affine"
    decoder_sees_class: bool = False
    told_blocks: str = "every"

    def __post_init__(self) -> None:
        count, counts = fields.count(), fields.each(fields.count())
        fields.convert(
            self,
            size=fields.each(count, lengths=(2,)),
            colors=count,
            channels=counts,
            latent=count,
            blocks=count,
            hidden=counts,
            scalar_map=fields.word(*_NUM_PARAMS),
            decoder_sees_class=fields.flag,
            told_blocks=fields.word(*TOLD_BLOCKS),
        )
        num_told_blocks(self.blocks, self.told_blocks)
        check_sizes(self.size, self.colors, self.channels, self.latent, self.activation)
        if max(len(self.channels), len(self.hidden)) > _MOST_LAYERS:
            raise ValueError(f"channels and hidden may have {_MOST_LAYERS} sizes each.")
        if max(self.size) > _MOST_SIDE or self.blocks > _MOST_BLOCKS:
            raise ValueError(
                f"an image may have {_MOST_SIDE} pixels a side and a flow {_MOST_BLOCKS} blocks, got "
                f"{self.size[0]} x {self.size[1]} and {self.blocks}."
            )

    @property
    def activation(self) -> Activation:
        """As published: ReLU for gray images, leaky ReLU for colors."""
        return "relu" if self.colors == 1 else "leaky_relu"

    def build(
        self, *, key: Key[Array, ""], condition_dim: int = 0, num_classes: int = 0
    ) -> tuple[Encoder, Decoder, Flow]:
        """Fresh networks.

        Args:
            key: For the weights.
            condition_dim: The number of coordinates of the flow's condition.
            num_classes: The number of classes.
        """
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
            told=self.told_blocks,
        )
        return (
            Encoder.create(**sizes, key=encoder_key),
            Decoder.create(**sizes, condition_dim=self._seen(num_classes), key=decoder_key),
            flow,
        )

    def _seen(self, num_classes: int) -> int:
        """The number of coordinates that tell the decoder a class."""
        return num_classes if self.decoder_sees_class else 0

    def num_parameters(self, *, condition_dim: int = 0, num_classes: int = 0) -> int:
        """The number of parameters of all networks, without building them; see `build`."""
        height, width = halved(self.size, len(self.channels))[-1]
        deepest = self.channels[-1] * height * width
        count = self.latent * (deepest + 1) + deepest * (self.latent + 1)
        count += self._seen(num_classes) * deepest
        for before, after in pairwise((self.colors, *self.channels)):
            count += 2 * 9 * before * after + before  # both ways; only the decoder has a bias
        return count + self.num_flow_parameters(condition_dim=condition_dim)

    def num_flow_parameters(self, *, condition_dim: int = 0) -> int:
        """The number of parameters of the flow."""
        seen = self.latent // 2
        outputs = (self.latent - seen) * _NUM_PARAMS[self.scalar_map]
        sizes = (seen, *self.hidden, outputs)
        told = num_told_blocks(self.blocks, self.told_blocks) * condition_dim * sizes[1]
        return told + self.blocks * sum(b * (a + 1) for a, b in pairwise(sizes))


PRESETS = {
    "28x28x1": ImageArchitecture(size=(28, 28)),
    "32x32x3": ImageArchitecture(size=(32, 32), colors=3, channels=(64, 128, 256), latent=32),
    # not published: one convolution more than the smaller one, for a code of the same size
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


def nearest_preset(size: tuple[int, int], colors: int) -> str:
    """The name of the preset whose images are closest in size and colors."""

    def distance(preset: ImageArchitecture) -> float:
        return abs(_doublings(preset.size, size)) + _COLOR_DISTANCE * (preset.colors != colors)

    return min(PRESETS, key=lambda name: distance(PRESETS[name]))


def architecture_for(size: tuple[int, int], colors: int) -> ImageArchitecture:
    """The nearest preset, with as many convolutions as this size needs.

    Each doubling of the side adds a convolution, so that the input of the last one keeps its size;
    channels halve from the last convolution to the first, as in all presets.
    """
    preset = PRESETS[nearest_preset(size, colors)]
    count = max(1, len(preset.channels) + round(_doublings(preset.size, size)))
    deepest = preset.channels[-1]
    channels = tuple(max(_FEWEST, deepest // 2**i) for i in reversed(range(count)))
    latent = min(preset.latent, size[0] * size[1] * colors)
    return replace(preset, size=size, colors=colors, channels=channels, latent=latent)


def _doublings(start: tuple[int, int], end: tuple[int, int]) -> float:
    """The number of doublings of the side from one size to the other."""
    return math.log2(end[0] * end[1] / (start[0] * start[1])) / 2
