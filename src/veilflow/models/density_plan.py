"""The plan of a density fit: its releases and their prices, from public facts alone.

The planner sees the number of columns, the kind of declared domain, the number of records if declared,
and the budget. Its rules were fitted on generated data (docs/developer/planner.md has the numbers); no
rule has seen a data set of the reproductions.

- A box of up to three columns: one noisy grid takes the whole budget. Private training on top of it
  made every generated set worse.
- A box of more columns: their marginals, then a mixture and its shape. A ball, whose columns have no
  scale of their own: a mixture and its shape. EM begins with the moments of all records, so it needs
  no whitening before it; a flow over a normal base does.
- In more than three dimensions the base is a mixture of normals by private EM, and the flow is the
  shape that all its components have in common. The mixture says where the records are and takes most
  of the budget; the shape says what a normal gets wrong there, in few parameters, for a small share.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from veilflow.engine.training import Training
from veilflow.models.architecture import Architecture
from veilflow.models.base_mixture import BaseMixture
from veilflow.models.density_base import NORMAL, SIMPLE
from veilflow.models.density_training import (
    ASSUMED_RECORDS,
    default_flow,
    planned_training,
    shape_noise,
)
from veilflow.models.domain import Box, Domain
from veilflow.models.record_count import declared, exactly, roughly
from veilflow.models.rehearsed_mixture import rehearsal
from veilflow.models.rows import RowPlan
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.releases.actnorm import ActNorms
from veilflow.releases.columns import Columns
from veilflow.releases.count import Count
from veilflow.releases.grid import Grid
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import spending
from veilflow.releases.release import Release
from veilflow.releases.training import PrivateTraining
from veilflow.releases.whitening import Whitening

if TYPE_CHECKING:
    from veilflow.models.density import DensityFlow

STARTS = ("grid", "columns", "whitening", "actnorm", "none")
"""What can be released before training."""
CLAMPED = "number of rows outside the bounds"
"""The purpose of that count."""

_GRID_DIM = 3
"""Columns of a box up to which a grid is the default."""
_GRID_CELLS = 3.0
"""Cells of a grid, over records times epsilon."""
_GRID_BITS = 20
"""A grid has about 2^20 cells at most: one bit more where the axes do not share them evenly."""
_GRID_SHARE = 0.8
"""Share of epsilon that a grid takes where private training follows it."""
_START_SHARE = (0.1, 0.3)
"""Smallest and largest share of the squared privacy parameter that a start takes."""
_ENOUGH = 3000.0
"""Records times mu from which on the smallest share suffices."""
_MARGINALS = 0.5
"""Share of a start that the marginals take where rounds of whitening follow."""
_MARGINAL_BITS = 9
"""Histograms of columns have 2^9 cells."""
_WHITENING = (0.2, 0.3, 0.5)
"""How the rounds of whitening divide their share."""
_NORMAL_REACH = 2.0
"""Radius over sqrt(dim) in the first round of whitening, where columns are about normal already."""
_MOST_COMPONENTS = 100
_RECORDS_PER_COMPONENT = 150.0
"""Records times mu that each component of a mixture by EM needs."""
_EM_STEPS = 24


@dataclass(frozen=True, kw_only=True)
class DensityPlan(RowPlan):
    """The plan of a density fit.

    Attributes:
        dim: The number of columns.
        start: What is released before training; one of `STARTS`.
        flow: The flow to train; None where the start is the whole model.
        base: The digest of the mixture that was given as base, or "logistic" or "student"; None
            otherwise. A checkpoint belongs to it.
    """

    dim: int
    start: str
    flow: Architecture | None
    base: str | None = None


def plan_density(settings: "DensityFlow", dim: int) -> DensityPlan:
    """The plan of a fit with these settings to rows of `dim` columns.

    Raises:
        BudgetError: The settings cost more than the budget.
        ValueError: A setting has no effect on this fit.
    """
    budget, domain, num_records = settings.budget, settings.domain, exactly(settings.num_records)
    start = _start(settings, dim)
    records = roughly(settings.num_records) or ASSUMED_RECORDS
    mixes, given = _mixes(settings, start), _given(settings, dim)
    shapes = mixes or given is not None
    training = planned_training(settings, start, dim, shapes=shapes)
    flow = settings.flow or default_flow(budget, shapes=shapes)
    if start == "actnorm":
        flow = replace(flow, actnorm=True)
    _check_used(settings, dim, start, training, mixes=mixes)

    releases: list[Release] = []
    if num_records is None:
        releases.append(Count.within(budget))
    if settings.count_clamped:
        releases.append(Count.within(budget, purpose=CLAMPED, at_least=0))
    whitens = start == "whitening" or not mixes
    releases += _start_releases(start, dim, flow.blocks, domain, records, budget, whitens=whitens)
    if mixes:
        releases.append(_mixture(settings, start, dim))
    # a mixture takes what the others leave, and so does a grid without training
    rest = len(releases) - 1 if start == "grid" or mixes else None
    if mixes and budget.private and settings.rehearse:
        releases.append(rehearsal())
    if training.steps:
        if start == "grid" and budget.private:
            releases[-1] = replace(releases[-1], epsilon=_GRID_SHARE * budget.epsilon)
        if not mixes:
            rest = len(releases)
        releases.append(
            PrivateTraining(
                settings=training,
                noise_multiplier=(
                    shape_noise(training, budget) if mixes else float(budget.private)
                ),
                num_parameters=flow.num_parameters(dim),
            )
        )
    priced = tuple(releases)
    facts = (*settings.declared, *declared(settings.num_records))
    return DensityPlan(
        model="DensityFlow",
        budget=budget,
        releases=priced if rest is None else spending(budget, priced, rest),
        declared=facts if given is None else (*facts, *given.declared),
        conditions=() if given is None else given.conditions,
        num_records=num_records,
        seeded=settings.seed is not None,
        domain=domain,
        dim=dim,
        start=start,
        # ActNorms are part of the flow: it is kept even where it is not trained
        flow=flow if training.steps or start == "actnorm" else None,
        base=_known_base(settings),
    )


def _given(settings: "DensityFlow", dim: int) -> BaseMixture | None:
    """The mixture that was given as base, if one was."""
    if isinstance(settings.base, BaseMixture):
        settings.base.check_dim(dim)
        return settings.base
    return None


def _known_base(settings: "DensityFlow") -> str | None:
    """What tells a base that is known before the fit from a standard normal."""
    base = settings.base
    if isinstance(base, BaseMixture):
        return base.digest
    return base if isinstance(base, str) and base in SIMPLE and base != NORMAL else None


def _start(settings: "DensityFlow", dim: int) -> str:
    """What is released before training."""
    box, start = isinstance(settings.domain, Box), settings.start
    if isinstance(settings.base, BaseMixture):
        return "none"  # the mixture is where the rows are
    if start == "auto":
        grid = box and dim <= _GRID_DIM and settings.base not in SIMPLE
        start = "grid" if grid else "columns" if box else "whitening"
        if start == "whitening" and _mixes(settings, start):
            start = "none"
    if start == "grid" and dim > _GRID_BITS:
        raise ValueError(
            f"a grid over {dim} columns would have more than 2^{_GRID_BITS} cells. "
            "Leave start out, or give another."
        )
    return start


def _mixes(settings: "DensityFlow", start: str) -> bool:
    """Whether the base is a mixture by EM."""
    if start == "grid":
        return False
    if settings.base != "auto":
        return settings.base == "mixture"
    # ActNorms lead to a normal base, and nobody is asked for a mixture who wants no start
    return settings.budget.private and start != "actnorm" and settings.start != "none"


def _records_per_component(budget: Budget) -> float:
    return _RECORDS_PER_COMPONENT / calibration.gaussian_mu(budget)


def _check_used(
    settings: "DensityFlow", dim: int, start: str, training: Training, *, mixes: bool
) -> None:
    """Raise for a setting that was given and has no effect on the fit."""
    if settings.num_components is not None and not mixes:
        raise ValueError(
            f"num_components is for a base by private EM, which a fit of {dim} columns with "
            f"start={start!r} does not have here. Leave it out, or give base='mixture' and "
            "start='columns' or 'whitening'."
        )
    unused = [name for name in settings.training.given if name != "steps"]
    if settings.flow is not None and start != "actnorm":
        unused.append("flow")
    if unused and not training.steps:
        reason = "the grid is the whole model" if start == "grid" else "steps=0"
        raise ValueError(
            f"{', '.join(sorted(unused))}: only for training, and a fit of {dim} columns with these "
            f"settings has none ({reason}). Leave them out, or give steps above 0 to train."
        )


def _start_releases(
    start: str,
    dim: int,
    blocks: int,
    domain: Domain,
    records: int,
    budget: Budget,
    *,
    whitens: bool,
) -> list[Release]:
    """What is released before a mixture and the training."""
    if start == "grid":
        bits = _grid_bits(dim, records, budget.epsilon)
        return [Grid(dim=dim, bits=bits, border=domain.border, epsilon=budget.epsilon)]
    marginals, rounds = _start_noise(start, blocks, records, budget)
    if start == "actnorm":
        return [ActNorms(dim=dim, noise_multipliers=rounds)]
    if start == "whitening":
        return [Whitening(dim=dim, radius=domain.radius(dim), noise_multipliers=rounds)]
    if start == "columns":
        columns = Columns(
            dim=dim, bits=_MARGINAL_BITS, border=domain.border, noise_multiplier=marginals
        )
        radius = _NORMAL_REACH * dim**0.5
        whitening = Whitening(dim=dim, radius=radius, noise_multipliers=rounds)
        return [columns, whitening] if whitens else [columns]
    return []


def _grid_bits(dim: int, num_records: int, epsilon: float) -> int:
    """Bits of resolution along each axis."""
    cells = max(_GRID_CELLS * num_records * min(epsilon, 10.0), 2.0)
    bits = round(min(math.log2(cells), _GRID_BITS) / dim)
    return max(1, min(bits, (_GRID_BITS + 1) // dim))


def _start_noise(
    start: str, blocks: int, num_records: int, budget: Budget
) -> tuple[float, tuple[float, ...]]:
    """Noise multipliers of the marginals and of the rounds, from their share of the squared mu."""
    rounds = _WHITENING if start in ("whitening", "columns") else ()
    if start == "actnorm":
        rounds = (1 / blocks,) * blocks  # an equal share for each block
    if not budget.private:
        return 0.0, (0.0,) * len(rounds)
    mu = calibration.gaussian_mu(budget)
    least, most = _START_SHARE
    share = min(most, least * max(1.0, _ENOUGH / (num_records * mu)) ** 0.5)
    marginals = _MARGINALS if start == "columns" else 0.0
    noise = tuple(1 / (mu * (share * (1 - marginals) * part) ** 0.5) for part in rounds)
    return 1 / (mu * (share * (marginals or 1.0)) ** 0.5), noise


def _mixture(settings: "DensityFlow", start: str, dim: int) -> ExpectationMaximization:
    """EM, whose noise is calibrated in the end."""
    budget, num_records = settings.budget, exactly(settings.num_records)
    release = ExpectationMaximization(
        dim=dim,
        num_components=settings.num_components or _MOST_COMPONENTS,
        steps=_EM_STEPS,
        # behind maps columns have a deviation of about 1; before them, that of the whole domain
        spread=settings.domain.spread(dim) if start == "none" else 1.0,
        noise_multiplier=float(budget.private),
    )
    if settings.num_components is not None or not budget.private:
        return release
    release = replace(release, records_per_component=_records_per_component(budget))
    if num_records is None:
        return release  # it follows from the number that is paid for
    components = release.components(num_records)
    return replace(release, num_components=components, records_per_component=None)
