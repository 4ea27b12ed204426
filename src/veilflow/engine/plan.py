"""The training plan: every public number of a run, and the event that these numbers imply.

Sampling, clipping, noise and accounting are read from this one frozen object, so they cannot disagree.
All fields are public facts; neither the records nor their number enter.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from veilflow._core import check
from veilflow.engine import sampling
from veilflow.engine.clipping import AbstractClipping
from veilflow.engine.optimizer import Optimizer
from veilflow.privacy import banded_noise
from veilflow.privacy.calibration import training_event, turns_of
from veilflow.privacy.events import Event, NonPrivate


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What a private training run will do.

    Guarantee:
        A run of this plan is `plan.event` for add/remove of one record: `steps` releases of a sum to
        which one record contributes at most `clipping.sensitivity`, each over a Poisson sample, with
        independent Gaussian noise of `noise_multiplier` times that sensitivity. With several
        `noise_bands` it is as many of these as a record has turns; see `privacy.banded_noise`.
    """

    clipping: AbstractClipping
    noise_multiplier: float
    """Noise over sensitivity, of a turn if noise is correlated. 0 only with `private=False`."""
    sampling_rate: float
    expected_batch_size: float
    """The public divisor: the rate times a declared or released number of records."""
    steps: int
    noise_bands: int = 1
    """Over how many steps noise is correlated; 1 for independent noise. With more, the records are
    in as many groups, which take turns."""
    optimizer: Optimizer = field(default_factory=Optimizer)
    ema_decay: float | None = None
    """Decay of the average of parameters that is returned; None returns the last parameters."""
    private: bool = True
    """False runs without noise; the ledger then says so, and epsilon is infinite."""

    def __post_init__(self) -> None:
        hint = "For a run without privacy set private=False, which the ledger records as such."
        if self.private:
            check.positive(noise_multiplier=self.noise_multiplier, hint=hint)
        elif self.noise_multiplier != 0:
            raise ValueError(
                f"a run without privacy adds no noise, got noise_multiplier={self.noise_multiplier}."
            )
        sampling.threshold(self.sampling_rate)
        check.positive(expected_batch_size=self.expected_batch_size)
        check.count(steps=self.steps)
        check_bands(self.noise_bands, private=self.private)
        turns_of(self.sampling_rate, self.steps, self.noise_bands)
        if self.ema_decay is not None:
            check.fraction(ema_decay=self.ema_decay)

    @property
    def turn_rate(self) -> float:
        """The probability that a record enters a step in which it may."""
        return turns_of(self.sampling_rate, self.steps, self.noise_bands)[0]

    @property
    def event(self) -> Event:
        """What the whole run costs."""
        return self.event_after(self.steps)

    def event_after(self, steps: int) -> Event:
        """What the first `steps` steps cost."""
        if not self.private:
            return NonPrivate()
        return training_event(
            self.sampling_rate, self.noise_multiplier, steps, bands=self.noise_bands
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        plain = _plain(self)
        plain["clipping"] = {"kind": type(self.clipping).__name__, **_plain(self.clipping)}
        plain["optimizer"] = _plain(self.optimizer)
        return plain


def check_bands(noise_bands: int, *, private: bool) -> None:
    """Raise unless the noise of a run can be correlated over so many steps."""
    banded_noise.check_bands(noise_bands)
    if noise_bands > 1 and not private:
        raise ValueError(
            f"a run without privacy adds no noise to correlate, got noise_bands={noise_bands}. "
            "Leave it out."
        )


def _plain(settings: Any) -> dict[str, Any]:
    """Fields by name, with NumPy scalars as Python numbers."""
    values = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    return {name: x.item() if hasattr(x, "item") else x for name, x in values.items()}
