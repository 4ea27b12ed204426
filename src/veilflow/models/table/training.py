"""The training plan of a table: the recipe's words made into objects of the engine."""

from veilflow.engine import Flat, Optimizer, PerLayer, PerUnit, Sparsified, TrainingPlan
from veilflow.engine.clipping import AbstractClipping
from veilflow.models.table.recipe import TableRecipe

CLIPPINGS = ("flat", "per-layer", "per-unit", "sparsified")


def clipping_of(name: str, clip_norm: float, *, sparsity: float) -> AbstractClipping:
    """The clipping of that name. One record adds at most `clip_norm`, whichever it is.

    Args:
        name: One of `CLIPPINGS`.
        clip_norm: Bound on one record's gradient.
        sparsity: Of "sparsified"; others do not look at it.
    """
    if name == "sparsified":
        return Sparsified(clip_norm, sparsity=sparsity)
    return {"flat": Flat, "per-layer": PerLayer, "per-unit": PerUnit}[name](clip_norm)


def training_plan(
    recipe: TableRecipe,
    *,
    noise_multiplier: float,
    num_records: int,
    ema_decay: float | None,
    hardened: bool,
    private: bool,
) -> TrainingPlan:
    """What the training of a fit by `recipe` does."""
    return TrainingPlan(
        clipping=clipping_of(recipe.clipping, recipe.clip_norm, sparsity=recipe.sparsity),
        noise_multiplier=noise_multiplier,
        sampling_rate=recipe.sampling_rate,
        expected_batch_size=recipe.sampling_rate * num_records,
        steps=recipe.steps,
        optimizer=Optimizer(
            name=recipe.optimizer,
            learning_rate=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
        ),
        ema_decay=ema_decay,
        hardened=hardened,
        private=private,
    )
