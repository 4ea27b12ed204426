"""A fitted image model: samples, scores of codes, and the guarantee they carry."""

import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.images import Images, ImageSpec, read_images
from veilflow.images.classes import NOT_A_CLASS, class_places
from veilflow.models import artifact as artifacts
from veilflow.models.image import blocks, files
from veilflow.models.image.class_models import ClassModels
from veilflow.models.image.reading import labeled_images
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedImageFlow:
    """A released image model. All of its methods are post-processing: they cost nothing.

    What is computed for private images (scores, reconstructions) is as private as they are.

    Attributes:
        spec: What was declared about the images.
        ledger: Every release that went into the model.
        guarantee: What the ledger adds up to, with its assumptions.
        settings: Public settings and released facts of the fit.
    """

    models: ClassModels = field(repr=False)
    spec: ImageSpec
    ledger: Ledger
    guarantee: Guarantee
    settings: dict[str, Any]

    @property
    def classes(self) -> tuple[str, ...] | tuple[int, ...]:
        """The declared class list; empty where images have no labels."""
        return tuple(self.spec.classes)  # type: ignore[return-value]

    def sample(
        self,
        num_images: int,
        *,
        label: Any = None,
        seed: int | None = None,
        sharpen: float | None = None,
    ) -> Images:
        """Synthetic images.

        Args:
            num_images: How many.
            label: The class that all of them have; None for all classes in turns, so that each has
                an equal share. The shares of the records are not known to the model.
            seed: For the same images each time; the first of many are those of few. Never the seed
                of a fit: who knows that one can take the noise away.
            sharpen: Smooth the images and sharpen them by this factor, as the paper does: 5 for
                digits, 2 for faces. Not to be tuned on private images.

        Returns:
            Images of the specification, in bytes if that has the range of bytes.
        """
        check.count(num_images=num_images, at_least=0)
        if sharpen is not None:
            check.nonnegative(sharpen=sharpen)
            sharpen = float(sharpen)
        places = list(range(len(self.classes))) or [0]
        if label is not None:
            places = [self._place(label)]
        pixels = blocks.draw(
            self.models,
            self.spec,
            num_images,
            places=places,
            secret=Secret.from_seed(seed),
            sharpen=sharpen,
        )
        labels = np.resize(np.array(places, np.int32), num_images) if self.classes else None
        return Images(pixels, labels, self.spec)

    def log_prob(self, images: Any, labels: Any = None) -> Float[np.ndarray, " images"]:
        """The natural logarithm of the density of each image's code, in its own class.

        Codes of different classes, or of different models, have different coordinates: compare
        densities of one class.

        Args:
            images: As for `fit`.
            labels: As for `fit`.
        """
        found = labeled_images(images, labels, self.spec)
        return self._log_prob(found.pixels, _places(found))

    def log_prob_by_class(self, images: Any) -> Float[np.ndarray, "images classes"]:
        """The same for each image in every class, in the order of the class list.

        Args:
            images: As for `fit`; without labels, or with some that are not looked at.
        """
        pixels = self._unlabeled(images)
        places = range(max(1, len(self.classes)))
        columns = [self._log_prob(pixels, np.full(len(pixels), place)) for place in places]
        return np.stack(columns, axis=1)

    def ood_score(self, images: Any, label: Any = None) -> Float[np.ndarray, " images"]:
        """How unlike the images of a class each image is: minus the log density of its code.

        Args:
            images: As for `log_prob_by_class`.
            label: The class; None only where there are no classes.
        """
        if label is None and self.classes:
            raise ValueError(
                f"label must name the class that images are compared with. {self._listed()}"
            )
        place = 0 if label is None else self._place(label)
        pixels = self._unlabeled(images)
        return -self._log_prob(pixels, np.full(len(pixels), place))

    def reconstruct(self, images: Any, labels: Any = None) -> Images:
        """The images as their codes tell them, each in its own class.

        Args:
            images: As for `fit`.
            labels: As for `fit`.
        """
        found = labeled_images(images, labels, self.spec)
        as_bytes = self.spec.is_byte
        out = np.empty(found.pixels.shape, np.uint8 if as_bytes else np.float32)
        program = blocks.reconstruct_bytes if as_bytes else blocks.reconstruct
        places = _places(found)
        pixels = blocks.apply(program, self.models, found.pixels, places, self.spec, out)
        return Images(pixels, found.labels, self.spec)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `*.veil` file, all or nothing."""
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The model as plain data."""
        return artifacts.Artifact(
            model="ImageFlow",
            manifest=self.settings,
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema={"images": self.spec.to_json()},
            arrays=files.arrays_of(self.models),
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedImageFlow":
        """The model that `to_artifact` described."""
        spec = ImageSpec.from_json(artifact.schema["images"])
        return cls(
            models=files.read_models(artifact.manifest["recipe"], artifact.arrays, spec),
            spec=spec,
            ledger=artifact.ledger,
            guarantee=artifact.guarantee,
            settings=artifact.manifest,
        )

    def _log_prob(self, pixels: np.ndarray, places: np.ndarray) -> Float[np.ndarray, " images"]:
        out = np.empty(len(pixels))
        blocks.apply(blocks.log_prob, self.models, pixels, places, self.spec, out)
        # far away the square of a coordinate overflows: the density there is zero
        return np.nan_to_num(out, nan=-np.inf, neginf=-np.inf)

    def _unlabeled(self, images: Any) -> np.ndarray:
        """Pixels of images whose labels, if there are any, do not matter."""
        bare = replace(self.spec, classes=())
        if isinstance(images, Images) and images.spec == self.spec:
            return images.pixels
        return read_images(images, bare).pixels

    def _place(self, label: Any) -> int:
        """Of a class in the list."""
        if not self.classes:
            raise ValueError("label must be left out: the images of this model have no labels.")
        if np.ndim(label) != 0:
            raise TypeError(
                f"label must be one class, got {type(label).__name__}. {self._listed()}"
            )
        place = int(class_places([label], self.spec)[0])
        if place == NOT_A_CLASS:
            raise ValueError(f"there is no class {label!r}. {self._listed()}")
        return place

    def _listed(self) -> str:
        more = " ..." if len(self.classes) > 10 else ""
        return f"Classes are {', '.join(map(repr, self.classes[:10]))}{more}."

    def __repr__(self) -> str:
        spec = self.spec
        size = f"{spec.height} x {spec.width} x {spec.channels}"
        classes = f", {len(spec.classes)} classes" if spec.classes else ""
        return f"FittedImageFlow({size}{classes}; {self.guarantee})"


def _places(images: Images) -> np.ndarray:
    """The place of each image's class; the first where there is none."""
    return np.zeros(len(images), np.int32) if images.labels is None else images.labels
