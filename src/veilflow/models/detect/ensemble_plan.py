"""The plan of an ensemble: how answers are given, what parts learn, and what all answers cost."""

import math
import os
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow._core import check, fields
from veilflow.engine.training import Training
from veilflow.models.architecture import Architecture, nsf
from veilflow.models.domain import Ball, Domain
from veilflow.releases.answers import METHODS, Answers
from veilflow.releases.part_densities import PartDensities, PartModels
from veilflow.releases.part_flows import PartFlows
from veilflow.releases.part_mixtures import PartMixtures
from veilflow.releases.plan import FitPlan

MIXTURE = "mixture"
_SPARSE = "sparse_vector"
_FLOW = nsf(blocks=3, hidden=(64,))
_COMPONENTS = 8
_TRAINING = {"steps": 1000, "batch_size": 128, "learning_rate": 3e-3}
"""Defaults of a part's training: Adam without noise has no other settings."""


@dataclass(frozen=True, kw_only=True)
class Answering:
    """How an ensemble answers, and how many answers its budget pays for.

    - "exponential" is Algorithm 2 of DP-NF: "normal" with probability sigmoid(epsilon (2c - k) / 2)
      where c of k parts call the row normal. For few queries.
    - "sparse_vector" pays for anomalies only, however many rows are asked about. For streams with few
      anomalies, and many parts: its noise is on counts of votes.
    - "noisy_max" adds Gaussian noise to the votes. Needs a delta; for many queries.

    Args:
        method: "exponential", "sparse_vector" or "noisy_max".
        max_queries: The number of answers that share the budget; not for "sparse_vector", which has
            no limit on them.
        max_anomalies: For "sparse_vector": the number of answers "anomaly" that share the budget.
        quorum: For "sparse_vector": the share of parts that must vote against a row. Above a half
            there are fewer false alarms in a long stream.
        renew: For "sparse_vector": draw a new noisy threshold after each anomaly. A crash, or the end
            of the process, then costs one anomaly. Without, all share one threshold: less noise where
            delta is 0 or epsilon large, but the stream ends with its process.
        journal: A file that `fit` creates, in which queries are written down as spent before they are
            answered. Without one the ensemble lives in this process only and cannot be saved.
    """

    method: str = "exponential"
    max_queries: int | None = None
    max_anomalies: int | None = None
    quorum: float = 0.5
    renew: bool = True
    journal: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        fields.convert(
            self,
            method=fields.word(*METHODS),
            max_queries=fields.optional(fields.count()),
            max_anomalies=fields.optional(fields.count()),
            quorum=fields.fraction,
            renew=fields.flag,
            journal=fields.optional(fields.path),
        )
        needed, unused, why = "max_queries", "max_anomalies", "every answer costs the same"
        if self.method == _SPARSE:
            needed, unused, why = unused, needed, "it answers any number of queries"
        if getattr(self, unused) is not None:
            raise ValueError(f"{unused} must be left out with method={self.method!r}: {why}.")
        if getattr(self, needed) is None:
            raise ValueError(f"method={self.method!r} needs {needed}, which share the budget.")
        if self.quorum != 0.5 and self.method != _SPARSE:
            raise ValueError(f"quorum is for sparse_vector; {self.method} asks for the majority.")
        if not self.renew and self.method != _SPARSE:
            raise ValueError(f"renew is for sparse_vector; {self.method} has no noisy threshold.")

    def release(self, parts: int, settings: PartModels) -> Answers:
        """All answers as a release, at a placeholder price that `spending` replaces."""
        limit = self.max_anomalies if self.method == _SPARSE else self.max_queries
        assert limit is not None
        price: Any = {"noise_multiplier" if self.method == "noisy_max" else "epsilon": 1.0}
        return Answers(
            method=self.method,
            parts=parts,
            limit=limit if self.renew else 1,
            anomalies=1 if self.renew else limit,
            quorum=self.quorum,
            settings=settings,
            **price,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class EnsemblePlan(FitPlan):
    """The plan of an ensemble.

    Attributes:
        dim: Number of columns.
        domain: The declared bounds.
        threshold: The public log-density above which a part calls a row normal.
        flow: The flow that each part trains; None for mixtures.
    """

    dim: int
    domain: Domain
    threshold: float
    flow: Architecture | None

    def __post_init__(self) -> None:
        check.count(dim=self.dim)
        check.finite(threshold=self.threshold)
        self.domain.check_dim(self.dim)
        if (self.flow is None) == isinstance(self.answers.settings, PartFlows):
            raise ValueError("the plan must have a flow exactly where parts learn flows.")

    @property
    def answers(self) -> Answers:
        """The one release."""
        return self.release(Answers)

    @property
    def num_numbers(self) -> int:
        """A lower bound on the number of numbers of all parts."""
        return self.answers.parts * self.answers.settings.num_numbers(self.dim, flow=self.flow)

    def untrained(self) -> PartDensities:
        """The densities of all parts, with shapes in place of arrays."""
        answers = self.answers
        return eqx.filter_eval_shape(
            lambda: answers.settings.untrained(self.dim, answers.parts, flow=self.flow)
        )

    def trained(self, arrays: list[np.ndarray]) -> PartDensities:
        """The densities with the arrays of a run."""
        leaves, tree = jax.tree.flatten(self.untrained())
        if [x.shape for x in leaves] != [x.shape for x in arrays]:
            raise ValueError("the arrays belong to another ensemble.")
        return jax.tree.unflatten(tree, [jnp.asarray(array) for array in arrays])


def part_models(
    flow: Architecture | str | None, *, training: Training, num_components: int | None
) -> tuple[PartModels, Architecture | None]:
    """How parts learn, and the flow that they train, if any.

    Raises:
        ValueError: The parts have no use for a setting.
    """
    unused = [name for name in training.given if flow == MIXTURE or name not in _TRAINING]
    if unused:
        raise ValueError(
            f"training ({', '.join(unused)}) is not used: parts are trained without noise. Flows take "
            f"{', '.join(_TRAINING)}, and mixtures no setting of a training. Leave it out."
        )
    if isinstance(flow, str):
        return PartMixtures(num_components=num_components or _COMPONENTS), None
    if num_components is not None:
        raise ValueError("num_components is for parts that learn a mixture. Leave it out.")
    chosen = {name: getattr(training, name) for name in training.given}
    return PartFlows(**{**_TRAINING, **chosen}), flow or _FLOW


def uniform_log_density(domain: Domain, dim: int) -> float:
    """The log-density of the uniform distribution over a domain: a public number."""
    if isinstance(domain, Ball):
        log_unit_ball = dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1)
        return -(log_unit_ball + dim * math.log(domain.row_norm))
    return -(domain.log_scale(dim) + dim * math.log(2 * domain.border))
