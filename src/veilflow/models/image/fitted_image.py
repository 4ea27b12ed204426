"""The fitted model of `ImageFlow`: samples and scores of codes, with their guarantee."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.images import Images, ImageSpec, read_images
from veilflow.images.image_set import NOT_A_CLASS, class_places
from veilflow.models.fitted import ARRAYS, Fitted
from veilflow.models.image import blocks
from veilflow.models.image.image_plan import ImagePlan
from veilflow.models.image.latent_model import ClassModels


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedImageFlow(Fitted):
    """A released image model. Its methods are post-processing and cost nothing.

    Scores and reconstructions of private images are as private as the images are.

    Attributes:
        plan: The plan that was executed.
        models: The networks of all classes.
        spec: The declared form of the images.
    """

    kind: ClassVar[str] = "ImageFlow"

    plan: ImagePlan
    models: ClassModels = field(repr=False, metadata=ARRAYS)
    spec: ImageSpec

    @property
    def classes(self) -> tuple[str, ...] | tuple[int, ...]:
        """The declared classes; empty if images have no labels."""
        return tuple(self.spec.classes)  # type: ignore[return-value]

    def sample(
        self,
        num_images: int,
        *,
        label: Any = None,
        seed: int | None = None,
        sharpen: float | None = None,
    ) -> Images:
        """Draw synthetic images.

        Args:
            num_images: The number of images.
            label: The class of all images; None for all classes in turns, so that each has an equal
                share. The model does not know the shares of the records.
            seed: For the same images each time; the first of many are those of few. Never use the
                seed of a fit: whoever knows it can remove the noise.
            sharpen: Smooth the images and sharpen them by this factor, as the paper does: 5 for
                digits, 2 for faces. Do not tune it on private images.

        Returns:
            Images as the specification declares them, in bytes if it declares the range of bytes.
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
        labeled = read_images(images, self.spec, labels=labels)
        return self._log_prob(labeled.pixels, _places(labeled))

    def log_prob_by_class(self, images: Any) -> Float[np.ndarray, "images classes"]:
        """The log-density of each image's code in every class, in the order of `classes`.

        Args:
            images: As for `fit`. Labels, if there are any, are ignored.
        """
        pixels = self._unlabeled(images)
        places = range(max(1, len(self.classes)))
        columns = [self._log_prob(pixels, np.full(len(pixels), place)) for place in places]
        return np.stack(columns, axis=1)

    def ood_score(self, images: Any, label: Any = None) -> Float[np.ndarray, " images"]:
        """How unlike the images of a class each image is: the negative log-density of its code.

        Args:
            images: As for `log_prob_by_class`.
            label: The class; None only if there are no classes.
        """
        if label is None and self.classes:
            raise ValueError(
                f"label must name the class that images are compared with. {self._listed()}"
            )
        place = 0 if label is None else self._place(label)
        pixels = self._unlabeled(images)
        return -self._log_prob(pixels, np.full(len(pixels), place))

    def reconstruct(self, images: Any, labels: Any = None) -> Images:
        """Reconstruct the images from their codes, each in its own class.

        Args:
            images: As for `fit`.
            labels: As for `fit`.
        """
        labeled = read_images(images, self.spec, labels=labels)
        as_bytes = self.spec.is_byte
        out = np.empty(labeled.pixels.shape, np.uint8 if as_bytes else np.float32)
        program = blocks.reconstruct_bytes if as_bytes else blocks.reconstruct
        places = _places(labeled)
        pixels = blocks.apply(program, self.models, labeled.pixels, places, self.spec, out)
        return Images(pixels, labeled.labels, self.spec)

    @classmethod
    def shapes(cls, plan: Any, public: dict[str, Any], *, num_numbers: int) -> ClassModels:
        if plan.spec != public["spec"]:
            raise ValueError("the plan is not one for images of the declared form.")
        # before anything is built: a file cannot ask for more work than it has numbers
        if plan.num_numbers != num_numbers:
            raise ValueError("the file does not have as many numbers as the settings require.")
        return eqx.filter_eval_shape(
            lambda: ClassModels.create(
                plan.flow,
                num_classes=plan.num_classes,
                partition=plan.partition,
                key=jax.random.key(0),
            )
        )

    def _log_prob(self, pixels: np.ndarray, places: np.ndarray) -> Float[np.ndarray, " images"]:
        out = np.empty(len(pixels))
        blocks.apply(blocks.log_prob, self.models, pixels, places, self.spec, out)
        # where the square of a coordinate overflows the density is zero
        return np.nan_to_num(out, nan=-np.inf, neginf=-np.inf)

    def _unlabeled(self, images: Any) -> np.ndarray:
        """The pixels of images, whose labels are ignored."""
        bare = replace(self.spec, classes=())
        if isinstance(images, Images) and images.spec == self.spec:
            return images.pixels
        return read_images(images, bare).pixels

    def _place(self, label: Any) -> int:
        """The index of a class."""
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

    def _about(self) -> str:
        spec = self.spec
        classes = f", {len(spec.classes)} classes" if spec.classes else ""
        return f"{spec.height} x {spec.width} x {spec.channels}{classes}"


def _places(images: Images) -> np.ndarray:
    """The index of each image's class; 0 if there are no classes."""
    return np.zeros(len(images), np.int32) if images.labels is None else images.labels
