"""Sections of the curator's report for images; as private as the images."""

from typing import Any

import numpy as np

from veilflow.images.image_set import Images, to_unit
from veilflow.images.read import read_images
from veilflow.models.detect.scoring import tells_classes
from veilflow.reports import svg

_MOST_IMAGES = 2_000
_MOST_CLASSES = 20
_BINS = 32
_SHOWN = 6


def image_sections(
    model: Any, data: Any, labels: Any, *, show_images: bool = False, seed: int
) -> dict[str, Any]:
    """Synthetic images and means of each class, the balance of classes, and histograms of pixels.

    Single real images are shown only if `show_images` asks for them.
    """
    if model.spec.classes and labels is None and not tells_classes(data):
        raise ValueError(
            "images are compared by class, and there are no labels: give them (--labels), or a folder "
            "with a sub-folder for each class, or an NPZ file with an array of labels."
        )
    real = data if isinstance(data, Images) else read_images(data, model.spec, labels=labels)
    if not len(real):
        raise ValueError("there are no images to compare with.")
    drawn = model.sample(min(len(real), _MOST_IMAGES), seed=seed)
    chosen = real.take(np.random.default_rng(seed).permutation(len(real))[:_MOST_IMAGES])
    pixels, synthetic = to_unit(chosen.pixels), to_unit(drawn.pixels)
    names = list(model.spec.classes)
    rows = []
    for place, name in enumerate(names[:_MOST_CLASSES] or [None]):
        title = "all images" if name is None else f"class {name}"
        both = [_of_class(pixels, chosen.labels, place), _of_class(synthetic, drawn.labels, place)]
        rows.append(
            {
                "name": title,
                "means": [
                    svg.gray(_upright(mine.mean(axis=0)), alt=f"Mean of {what} images, {title}.")
                    if len(mine)
                    else None
                    for what, mine in zip(("real", "synthetic"), both, strict=True)
                ],
                "real": _some(both[0], f"Real images, {title}.") if show_images else None,
                "synthetic": _some(both[1], f"Synthetic images, {title}."),
            }
        )
    return {
        "images": {
            "rows": rows,
            "count": len(real),
            "shown": show_images,
            "balance": _balance(names, real.labels, drawn.labels),
            "histogram": svg.histogram(
                _histogram(pixels),
                _histogram(synthetic),
                labels=["dark", "bright"],
                alt="Values of pixels: real images as bars, synthetic ones as a line.",
            ),
        }
    }


def _of_class(pixels: np.ndarray, labels: np.ndarray | None, place: int) -> np.ndarray:
    return pixels if labels is None else pixels[labels == place]


def _some(pixels: np.ndarray, alt: str) -> str | None:
    """The first few images side by side."""
    return svg.strip([_upright(one) for one in pixels[:_SHOWN]], alt=alt) if len(pixels) else None


def _balance(
    names: list[Any], real: np.ndarray | None, drawn: np.ndarray | None
) -> list[tuple[str, float, float]] | None:
    """Shares of each class, real and synthetic."""
    if real is None or drawn is None:
        return None
    first, second = (np.bincount(x, minlength=len(names)) / len(x) for x in (real, drawn))
    return [
        (str(name), float(a), float(b)) for name, a, b in zip(names, first, second, strict=True)
    ]


def _upright(image: np.ndarray) -> np.ndarray:
    """The image with channels last; a single channel is dropped."""
    return image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)


def _histogram(pixels: np.ndarray) -> np.ndarray:
    counts = np.histogram(pixels, bins=_BINS, range=(0, 1))[0]
    return counts / max(counts.sum(), 1)
