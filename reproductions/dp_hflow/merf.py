"""DP-MERF: one noisy mean of random features, and a generator that is trained to have the same mean.

The baseline of the paper's tables, made sound: numbers are scaled by declared bounds and the kernel's
length follows from the number of columns, where the authors' code reads both from the records.

References:
    Harder, Adamczewski, Park, "DP-MERF: differentially private mean embeddings with random features for
    practical privacy-preserving data generation", 2021.
"""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float

import veilflow as vf
from reproductions.dp_hflow import coded, merf_generator
from reproductions.dp_hflow.merf_features import Features
from veilflow.engine import Secret
from veilflow.privacy import calibration
from veilflow.privacy.events import ApproximateDP, Gaussian
from veilflow.privacy.grid_noise import closeness
from veilflow.privacy.guarantees import ClippedSum, Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once

_CHUNK = 4096
"""Rows whose features are in memory at once."""
_BELOW_ONE = 1 - 1e-9
"""Features are shortened by this factor: rounding must not make a row longer than the sensitivity."""
_LEAST_SHARE = 1e-4
"""Of a class, before shares sum to 1: noise may leave a class without any."""


@dataclass(frozen=True, kw_only=True)
class Merf:
    """DP-MERF of a table without open columns, to be fitted privately.

    Guarantee:
        One Gaussian mechanism for add/remove of one row. The features of a row are a constant, cosines
        and sines of its numbers, and indicators of its values, weighted so that they have length 1
        together (`Features`). They stand in the column of the row's class, and other columns do not
        change. So one row changes the whole sum, counts of classes included, by a vector of length at
        most 1. The generator sees the noisy sum, and no record.

    Args:
        schema: The declared columns; the label, if there is one, sets the classes.
        budget: The privacy budget, all of which the one release takes.
        num_records: The number of records, declared public.
        frequencies: Random frequencies, each of which gives a cosine and a sine.
        steps: Steps of the generator, which reads released numbers alone.
        seed: The seed of a repeatable fit.
    """

    schema: vf.Schema
    budget: vf.Budget
    num_records: int
    frequencies: int = 1000
    steps: int = 3000
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        coded.check(self.schema)

    @property
    def features(self) -> Features:
        """The features of a row: public, from the schema and a fixed seed."""
        return Features.create(self.schema, frequencies=self.frequencies)

    @property
    def noise_multiplier(self) -> float:
        """Noise over sensitivity, as little as the budget allows; 0 without privacy."""
        if self.budget.epsilon == math.inf:
            return 0.0
        guess = 1 / calibration.gaussian_mu(self.budget)
        return calibration.calibrate(
            Gaussian,
            self.budget,
            bracket=(0.5 * guess, 2 * guess),
            increasing=False,
            ledger=self._slack(),
            guess=guess,
            what="noise_multiplier",
        )

    def fit(self, rows: pd.DataFrame, *, progress: bool = True) -> "FittedMerf":
        """Release the sum of the features of all rows, and train a generator on it."""
        features, secret = self.features, Secret.from_seed(self.seed)
        noise = self.noise_multiplier
        released = gaussian_once(
            ClippedSum(_BELOW_ONE * embedding(rows, features), 1.0),
            noise_multiplier=noise,
            secret=secret,
            purpose="embedding",
        )
        ledger = self._slack().spend(released.event, purpose="mean embedding")
        noisy = released.value
        shares = np.maximum(noisy[0] / features.weight_of_one / self.num_records, _LEAST_SHARE)
        shares = shares / shares.sum()
        generator = merf_generator.trained(
            features, noisy / self.num_records, shares, secret.key("generator"), self.steps
        )
        return FittedMerf(self, ledger, noise, features, shares, generator)

    def _slack(self) -> Ledger:
        """The ledger before the release: what it costs that noise on a grid is not quite Gaussian."""
        if self.budget.epsilon == math.inf:
            return Ledger()
        draws = closeness(self.features.size * self.features.num_classes)
        purpose = "distance of grid noise from Gaussian"
        return Ledger().spend(ApproximateDP(0.0, draws), purpose=purpose)


def embedding(rows: pd.DataFrame, features: Features) -> Float[np.ndarray, "features classes"]:
    """The sum over rows of their features, each row in the column of its class."""
    total = np.zeros((features.size, features.num_classes))
    for first in range(0, len(rows), _CHUNK):
        part = rows.iloc[first : first + _CHUNK]
        total += features.sum_by_class(coded.coded(part, features.schema))
    return total


@dataclass(frozen=True, repr=False)
class FittedMerf:
    """A generator of rows. It has no density."""

    settings: Merf
    ledger: Ledger
    noise_multiplier: float
    features: Features
    of_classes: Float[np.ndarray, " classes"]
    generator: Any

    @property
    def guarantee(self) -> Guarantee:
        """What the ledger sums up to."""
        return self.ledger.guarantee(delta=self.settings.budget.delta)

    def to_artifact(self) -> SimpleNamespace:
        """The settings, as runs keep them of every model."""
        plan = {
            "frequencies": self.settings.frequencies,
            "steps": self.settings.steps,
            "noise_multiplier": self.noise_multiplier,
        }
        return SimpleNamespace(manifest={"plan": plan})

    def sample(self, num_rows: int, *, seed: int | None = None) -> pd.DataFrame:
        """Draw rows: a class, then what the generator makes of it and of noise."""
        key, rng = jax.random.key(0 if seed is None else seed), np.random.default_rng(seed)
        classes = rng.choice(len(self.of_classes), size=num_rows, p=self.of_classes)
        parts = []
        for first in range(0, num_rows, _CHUNK):
            labels = classes[first : first + _CHUNK]
            numbers, listed = merf_generator.outputs(self.generator, labels, key, first)
            parts.append(self.features.rows(numbers, listed, labels, rng))
        whole = coded.Coded(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        return coded.frame_of(whole, self.settings.schema)
