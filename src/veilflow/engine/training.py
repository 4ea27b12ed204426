"""The settings of training, the same for every model: what a user writes and a plan stores."""

from dataclasses import dataclass, replace
from typing import Any

from veilflow._core import check, fields
from veilflow.engine.clipping import AbstractClipping, Flat, PerLayer, PerUnit, Sparsified
from veilflow.engine.clipping.clipping import check_bound
from veilflow.engine.optimizer import OPTIMIZERS, SCHEDULES, Optimizer
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.sampling import threshold
from veilflow.privacy.banded_noise import check_bands
from veilflow.privacy.calibration import turns_of

CLIPPINGS = ("flat", "per-layer", "per-unit", "sparsified")
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained. The planner of the model sets what is left at None or "auto".

    Args:
        steps: Number of noisy steps; 0 to use only what is released before the training.
        batch_size: Expected number of records in a step; needs a declared number of records.
        sampling_rate: The probability that a record enters a step, instead of `batch_size`.
        noise_bands: Over how many steps noise is correlated; 1 for independent noise.
        clip_norm: Bound on one record's gradient; for images also one for each of the two networks.
        clipping: How gradients are clipped: "flat", "per-layer", "per-unit" or "sparsified".
        sparsity: For "sparsified": the fraction of a layer's entries that are below the threshold.
        optimizer: "adam", "adabelief", "rmsprop" or "sgd".
        learning_rate: At the first step; for images also one for each of the two networks.
        schedule: How the rate goes on: "cosine" or "linear" to zero, "exponential" or "constant".
        rate_decay: For "exponential": the factor by which the rate falls at each step.
        weight_decay: Decay of the weights towards zero.
        ema_decay: Decay of the parameter average that is returned; None for the last parameters.
    """

    steps: int | None = None
    batch_size: int | None = None
    sampling_rate: float | None = None
    noise_bands: int = 1
    clip_norm: float | tuple[float, ...] | None = None
    clipping: str = "flat"
    sparsity: float = 0.5
    optimizer: str | None = None
    learning_rate: float | tuple[float, ...] | None = None
    schedule: str = "cosine"
    rate_decay: float = 0.9999
    weight_decay: float | None = None
    ema_decay: float | str | None = AUTO

    def __post_init__(self) -> None:
        fields.convert(
            self,
            steps=fields.optional(fields.count(at_least=0)),
            batch_size=fields.optional(fields.count()),
            sampling_rate=fields.optional(_rate),
            noise_bands=_bands,
            clip_norm=fields.optional(fields.one_or_each(_norm)),
            clipping=fields.word(*CLIPPINGS),
            sparsity=fields.finite,
            optimizer=fields.optional(fields.word(*OPTIMIZERS)),
            learning_rate=fields.optional(fields.one_or_each(fields.positive)),
            schedule=fields.word(*SCHEDULES),
            rate_decay=fields.fraction,
            weight_decay=fields.optional(fields.nonnegative),
            ema_decay=fields.optional(fields.either(fields.word(AUTO), fields.fraction)),
        )
        Sparsified(1.0, sparsity=self.sparsity)
        if self.batch_size is not None and self.sampling_rate is not None:
            raise ValueError("give batch_size or sampling_rate, not both.")
        if self.sampling_rate is not None:
            turns_of(self.sampling_rate, self.steps or 1, self.noise_bands)

    def rate(self, num_records: int | None) -> float | None:
        """The sampling rate that the user chose, if any; it depends on declared facts only.

        Raises:
            ValueError: There is a batch size but no declared number of records.
        """
        if self.batch_size is None:
            return self.sampling_rate
        if num_records is None:
            raise ValueError(
                f"batch_size={self.batch_size} needs num_records: a rate computed from a private count "
                "would be private. Declare num_records, or give sampling_rate instead."
            )
        return min(1.0, self.batch_size / num_records)

    def resolved(self, *, sampling_rate: float, **defaults: Any) -> "Training":
        """These settings, with defaults for those that the user did not choose.

        Args:
            sampling_rate: The chosen or planned sampling rate.
            defaults: The defaults of other settings by name.
        """
        # None is a choice for the average, so there "auto" stands for no choice
        open_ = {name for name in defaults if getattr(self, name) is None} - {"ema_decay"}
        open_ |= {"ema_decay"} if self.ema_decay == AUTO else set()
        filled = {name: value for name, value in defaults.items() if name in open_}
        return replace(self, batch_size=None, sampling_rate=sampling_rate, **filled)

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the settings that the user chose."""
        usual = Training()
        return tuple(
            name
            for name in self.__dataclass_fields__
            if getattr(self, name) != getattr(usual, name)
        )

    def plan(
        self,
        *,
        noise_multiplier: float,
        expected_batch_size: float,
        clipping: AbstractClipping | None = None,
        optimizer: Optimizer | None = None,
    ) -> TrainingPlan:
        """The plan that the engine runs. All settings must be resolved.

        Args:
            noise_multiplier: 0 for a run without privacy.
            expected_batch_size: The public divisor.
            clipping: Replaces the named one in models of several networks.
            optimizer: Likewise.
        """
        assert self.steps is not None
        assert self.sampling_rate is not None
        if optimizer is None:
            optimizer = Optimizer(
                name=self.optimizer or "adam",
                learning_rate=_one("learning_rate", self.learning_rate),
                schedule=self.schedule,
                rate_decay=self.rate_decay,
                weight_decay=self.weight_decay or 0.0,
            )
        return TrainingPlan(
            clipping=self._clipping() if clipping is None else clipping,
            noise_multiplier=noise_multiplier,
            sampling_rate=self.sampling_rate,
            expected_batch_size=expected_batch_size,
            steps=self.steps,
            noise_bands=self.noise_bands,
            optimizer=optimizer,
            ema_decay=None if isinstance(self.ema_decay, str) else self.ema_decay,
            private=noise_multiplier > 0,
        )

    def _clipping(self) -> AbstractClipping:
        """The named clipping. With any of them, one record contributes at most `clip_norm`."""
        clip_norm = _one("clip_norm", self.clip_norm)
        if self.clipping == "sparsified":
            return Sparsified(clip_norm, sparsity=self.sparsity)
        return {"flat": Flat, "per-layer": PerLayer, "per-unit": PerUnit}[self.clipping](clip_norm)


def _one(name: str, value: float | tuple[float, ...] | None) -> float:
    if isinstance(value, tuple) or value is None:
        raise ValueError(f"{name} must be one number here, got {value}.")
    return value


def _norm(name: str, value: Any) -> float:
    """A rule for fields: a clip norm that is feasible in float32."""
    check_bound(**{name: value})
    return float(value)


def _bands(name: str, value: Any) -> int:
    """A rule for fields: a number of steps over which noise can be correlated."""
    check.count(**{name: value})
    check_bands(value)
    return int(value)


def _rate(name: str, value: Any) -> float:
    """A rule for fields: a sampling rate that the engine can draw with."""
    check.rate(**{name: value})
    threshold(float(value))
    return float(value)
