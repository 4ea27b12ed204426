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
from veilflow.models.image.fitted_image import FittedImageFlow
from veilflow.models.image.image_plan import ImagePlan, check_sizes, check_training, plan_images
from veilflow.models.image.latent_model import PARTITIONS, RECONSTRUCTIONS
from veilflow.models.record_count import RecordCount, num_records, roughly
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
        adding or removing one image with its label, by the PLD accountant. The specification, and
        the number of images if given, are declared public facts; nothing else is read from the
        images without being paid for. The number of images of a class is neither read nor released.
        A flow for each class costs what one flow costs, because an image enters only that of its own
        class; an image whose label is changed enters two.

    Only the specification and the budget are required. The planner (`models/image/image_plan.py`)
    sets whatever is left at None, from public facts alone.

    Args:
        spec: The declared form of the images.
        budget: The privacy budget of the whole fit. An infinite epsilon fits without privacy, for
            reference.
        num_records: The number of images, if it may be public. Otherwise a private count is paid for
            with 2 % of epsilon; "about 25000" says how large it will be, if that may be public.
        partition: What each class has of its own: "flows", a flow over the codes of a common
            autoencoder (the default if there are classes); "models", an autoencoder as well, as
            published; or "none", a condition of one flow for all classes.
        flow: The sizes of the flow and of the autoencoder, as `vf.ImageArchitecture(...)`.
        reconstruction: The error of the autoencoder: "bce", the cross-entropy of pixels, or "mse",
            their squared error.
        temperature: The square root of the weight of the reconstruction error beside the density of
            codes.
        training: How the networks are trained, as `vf.Training(...)`. A pair of clip norms bounds one
            image's gradient in the autoencoder and in the flow; together they have the root of the
            sum of their squares. A single clip norm bounds both together. The learning rate is a
            pair, too, or one for both.
        seed: For repeatable research, and for one fit only: two fits with the same seed have the
            same noise. The guarantee then says that the seed was chosen. A paid count stays random.

    Example:
        >>> import veilflow as vf
        >>> digits = vf.ImageSpec(height=28, width=28, classes=range(10))
        >>> estimator = vf.ImageFlow(spec=digits, budget=vf.Budget(epsilon=10.0, delta=1e-5))
        >>> model = estimator.fit("digits/")  # doctest: +SKIP
    """

    spec: ImageSpec
    budget: Budget
    num_records: RecordCount = None
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
            num_records=num_records,
            partition=fields.optional(fields.word(*PARTITIONS)),
            flow=fields.optional(fields.instance(ImageArchitecture, "a vf.ImageArchitecture(...)")),
            reconstruction=fields.word(*RECONSTRUCTIONS),
            temperature=fields.optional(fields.positive),
            training=is_training,
            seed=seed,
        )
        check_sizes(self.spec, self.partition, self.flow)
        check_training(self.training)
        self.training.rate(roughly(self.num_records))

    def plan(self) -> ImagePlan:
        """Everything that a fit will release and pay for: public, and known before the images are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        return plan_images(self)

    def read(self, images: Any, labels: Any = None, *, invalid: str = "error") -> Source:
        """Read the images, and their labels if classes are declared. A class may have no image.

        Args:
            images: An array, a file of one, a folder of image files, or what
                `veilflow.images.read_images` returns.
            labels: An array, a file of one, or a CSV, as for `read_images`.
            invalid: How to treat images that are not as declared: "error" raises, and "skip" leaves
                them out.

        Raises:
            ValueError: Images are not as the specification says.
        """
        labeled = read_images(images, self.spec, labels=labels, invalid=invalid)
        pixels = labeled.pixels
        records = pixels if labeled.labels is None else (pixels, labeled.labels)
        return Source(Sensitive(records, description="images", unit=Unit.IMAGE))

    def query(self, release: Release, fit: Fit) -> Query:
        records = fit.source.records
        if isinstance(release, PrivateTraining):
            if fit.plan.tells_class and fit.plan.partition == "flows":
                records = records.map(lambda x: (x, x[1]))  # the class is told, and a part as well
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
