"""The plan of a density fit: releases by the rules of the planner, and choices of the user."""

from dataclasses import dataclass, replace
from typing import Any

from veilflow.engine.training import Training
from veilflow.models import planner
from veilflow.models.architecture import Architecture
from veilflow.models.domain import Box, Domain
from veilflow.models.row_density import RowPlan
from veilflow.privacy.budget import Budget
from veilflow.releases.actnorm import ActNorms
from veilflow.releases.columns import Columns
from veilflow.releases.count import Count
from veilflow.releases.grid import Grid
from veilflow.releases.plan import spending
from veilflow.releases.release import Release
from veilflow.releases.training import PrivateTraining
from veilflow.releases.whitening import Whitening


@dataclass(frozen=True, kw_only=True)
class DensityPlan(RowPlan):
    """The plan of a density fit.

    Attributes:
        start: What is released before training; one of `planner.STARTS`.
        dim: Number of columns.
        flow: What is trained; None where the start is all.
    """

    dim: int
    start: str
    flow: Architecture | None


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a user asked of a density fit."""

    base: str
    """"auto", "normal" or "mixture"."""
    start: str
    """"auto" or one of `planner.STARTS`."""
    num_components: int | None
    flow: Architecture | None
    training: Training
    count_clamped: bool


def plan_density(
    wish: Wish,
    *,
    dim: int,
    domain: Domain,
    budget: Budget,
    num_records: int | None,
    **declared: Any,
) -> DensityPlan:
    """The plan of a fit.

    Args:
        wish: Choices of the user.
        dim: Number of columns.
        domain: As declared.
        budget: Of the whole fit.
        num_records: If declared.
        declared: Other fields of the plan.

    Raises:
        BudgetError: The settings cost more than the budget.
        ValueError: A choice is of no use to this fit.
    """
    start = _start(wish, dim, domain)
    records = planner.ASSUMED_RECORDS if num_records is None else num_records
    training = _training(wish, start, num_records, budget)
    flow = wish.flow or (planner.PRIVATE_FLOW if budget.private else planner.OPEN_FLOW)
    if start == "actnorm":
        flow = replace(flow, actnorm=True)
    normals = planner.components(wish.base, start, wish.num_components, records, budget)
    _check_used(wish, dim, start, normals, training)

    releases: list[Release] = []
    if num_records is None:
        releases.append(Count.within(budget))
    if wish.count_clamped:
        releases.append(Count.within(budget, purpose=planner.CLAMPED, at_least=0))
    releases += _start_releases(start, dim, flow.blocks, domain, records, budget)
    if normals:  # behind the start columns have a deviation of about 1
        releases.append(planner.mixture(normals, dim, 1.0, budget))
    rest = len(releases) - 1 if start == "grid" else None
    if training.steps:
        if rest is not None and budget.private:
            releases[rest] = replace(releases[rest], epsilon=planner.GRID_SHARE * budget.epsilon)
        rest = len(releases)
        parameters = flow.num_parameters(dim)
        noise = float(budget.private)
        releases.append(
            PrivateTraining(settings=training, noise_multiplier=noise, num_parameters=parameters)
        )
    priced = tuple(releases)
    return DensityPlan(
        model="DensityFlow",
        domain=domain,
        budget=budget,
        releases=priced if rest is None else spending(budget, priced, rest),
        num_records=num_records,
        dim=dim,
        start=start,
        # ActNorms are inside the flow: it is kept even where nothing more is trained
        flow=flow if training.steps or start == "actnorm" else None,
        **declared,
    )


def _start(wish: Wish, dim: int, domain: Domain) -> str:
    box = isinstance(domain, Box)
    start = wish.start
    if start == "auto":
        grid = box and dim <= planner.GRID_DIM and wish.base != "normal"
        start = "grid" if grid else "columns" if box else "whitening"
    if start == "grid" and dim > planner.GRID_BITS:
        raise ValueError(
            f"a grid over {dim} columns would have more than 2^{planner.GRID_BITS} cells. "
            "Leave start out, or give another."
        )
    return start


def _training(wish: Wish, start: str, num_records: int | None, budget: Budget) -> Training:
    """All settings of the training."""
    rate = wish.training.rate(num_records)
    if rate is None:
        records = planner.ASSUMED_RECORDS if num_records is None else num_records
        batch = planner.batch(records, budget.epsilon)
        rate = planner.ASSUMED_RATE if num_records is None else min(1.0, batch / num_records)
    usual = dict(planner.PRIVATE if budget.private else planner.OPEN)
    if start == "grid":
        usual["steps"] = 0
    return wish.training.resolved(sampling_rate=rate, **usual)


def _check_used(wish: Wish, dim: int, start: str, normals: int, training: Training) -> None:
    """Raise where a setting was given that the fit would not look at."""
    if wish.num_components is not None and not normals:
        raise ValueError(
            f"num_components is for a base by private EM, which a fit of {dim} columns with "
            f"start={start!r} does not have here. Leave it out, or give base='mixture' and "
            "start='columns' or 'whitening'."
        )
    given = [name for name in wish.training.given if name != "steps"]
    if wish.flow is not None and start != "actnorm":
        given.append("flow")
    if given and not training.steps:
        why = "a grid is all of it" if start == "grid" else "steps=0"
        raise ValueError(
            f"{', '.join(sorted(given))}: for training, and a fit of {dim} columns with these settings "
            f"has none ({why}). Leave out what is for training, or give steps above 0 to train."
        )


def _start_releases(
    start: str, dim: int, blocks: int, domain: Domain, records: int, budget: Budget
) -> list[Release]:
    """What is released before a mixture and the training."""
    if start == "grid":
        bits = planner.grid_bits(dim, records, budget.epsilon)
        return [Grid(dim=dim, bits=bits, border=domain.border, epsilon=budget.epsilon)]
    marginals, rounds = planner.start_noise(start, blocks, records, budget)
    if start == "actnorm":
        return [ActNorms(dim=dim, noise_multipliers=rounds)]
    releases: list[Release] = []
    radius = domain.radius(dim)
    if start == "columns":
        columns = Columns(
            dim=dim, bits=planner.MARGINAL_BITS, border=domain.border, noise_multiplier=marginals
        )
        releases.append(columns)
        radius = planner.NORMAL_REACH * dim**0.5
    if start in ("columns", "whitening"):
        releases.append(Whitening(dim=dim, radius=radius, noise_multipliers=rounds))
    return releases
