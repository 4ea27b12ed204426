"""Images of other sizes and channels brought to the declared ones, each image by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from veilflow._core import check
from veilflow.images.spec import ImageSpec

_LUMA = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in a gray value (ITU-R BT.601)."""


class InvalidImage(ValueError):
    """An image is not as declared. The message says why, as the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """What to do about images of another size or with other channels than declared.

    Attributes:
        size: "error", or "resize" them.
        crop: Before resizing, cut out the center: a square of this side, or the largest "square".
        method: "bilinear", with a filter as wide as the pixels that become one, or "box", the mean
            of an area.
        color: "error", or "convert" gray to color and color to gray.
    """

    size: str = "error"
    crop: int | str | None = None
    method: str = "bilinear"
    color: str = "error"

    def __post_init__(self) -> None:
        check.one_of(("error", "resize"), size=self.size)
        check.one_of(("bilinear", "box"), method=self.method)
        check.one_of(("error", "convert"), color=self.color)
        if self.crop is None or self.crop == "square":
            return
        if isinstance(self.crop, str):
            raise ValueError(f"crop must be a side in pixels or 'square', got {self.crop!r}.")
        check.count(crop=self.crop)

    def check(self, shape: tuple[int, ...], spec: ImageSpec) -> None:
        """Raise `InvalidImage` unless (channels, height, width) can become what is declared."""
        channels, height, width = shape
        if channels != spec.channels and not (self.color == "convert" and channels in (1, 3)):
            hint = " Or pass color='convert'." if channels in (1, 3) else ""
            raise InvalidImage(
                f"has {_channels(channels)} instead of the declared {_channels(spec.channels)}. "
                f"Convert it by a public rule.{hint}"
            )
        side = self._side(height, width)
        if side is not None and side > min(height, width):
            raise InvalidImage(
                f"is {height} x {width} pixels, too small for a crop of {side}. Choose a smaller one."
            )
        after = (side, side) if side is not None else (height, width)
        if self.size == "error" and after != (spec.height, spec.width):
            cut = f" ({side} x {side} after the crop)" if side is not None else ""
            raise InvalidImage(
                f"is {height} x {width} pixels{cut}, but {spec.height} x {spec.width} is declared. "
                "Pass size='resize', or declare its size."
            )

    def cropped(self, values: np.ndarray) -> np.ndarray:
        """The center of a block (images, channels, height, width), or all of it without a crop."""
        height, width = values.shape[2:]
        side = self._side(height, width)
        if side is None:
            return values
        top, left = (height - side) // 2, (width - side) // 2
        return values[:, :, top : top + side, left : left + side]

    def fitted(self, values: np.ndarray, spec: ImageSpec) -> np.ndarray:
        """A cropped block of doubles, with the declared channels and at the declared size."""
        values = _to_channels(values, spec.channels)
        if values.shape[2:] == (spec.height, spec.width):
            return values
        rows = _taps(values.shape[2], spec.height, self.method)
        values = _total(weights[:, None] * values[:, :, places] for places, weights in rows)
        columns = _taps(values.shape[3], spec.width, self.method)
        return _total(weights * values[:, :, :, places] for places, weights in columns)

    def _side(self, height: int, width: int) -> int | None:
        if self.crop == "square":
            return min(height, width)
        return None if self.crop is None else int(self.crop)


def _to_channels(values: np.ndarray, channels: int) -> np.ndarray:
    if values.shape[1] == channels:
        return values
    if channels == 3:
        return np.repeat(values, 3, axis=1)
    # one product after the other, so that rounding does not depend on the number of images
    red, green, blue = (weight * values[:, i : i + 1] for i, weight in enumerate(_LUMA))
    return red + green + blue


def _total(terms: Iterator[np.ndarray]) -> np.ndarray:
    """The sum of arrays in a fixed order, which a matrix product would not guarantee."""
    total = next(terms)
    for term in terms:
        total += term
    return total


@lru_cache(maxsize=64)
def _taps(given: int, wanted: int, method: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each wanted pixel, the given pixels that contribute to it, and their weights.

    The k-th entry holds the k-th contribution to every wanted pixel.
    """
    weights = _weights(given, wanted, method)
    first = (weights > 0).argmax(axis=1)
    count = int((weights > 0).sum(axis=1).max())
    padded = np.pad(weights, ((0, 0), (0, count)))  # pixels beyond the end have no weight
    places = np.arange(wanted)
    return [(np.minimum(first + k, given - 1), padded[places, first + k]) for k in range(count)]


def _weights(given: int, wanted: int, method: str) -> np.ndarray:
    """The weight of each given pixel in each wanted one; rows sum to 1."""
    scale = given / wanted
    pixels = np.arange(given)[None, :]
    places = np.arange(wanted)[:, None]
    if method == "box":
        ends = np.minimum(pixels + 1, (places + 1) * scale) - np.maximum(pixels, places * scale)
        weights = np.maximum(ends, 0.0)
    else:
        distance = (pixels + 0.5 - (places + 0.5) * scale) / max(scale, 1.0)
        weights = np.maximum(1.0 - np.abs(distance), 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _channels(channels: int) -> str:
    words = {1: "1 channel (gray)", 3: "3 channels (color)", 4: "4 channels (transparency?)"}
    return words.get(channels, f"{channels} channels")
