"""The image sets: MNIST and Fashion-MNIST by their own split, digits of scikit-learn, generated ones.

What counts as public of each: the size of an image, the classes, the number of training images. How
many of them a class has is not read.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from benchmarks.generated_faces import faces
from benchmarks.generated_images import scenes

import veilflow as vf
from veilflow.images import Images, read_images

SEED = 0
"""Seed of the split of the digits, which come without one."""


@dataclass(frozen=True)
class Facts:
    """What is declared about a set.

    Attributes:
        title: As tables have it.
        side: Height and width of an image.
        sharpness: The authors' factor for their post-processing; None where they do not have the set.
        sampled: How many images are drawn to be measured.
        colors: Channels of an image.
        num_classes: The number of classes.
    """

    title: str
    side: int
    sharpness: float | None
    sampled: int
    colors: int = 1
    num_classes: int = 10

    @property
    def is_published(self) -> bool:
        """Whether the paper has the set."""
        return self.sharpness is not None

    @property
    def spec(self) -> vf.ImageSpec:
        """The specification."""
        return vf.ImageSpec(
            height=self.side,
            width=self.side,
            channels=self.colors,
            classes=range(self.num_classes),
        )


FACTS = {
    "mnist": Facts("MNIST", 28, 5.0, 60_000),
    "fashion": Facts("Fashion-MNIST", 28, 8.0, 60_000),
    "digits": Facts("digits", 8, None, 5_000),
    "faces32": Facts("generated faces, 32 x 32", 32, None, 10_000, colors=3, num_classes=2),
    "faces64": Facts("generated faces, 64 x 64", 64, None, 10_000, colors=3, num_classes=2),
    "faces128": Facts("generated faces, 128 x 128", 128, None, 4_000, colors=3, num_classes=2),
    "scenes": Facts("generated scenes, 32 x 32", 32, None, 50_000, colors=3),
}
"""By the name that tasks use."""
_GENERATED = {
    "faces32": (20_000, 4_000),
    "faces64": (20_000, 4_000),
    "faces128": (8_000, 1_000),
    "scenes": (50_000, 10_000),
}
"""How many images to fit and to test on."""


class Data(NamedTuple):
    """Images to fit, and images to test on. Not to be changed, and never to be shown."""

    train: Images
    test: Images


@lru_cache(maxsize=1)
def load(name: str) -> Data:
    """A set; MNIST and Fashion-MNIST are read from the folder `VEILFLOW_DATA`.

    - mnist, fashion: the canonical split, 60,000 and 10,000 images. The authors keep 50,000, exactly
      5,000 of each class, and choose settings by the rest; here nothing is chosen by any of them.
    - digits: 1,437 and 360 images of 8 x 8 pixels from scikit-learn, whose 17 levels of gray become
      bytes.
    - faces32, faces64, faces128: generated faces in color, of two kinds, 20,000 and 4,000; of the
      largest 8,000 and 1,000. CelebA and CelebA-HQ are not here.
    - scenes: 50,000 and 10,000 generated images in color of ten classes, as many as CIFAR-10 has.
    """
    if name not in FACTS:
        raise ValueError(f"the data sets are {', '.join(FACTS)}; got {name!r}.")
    spec = FACTS[name].spec
    if name == "digits":
        (train, train_labels), (test, test_labels) = _digits()
    elif name in _GENERATED:
        (train, train_labels), (test, test_labels) = (
            scenes(number, seed=seed)
            if name == "scenes"
            else faces(number, size=FACTS[name].side, seed=seed)
            for seed, number in enumerate(_GENERATED[name], start=1)
        )
    else:
        (train, train_labels), (test, test_labels) = _files(name)
    return Data(
        read_images(train, spec, labels=train_labels), read_images(test, spec, labels=test_labels)
    )


Labeled = tuple[np.ndarray, np.ndarray]


def _files(name: str) -> tuple[Labeled, Labeled]:
    arrays: Any = vf.datasets.load({"fashion": "fashion_mnist"}.get(name, name))
    return (arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])


def _digits() -> tuple[Labeled, Labeled]:
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)
    order = np.random.default_rng(SEED).permutation(len(images))
    held_out = len(images) // 5 + 1
    test, train = order[:held_out], order[held_out:]
    return (images[train], found.target[train]), (images[test], found.target[test])
