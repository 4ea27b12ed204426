"""DP-LFlow: private images, through an autoencoder and a flow over its codes.

After Jiang and Sun, "Differentially private latent flow" (2023), made sound: the gradients of both
networks are released together and have one bound, batches are Poisson samples of each class, no class
is cut to a number of images, and noise is calibrated by the PLD accountant.
"""

import hashlib
import json
import os
import warnings
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import numpy as np

from veilflow._core import check
from veilflow._core.errors import ArtifactError, PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint, TrainingPlan, progress_bar, train, train_parts
from veilflow.engine.clipping.clipping import check_bound
from veilflow.images import Images, ImageSpec
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.chunks import images_at_once
from veilflow.models.image.class_models import (
    PARTITIONS,
    ClassModels,
    condition_dim,
    num_parts,
)
from veilflow.models.image.fitted_image import FittedImageFlow
from veilflow.models.image.loss import RECONSTRUCTIONS, ImageLoss
from veilflow.models.image.pricing import (
    ImagePrices,
    counted,
    resting_on,
    settle_images,
    shapes_of,
    training_plan,
)
from veilflow.models.image.reading import labeled_images
from veilflow.models.image.recipe import AUTO, ImageRecipe, plan_images
from veilflow.models.settings import check_budget, make_whole, warn_before
from veilflow.models.table.resuming import opened
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class ImageFlow:
    """A model of images to be fitted privately.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one image with its label, by the PLD accountant. What the specification
        says, and the number of images if given, count as declared public facts; nothing else is read
        from the images without being paid for. How many images a class has is neither read nor
        released. A flow for each class costs what one flow costs, because an image enters that of its
        own class only; an image whose label is changed enters two.

    What is left at None or "auto" is set by `models/image/recipe.py`, from public facts alone.

    Args:
        spec: What is declared about the images.
        budget: What the whole fit may spend. An infinite epsilon fits without privacy, for reference.
        num_records: How many images there are, if that may be known. Otherwise a private count is
            paid for with 2 % of epsilon.
        partition: What each class has of its own: "flows", a flow over the codes of an autoencoder
            that all classes have in common (the default where there are classes); "models", an
            autoencoder, too, as published; or "none": one model has a flow that is told the class.
        architecture: Sizes of the networks.
        reconstruction: What the autoencoder is trained on: "bce", the cross-entropy of pixels, or
            "mse", their squared error.
        temperature: Its square is the weight of that beside the density of codes.
        steps: Noisy steps.
        sampling_rate: The probability that an image enters a step.
        clip_norms: Bounds on one image's gradient in the autoencoder and in the flow; together they
            have the root of the sum of their squares. One number bounds both as a whole.
        learning_rates: Of Adam for the autoencoder and for the flow, with cosine decay.
        weight_decay: Pull of the weights to zero.
        ema_decay: Decay of the parameter average that is returned; None for the last parameters.
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
    architecture: ImageArchitecture | None = None
    reconstruction: str = "bce"
    temperature: float | None = None
    steps: int | None = None
    sampling_rate: float | None = None
    clip_norms: float | tuple[float, ...] | None = None
    learning_rates: tuple[float, float] | None = None
    weight_decay: float | None = None
    ema_decay: float | str | None = AUTO
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.spec, ImageSpec):
            raise TypeError(
                f"spec must be a vf.ImageSpec, got {type(self.spec).__name__}. Write it in Python, or "
                "read it by vf.ImageSpec.from_file."
            )
        check_budget(self.budget, hardened=False)
        if self.partition is not None:
            check.one_of(PARTITIONS, partition=self.partition)
            if self.partition != "none" and not self.spec.classes:
                raise ValueError(
                    f"partition={self.partition!r} needs classes. Declare them in the spec, or leave "
                    "it out."
                )
        self._check_architecture()
        check.one_of(RECONSTRUCTIONS, reconstruction=self.reconstruction)
        make_whole(self, "num_records", "steps", optional=True)
        if self.sampling_rate is not None:
            check.rate(sampling_rate=self.sampling_rate)
        if self.temperature is not None:
            check.positive(temperature=self.temperature)
        if self.weight_decay is not None:
            check.nonnegative(weight_decay=self.weight_decay)
        if self.ema_decay not in (None, AUTO):
            check.fraction(ema_decay=self.ema_decay)
        # plain numbers, because they go into a file
        for name in ("sampling_rate", "temperature", "weight_decay", "ema_decay"):
            if getattr(self, name) not in (None, AUTO):
                object.__setattr__(self, name, float(getattr(self, name)))
        self._check_pairs()
        Secret.from_seed(self.seed)

    def _check_architecture(self) -> None:
        if self.architecture is None:
            return
        if not isinstance(self.architecture, ImageArchitecture):
            raise TypeError(
                "architecture must be a vf.ImageArchitecture, got "
                f"{type(self.architecture).__name__}."
            )
        have, want = (self.architecture.colors, *self.architecture.size), self.spec.shape
        if have != want:
            raise ValueError(
                f"architecture is for images of {have} channels, height and width, and the spec "
                f"declares {want}. Give both the same."
            )

    def _check_pairs(self) -> None:
        norms, rates = self.clip_norms, self.learning_rates
        if norms is not None:
            norms = norms if isinstance(norms, list | tuple) else (norms,)
            if len(norms) not in (1, 2):
                raise ValueError(
                    "clip_norms must be one number, or two: of the autoencoder and of the flow, got "
                    f"{len(norms)}."
                )
            for norm in norms:
                check_bound(clip_norm=norm)
            object.__setattr__(self, "clip_norms", tuple(float(norm) for norm in norms))
        if rates is not None:
            if not isinstance(rates, list | tuple) or len(rates) != 2:
                raise ValueError(
                    f"learning_rates must be two: of the autoencoder and of the flow, got {rates!r}."
                )
            for rate in rates:
                check.positive(learning_rate=rate)
            object.__setattr__(self, "learning_rates", tuple(float(rate) for rate in rates))

    def fit(
        self,
        images: Any,
        labels: Any = None,
        *,
        progress: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        save_as: str | os.PathLike[str] | None = None,
        invalid: str = "error",
    ) -> FittedImageFlow:
        """Fit the model. A second call is a second spend.

        Args:
            images: What `veilflow.images.read_images` gives or takes: an array, a file of one, or a
                folder of image files. At least one image; a class may have none.
            labels: As for `read_images`: an array, a file of one, or a CSV.
            progress: Show a progress bar on standard error.
            checkpoint: A file to leave the run's state in. If it is there already, the run it
                belongs to goes on, with the same secret, noise and count and without new spending.
                Keep it secret; it is removed when the fit is done.
            save_as: A file to save the model in before the checkpoint is removed, so that a full
                disk does not lose what was paid for.
            invalid: What to do about images that are not as declared: "error", or "skip" them.

        Returns:
            The fitted model, which may be published.

        Raises:
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: Images are not as the specification says.
            PrivacyError: The checkpoint belongs to other images or settings.
        """
        warn_before(self.budget, self.num_records)
        check.one_of(("error", "skip"), invalid=invalid)
        # everything that decides the price is settled here, before an image is looked at
        recipe = self.recipe()
        prices = settle_images(recipe, self.budget, count=self.num_records is None)
        file = None
        if checkpoint is not None:
            file = opened(checkpoint, steps=recipe.steps, hardened=False)
        found = labeled_images(images, labels, self.spec, invalid=invalid)
        if not len(found):
            raise ValueError("there are no images. A fit needs at least one.")
        records, num_records, secret = self._begin(
            Sensitive(found, description="images"), recipe, prices, file
        )

        num_classes = len(self.spec.classes)
        plan = training_plan(recipe, prices, num_records=num_records, num_classes=num_classes)
        if plan.private:
            self.budget.check(prices.ledger, plan.event, purpose="training")
        with progress_bar(
            plan,
            prices.ledger,
            delta=self.budget.delta,
            total_epsilon=self.budget.epsilon,
            show=progress,
        ) as monitor:
            models = self._trained(plan, recipe, records, secret, checkpoint=file, monitor=monitor)
        ledger = self._assuming(prices.whole(), seeded=secret.chosen)
        model = FittedImageFlow(
            models=models,
            spec=self.spec,
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.budget.delta),
            settings={
                "recipe": recipe.to_json(),
                "plan": json.loads(json.dumps(plan.to_json())),
                "facts": {
                    "num_records": num_records,
                    "declared": ["num_records"] if self.num_records is not None else [],
                },
            },
        )
        if save_as is not None:
            model.save(save_as)
        if file is not None:
            file.delete()
        return model

    def recipe(self) -> ImageRecipe:
        """What a fit will do: public, and known before the images are."""
        names = (
            "temperature",
            "steps",
            "sampling_rate",
            "clip_norms",
            "learning_rates",
            "weight_decay",
        )
        return plan_images(
            spec=self.spec,
            budget=self.budget,
            partition=self.partition,
            architecture=self.architecture,
            reconstruction=self.reconstruction,
            ema_decay=self.ema_decay,
            chosen={name: getattr(self, name) for name in names},
        )

    def ledger(self) -> Ledger:
        """All that a fit will spend: public, and known before the images are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        prices = settle_images(self.recipe(), self.budget, count=self.num_records is None)
        return self._assuming(prices.whole(), seeded=self.seed is not None)

    def _begin(
        self,
        images: Sensitive[Images],
        recipe: ImageRecipe,
        prices: ImagePrices,
        file: Checkpoint | None,
    ) -> tuple[Sensitive[Any], int, Secret]:
        """What training sees; how many images there are, and the secret, new or of the run before."""
        records = images.map(lambda x: x.pixels if x.labels is None else (x.pixels, x.labels))
        settings = self._fingerprint(recipe, prices)
        saved = None if file is None else file.read()
        if file is None or saved is None:
            secret = Secret.from_seed(self.seed)
            count = self.num_records
            count = counted(images, self.budget) if count is None else count
            if file is not None:
                file.begin(secret, {"for": settings, "num_records": count}, records=records)
            return records, count, secret
        if saved.context.get("for") != settings:
            raise PrivacyError(
                "the checkpoint belongs to other settings. Going on would reuse its noise. "
                "Use the settings of the interrupted run, or another checkpoint path."
            )
        file.check_records(saved, records)
        count = saved.context.get("num_records")
        if type(count) is not int or count < 1:
            raise ArtifactError(
                "the checkpoint does not hold the start of a fit. Nothing was changed. Delete it to "
                "start the run afresh, which is a new spend."
            )
        return records, count, saved.secret

    def _trained(
        self,
        plan: TrainingPlan,
        recipe: ImageRecipe,
        records: Sensitive[Any],
        secret: Secret,
        **run: Any,
    ) -> ClassModels:
        """The released models."""
        num_classes = len(self.spec.classes)
        # in one program: compiled one by one, the draws of all weights take seconds
        start = eqx.filter_jit(ClassModels.create)(
            recipe.architecture,
            num_classes=num_classes,
            partition=recipe.partition,
            key=secret.key("weights"),
        )
        parts = num_parts(recipe.partition, num_classes)
        run["chunk_size"] = images_at_once(
            shapes_of(recipe, num_classes), recipe.architecture, plan, parts=parts
        )
        told = condition_dim(recipe.partition, num_classes)
        loss = ImageLoss(recipe.reconstruction, recipe.temperature, told)
        if recipe.partition == "none":
            released = train(plan, loss, start.model, records, secret=secret, **run)
        else:
            run |= {"num_parts": parts, "common": start.in_common}
            released = train_parts(plan, loss, start.model, records, secret=secret, **run)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(released.value)):
            warnings.warn(
                "training diverged: there are parameters that are not finite. Lower learning_rates; "
                "a new fit is a new spend.",
                stacklevel=3,
            )
        return ClassModels(released.value, num_classes, recipe.partition)

    def _fingerprint(self, recipe: ImageRecipe, prices: ImagePrices) -> str:
        """What a run is of: with another recipe or price it would be another one."""
        named = [repr(self), recipe.to_json(), prices.ledger.to_json(), prices.noise_multiplier]
        return hashlib.blake2b(json.dumps(named).encode(), digest_size=32).hexdigest()

    def _assuming(self, ledger: Ledger, *, seeded: bool) -> Ledger:
        return resting_on(
            ledger, self.spec, self.budget, num_records=self.num_records, seeded=seeded
        )
