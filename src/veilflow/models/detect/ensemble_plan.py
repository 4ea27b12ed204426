"""The plan of an ensemble: how parts learn, when they call a row normal, and what answers cost."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow._core import check
from veilflow.engine.training import Training
from veilflow.models.architecture import Architecture, nsf
from veilflow.models.domain import Ball, Domain
from veilflow.privacy.budget import Budget
from veilflow.releases.answers import Answers
from veilflow.releases.part_densities import PartDensities, PartModels
from veilflow.releases.part_flows import PartFlows
from veilflow.releases.part_mixtures import PartMixtures
from veilflow.releases.plan import FitPlan, spending

DENSITIES = ("flow", "mixture")

_FLOW = nsf(blocks=3, hidden=(64,))
_TRAINING = {"steps": 1000, "batch_size": 128, "learning_rate": 3e-3}
"""What a part's flow is trained by: Adam without noise has no other settings."""


@dataclass(frozen=True, kw_only=True)
class EnsemblePlan(FitPlan):
    """The plan of an ensemble.

    Attributes:
        dim: Number of columns.
        domain: The declared bounds.
        threshold: The public log-density above which a part calls a row normal.
        flow: What each part trains; None for mixtures.
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
            raise ValueError("a plan has a flow where parts learn flows, and none elsewhere.")

    @property
    def answers(self) -> Answers:
        """The one release."""
        return self.release(Answers)

    @property
    def num_numbers(self) -> int:
        """Numbers of all parts, at least."""
        return self.answers.parts * self.answers.settings.num_numbers(self.dim, flow=self.flow)

    def untrained(self) -> PartDensities:
        """The densities of all parts with shapes in the places of arrays."""
        answers = self.answers
        return eqx.filter_eval_shape(
            lambda: answers.settings.untrained(self.dim, answers.parts, flow=self.flow)
        )

    def trained(self, arrays: list[np.ndarray]) -> PartDensities:
        """The densities with the arrays that a run gave."""
        leaves, tree = jax.tree.flatten(self.untrained())
        if [x.shape for x in leaves] != [x.shape for x in arrays]:
            raise ValueError("the arrays are those of another ensemble.")
        return jax.tree.unflatten(tree, [jnp.asarray(array) for array in arrays])


def plan_ensemble(
    *,
    method: str,
    parts: int,
    limit: int,
    quorum: float,
    renew: bool,
    settings: PartModels,
    flow: Architecture | None,
    budget: Budget,
    **declared: Any,
) -> EnsemblePlan:
    """The plan of a fit.

    Args:
        method: Of answering.
        parts: How many.
        limit: Queries, or anomalies, that are paid for.
        quorum: Of sparse vector.
        renew: Of sparse vector: whether each anomaly is a search of its own.
        settings: How parts learn.
        flow: What parts train, if they do.
        budget: Of all answers.
        declared: Other fields of the plan.

    Raises:
        BudgetError: No noise is enough for the budget.
    """
    price: dict[str, Any] = {"epsilon": 1.0}  # for now; `spending` settles it
    if method == "noisy_max":
        price = {"noise_multiplier": 1.0}
    answers = Answers(
        method=method,
        parts=parts,
        limit=limit if renew else 1,
        anomalies=1 if renew else limit,
        quorum=quorum,
        settings=settings,
        **price,
    )
    return EnsemblePlan(
        model="EnsembleDetector",
        budget=budget,
        releases=spending(budget, (answers,)),
        flow=flow,
        **declared,
    )


def part_models(
    density: str, *, training: Training, flow: Architecture | None, num_components: int
) -> tuple[PartModels, Architecture | None]:
    """How parts learn, and what flow.

    Raises:
        ValueError: A setting is of no use to these densities.
    """
    used = set(_TRAINING) if density == "flow" else set()
    unused = [f"training ({name})" for name in training.given if name not in used]
    if density != "flow" and flow is not None:
        unused.append("flow")
    if unused:
        raise ValueError(
            f"{', '.join(unused)}: parts of density={density!r} do not look at it. Parts are trained "
            f"without noise; flows take {', '.join(_TRAINING)}. Leave it out."
        )
    if density == "mixture":
        return PartMixtures(num_components=num_components), None
    chosen = {name: getattr(training, name) for name in training.given}
    return PartFlows(**{**_TRAINING, **chosen}), flow or _FLOW


def paid_for(method: str, *, max_queries: int | None, max_anomalies: int | None) -> int:
    """Queries, or anomalies, that the budget is shared by.

    Raises:
        ValueError: The number that the method needs is missing, or the other one is given.
    """
    (name, most), (other, unused) = ("max_queries", max_queries), ("max_anomalies", max_anomalies)
    why = "every answer costs the same"
    if method == "sparse_vector":
        (name, most), (other, unused) = (other, unused), (name, most)
        why = "it answers any number of queries"
    if unused is not None:
        raise ValueError(f"{other} must be left out with method={method!r}: {why}.")
    if most is None:
        raise ValueError(f"method={method!r} needs {name}: the budget is shared by these.")
    return most


def uniform_log_density(domain: Domain, dim: int) -> float:
    """The log-density of rows spread evenly over a domain: a public number."""
    if isinstance(domain, Ball):
        log_unit_ball = dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1)
        return -(log_unit_ball + dim * math.log(domain.row_norm))
    return -(domain.log_scale(dim) + dim * math.log(2 * domain.border))
