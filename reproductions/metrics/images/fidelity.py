"""How near generated images are to real ones: Frechet distance, precision and recall in one record.

Two kinds of features exist. Their numbers have nothing to do with each other, so a record carries the
name of its measure, and the names differ. As private as the real images: no ledger pays for it.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from reproductions.metrics.images.frechet import frechet_distance
from reproductions.metrics.images.neighbors import precision_recall
from reproductions.metrics.images.pixels import pixels
from reproductions.metrics.rows import Rows

IMAGE_MEASURES = {"inception": "FID (Inception)", "small": "Frechet distance (small features)"}
"""The name of the distance by kind of features; figures of two names never share a column."""

Features = Literal["inception", "small"]


@dataclass(frozen=True)
class ImageFidelity:
    """Distances between real and generated images. As private as the real ones.

    Attributes:
        measure: The name of the distance, one of `IMAGE_MEASURES`.
        distance: The Frechet distance of the features, on all images.
        precision: The part of generated images among the real ones, by the same features.
        recall: The part of real images among the generated ones.
        num_real: How many real images.
        num_fake: How many generated images.
        num_neighbors: How many images of each kind precision and recall were taken on.
    """

    measure: str
    distance: float
    precision: float
    recall: float
    num_real: int
    num_fake: int
    num_neighbors: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def compare_images(
    real: Any,
    fake: Any,
    *,
    features: Features,
    k: int = 3,
    max_neighbors: int = 10_000,
    seed: int = 0,
) -> ImageFidelity:
    """Compare generated images with real ones, as sets. As private as the real images.

    Args:
        real: Real images the model was not fitted to: (images, channels, height, width).
        fake: Generated images of the same size.
        features: "inception" (extra `[fid]`) for figures to hold beside published ones, or "small", a
            fixed random network that needs nothing; there is no default, so that nobody mixes them.
        k: Which neighbor precision and recall look at.
        max_neighbors: They are taken on this many images of each kind at most, drawn at random.
        seed: Seed of that draw.
    """
    found = pixels(real=real, fake=fake, min_images=k + 1)
    a, b = (_features(images, features) for images in found)
    number = min(max_neighbors, len(a), len(b))
    rng = np.random.default_rng(seed)
    drawn = (rows[rng.permutation(len(rows))[:number]] for rows in (a, b))
    near = precision_recall(*drawn, k=k)
    return ImageFidelity(
        measure=IMAGE_MEASURES[features],
        distance=frechet_distance(a, b),
        precision=near.precision,
        recall=near.recall,
        num_real=len(a),
        num_fake=len(b),
        num_neighbors=number,
    )


def _features(images: np.ndarray, kind: Features) -> Rows:
    if kind == "inception":
        from reproductions.metrics.images.inception import inception_features

        return inception_features(images)
    from reproductions.metrics.images.random_features import small_features

    return small_features(images)
