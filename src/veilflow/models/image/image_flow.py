"""DP-LFlow: private images, through an autoencoder and a flow over its codes.

After Jiang and Sun, "Differentially private latent flow" (2023), made sound: the gradients of both
networks are released together and have one bound, batches are Poisson samples of each class, no class
is cut to a number of images, and noise is calibrated by the PLD accountant.
"""

from dataclasses import dataclass, field
from typing import Any

from veilflow._core import fields
from veilflow.engine.training import Training
from veilflow.images import ImageSpec, read_images
from veilflow.models.estimator import Estimator, Fit, Source, facts_of
from veilflow.models.image import image_parts as parts
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.class_models import PARTITIONS
from veilflow.models.image.fitted_image import FittedImageFlow
from veilflow.models.image.image_plan import ImagePlan, check_sizes, check_training, plan_images
from veilflow.models.image.loss import RECONSTRUCTIONS
from veilflow.models.settings import check_budget, is_training, seed
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.unit import Unit
from veilflow.releases.release import Query, Release
from veilflow.releases.training import PrivateTraining


@dataclass(frozen=True, kw_only=True)
class ImageFlow(Estimator[FittedImageFlow]):
    """A model of images to be fitted privately.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one image with its label, by the PLD accountant. What the specification
        says, and the number of images if given, count as declared public facts; nothing else is read
        from the images without being paid for. How many images a class has is neither read nor
        released. A flow for each class costs what one flow costs, because an image enters that of its
        own class only; an image whose label is changed enters two.

    What is left at None or "auto" is set by `models/image/image_plan.py`, from public facts alone.

    Args:
        spec: What is declared about the images.
        budget: What the whole fit may spend. An infinite epsilon fits without privacy, for reference.
        num_records: How many images there are, if that may be known. Otherwise a private count is
            paid for with 2 % of epsilon.
        partition: What each class has of its own: "flows", a flow over the codes of an autoencoder
            that all classes have in common (the default where there are classes); "models", an
            autoencoder, too, as published; or "none": one model has a flow that is conditioned on
            the class.
        flow: Sizes of the flow and of the autoencoder, as `vf.ImageArchitecture(...)`.
        reconstruction: What the autoencoder is trained on: "bce", the cross-entropy of pixels, or
            "mse", their squared error.
        temperature: Its square is the weight of the reconstruction beside the density of codes.
        training: How the networks are trained, as `vf.Training(...)`. A pair of clip norms bounds one
            image's gradient in the autoencoder and in the flow; together they have the root of the
            sum of their squares. One clip norm bounds both as a whole. Learning rates are a pair,
            too, or one for both.
        seed: For repeatable research, and for one fit only: two fits with one seed have the same
            noise. The guarantee then says that the seed was chosen. A paid count stays random.

    Example:
        >>> import veilflow as vf
        >>> digits = vf.ImageSpec(height=28, width=28, classes=range(10))
        >>> estimator = vf.ImageFlow(spec=digits, budget=vf.Budget(epsilon=10.0, delta=1e-5))
        >>> model = estimator.fit("digits/")  # doctest: +SKIP
    """

    spec: ImageSpec
    budget: Budget
    num_records: int | None = None
    partition: str | None = None
    flow: ImageArchitecture | None = None
    reconstruction: str = "bce"
    temperature: float | None = None
    training: Training = field(default_factory=Training)
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)
        fields.convert(
            self,
            spec=fields.instance(
                ImageSpec, "a vf.ImageSpec, written in Python or read from a file"
            ),
            num_records=fields.optional(fields.count()),
            partition=fields.optional(fields.word(*PARTITIONS)),
            flow=fields.optional(fields.instance(ImageArchitecture, "a vf.ImageArchitecture(...)")),
            reconstruction=fields.word(*RECONSTRUCTIONS),
            temperature=fields.optional(fields.positive),
            training=is_training,
            seed=seed,
        )
        check_sizes(self.spec, self.partition, self.flow)
        check_training(self.training)
        self.training.rate(self.num_records)

    def plan(self) -> ImagePlan:
        """Everything that a fit will ask and pay: public, and known before the images are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        return plan_images(
            spec=self.spec,
            budget=self.budget,
            num_records=self.num_records,
            partition=self.partition,
            flow=self.flow,
            reconstruction=self.reconstruction,
            temperature=self.temperature,
            training=self.training,
            seeded=self.seed is not None,
        )

    def read(self, images: Any, labels: Any = None, *, invalid: str = "error") -> Source:
        """The images, and their labels where classes are declared. A class may have no image.

        Args:
            images: What `veilflow.images.read_images` gives or takes: an array, a file of one, or a
                folder of image files.
            labels: As for `read_images`: an array, a file of one, or a CSV.
            invalid: What to do about images that are not as declared: "error", or "skip" them.

        Raises:
            ValueError: Images are not as the specification says.
        """
        every = read_images(images, self.spec, labels=labels, invalid=invalid)
        records = every.pixels if every.labels is None else (every.pixels, every.labels)
        return Source(Sensitive(records, description="images", unit=Unit.IMAGE))

    def query(self, release: Release, fit: Fit) -> Query:
        records = fit.source.records
        if isinstance(release, PrivateTraining):
            return Query(records, {"task": parts.task(release, fit)})
        return Query(records.map(lambda x: x[0]) if self.spec.classes else records)

    def assemble(self, fit: Fit) -> FittedImageFlow:
        return FittedImageFlow(
            models=parts.assembled(fit),
            spec=self.spec,
            plan=fit.plan,
            guarantee=fit.plan.guarantee,
            facts=facts_of(fit.plan, num_records=fit.num_records),
        )
