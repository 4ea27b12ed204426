"""What the contract has to know of an estimator, and what several of them have in common."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import veilflow as vf
from tests.contracts import settings as kinds
from tests.contracts.settings import Setting
from veilflow.privacy.ledger import Ledger

BUDGET, OPEN = vf.Budget(1.0, 1e-6), vf.Budget(math.inf, 1e-6)
ROWS = np.random.default_rng(0).uniform(0.1, 0.9, (12, 2))
LABELS = np.arange(12) % 2
FLOW = vf.maf(blocks=1, hidden=(3,))
CANARY, WORD = 8675309.25, "SECRETCELL"
"""What no message may hold."""


@dataclass(frozen=True)
class Estimator:
    """One estimator.

    Attributes:
        make: With changed settings.
        settings: All of them, by name.
        data: Arguments of `fit`, 12 records.
        hostile: Arguments of `fit` that hold the canary where it should not be.
        fit: From estimator and arguments to the fitted model.
        planned: What it says beforehand that a fit will spend.
        answers: Numbers of a fitted model that must be the same after it is saved and loaded.
        spent: What a fitted model has spent, when all is.
        planner: The method that makes the plan of a fit.
        executed: The plan that a fit executed, from the fitted model.
        repeats: Whether a fit with the same seed gives the same model. Noise from the operating
            system does not repeat.
        few: Settings of the shortest training.
        seeded: Settings with which a seed decides every number, where it does not with the usual
            ones.
        unit: What the guarantee is about.
        counts: Whether a number of records can be declared.
        opens: Whether an infinite epsilon is taken.
        saved: The name of its file; None where it is not saved.
    """

    make: Callable[..., Any]
    settings: dict[str, Setting]
    data: tuple[Any, ...]
    hostile: tuple[tuple[Any, ...], ...]
    planned: Callable[[Any], Ledger]
    answers: Callable[[Any], Any]
    planner: str = "plan"
    executed: Callable[[Any], Any] = lambda model: model.plan
    repeats: bool = True
    few: dict[str, Any] = field(default_factory=dict)
    seeded: dict[str, Any] = field(default_factory=dict)
    unit: str = "row"
    counts: bool = True
    opens: bool = True
    saved: str | None = "model.veil"
    spent: Callable[[Any], Ledger] = lambda model: model.ledger
    fit: Callable[..., Any] = lambda estimator, *data, **run: estimator.fit(*data, **run)
    quiet: tuple[tuple[str, Any], ...] = (("progress", False),)

    def records(self, num: int) -> tuple[Any, ...]:
        """The first `num` records."""
        return tuple(part[:num] for part in self.data)

    def fitted(self, estimator: Any, *data: Any, **run: Any) -> Any:
        """A fit without a progress bar."""
        return self.fit(estimator, *data, **{**dict(self.quiet), **run})


def maker(kind: Any, **usual: Any) -> Callable[..., Any]:
    return lambda **changes: kind(**{**usual, **changes})


def sampled(model: Any) -> Any:
    return model.sample(5, seed=3), model.log_prob(ROWS)


DOMAIN = {
    "bounds": Setting(kinds.BOUNDS),
    "row_norm": Setting(kinds.POSITIVE, 2.0, {"bounds": None}),
}
USUAL = {"budget": Setting(kinds.OBJECT), "seed": Setting(kinds.SEED, 7)}
RECORDS = {"num_records": Setting(kinds.COUNT, 12)}
TRAINED = {"training": Setting(kinds.OBJECT)}
TRAINING = {
    "steps": Setting(kinds.COUNT_OR_ZERO, 2),
    "sampling_rate": Setting(kinds.RATE, 0.5),
    "clip_norm": Setting(kinds.NORM, 2.0),
    "learning_rate": Setting(kinds.POSITIVE, 0.25),
    "weight_decay": Setting(kinds.NONNEGATIVE, 0.5),
    "ema_decay": Setting(kinds.FRACTION, 0.5),
}
BAD_ROWS = (
    (np.where(ROWS > 0.5, CANARY, np.nan),),
    (np.array([[WORD, WORD]], object),),
    ([[CANARY], [CANARY, CANARY]],),
    (np.full((3, 2, 2), CANARY),),
    (pd.DataFrame({"a": [CANARY, None], "b": [WORD, WORD]}),),
)
