"""The whole price of a fit of images, settled before an image is looked at, and the plan it pays for.

Flows or models for each class cost what one model costs: an image moves the gradient of its own class
alone, beside that of what all classes have in common.
"""

from dataclasses import dataclass

import equinox as eqx
import jax

from veilflow.engine import Flat, PerGroup, ScaledOptimizer, TrainingPlan
from veilflow.engine.clipping import AbstractClipping
from veilflow.images import ImageSpec
from veilflow.models.assumptions import assuming
from veilflow.models.image.class_models import condition_dim, num_parts
from veilflow.models.image.latent_model import LatentModel, groups
from veilflow.models.image.recipe import ImageRecipe
from veilflow.models.table.recipe import count_epsilon
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate, PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import count_records


@dataclass(frozen=True)
class ImagePrices:
    """What a fit will pay."""

    ledger: Ledger
    """All but the training."""
    noise_multiplier: float
    training: Event

    def whole(self) -> Ledger:
        """All of it."""
        return self.ledger.spend(self.training, purpose="training")


def settle_images(recipe: ImageRecipe, budget: Budget, *, count: bool) -> ImagePrices:
    """The prices of a fit by `recipe` that together spend the budget.

    Args:
        recipe: Of the fit.
        budget: Of the fit.
        count: Whether the number of records is paid for.

    Raises:
        BudgetError: Nothing is left for the training.
    """
    ledger = Ledger()
    if count:
        paid: Event = PureDP(count_epsilon(budget)) if budget.private else NonPrivate()
        ledger = ledger.spend(paid, purpose="number of records")
    if not budget.private:
        return ImagePrices(ledger, 0.0, NonPrivate())
    rate, steps = recipe.sampling_rate, recipe.steps
    noise = calibration.noise_multiplier(budget, sampling_rate=rate, steps=steps, ledger=ledger)
    return ImagePrices(ledger, noise, calibration.training_event(rate, noise, steps))


def training_plan(
    recipe: ImageRecipe, prices: ImagePrices, *, num_records: int, num_classes: int
) -> TrainingPlan:
    """What the training of a fit by `recipe` does.

    Args:
        recipe: Of the fit.
        prices: Of the fit.
        num_records: In all, declared or released. Of a class it is not known: its sums are divided
            as if all classes had equally many.
        num_classes: 0 where images have no labels.
    """
    parts = num_parts(recipe.partition, num_classes)
    shapes = shapes_of(recipe, num_classes)
    return TrainingPlan(
        clipping=clipping_of(recipe.clip_norms, shapes),
        noise_multiplier=prices.noise_multiplier,
        sampling_rate=recipe.sampling_rate,
        expected_batch_size=recipe.sampling_rate * num_records / parts,
        steps=recipe.steps,
        optimizer=ScaledOptimizer.of(
            shapes, groups, recipe.learning_rates, weight_decay=recipe.weight_decay
        ),
        ema_decay=recipe.ema_decay,
        private=not isinstance(prices.training, NonPrivate),
    )


def shapes_of(recipe: ImageRecipe, num_classes: int) -> LatentModel:
    """The shapes of the model of one class."""
    told = condition_dim(recipe.partition, num_classes)
    return eqx.filter_eval_shape(
        lambda: LatentModel.create(recipe.architecture, key=jax.random.key(0), condition_dim=told)
    )


def clipping_of(clip_norms: tuple[float, ...], model: LatentModel) -> AbstractClipping:
    """A bound for autoencoder and flow each, or one for both together."""
    if len(clip_norms) == 1:
        return Flat(clip_norms[0])
    return PerGroup.of(model, groups, clip_norms)


def counted(images: Sensitive, budget: Budget) -> int:
    """The number of images, paid for as `settle_images` says; at least 1."""
    if not budget.private:
        return max(1, len(images.open()))
    found = max(1, int(count_records(images, epsilon=count_epsilon(budget)).value))
    budget.warn_if_weak(found)
    return found


def resting_on(
    ledger: Ledger, spec: ImageSpec, budget: Budget, *, num_records: int | None, seeded: bool
) -> Ledger:
    """`ledger` with what its guarantee assumes."""
    what = ["size", "range", *(["classes"] if spec.classes else [])]
    if num_records is not None:
        what.append("number")
    listed = f"{', '.join(what[:-1])} and {what[-1]}"
    ledger = ledger.assuming(f"{listed} of images were declared, not read from the records")
    if not budget.private:
        return ledger
    return assuming(ledger, hardened=False, generator=True, seeded=seeded)
