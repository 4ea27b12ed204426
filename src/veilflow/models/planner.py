"""The planner: every setting of a density fit from public facts alone.

It sees the number of columns, the kind of declared domain, the number of records if declared, and
the budget. Its rules were fitted on generated data (docs/developer/planner.md tells which, with the
numbers); no rule has seen a data set of the reproductions.

- A box of up to three columns: one noisy grid takes the whole budget. Private training on top of it
  was tried and made every generated set worse.
- More columns of a box: their marginals, then rounds of whitening, then a flow.
- A ball, whose columns have no scale of their own: rounds of whitening, then a flow.
- In more than three dimensions the base is a mixture of a few normals by private EM. It gained a nat
  or more where rows come in clusters, and lost up to 0.4 on one set without any.
- The flow: noise decides, not the batch. With add/remove, Poisson and PLD the noise of a whole run is
  within 4 % of its limit from 1,024 records a step and 2,000 steps on. Gradients are longer than any
  sensible clip throughout, so only their direction counts and a clip of 1 is as good as another.
  A learning rate of 0.008 with a weight decay of 0.1 was best or close to it for 3,000 to 90,000
  records and epsilon 0.5 to 4. Without decay the noise walks weights away that no record needs.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from veilflow.models.architecture import Architecture, maf
from veilflow.models.start.mixture import noise_multipliers
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget

_GRID_DIM = 3
_GRID_CELLS = 3.0
"""Cells of a grid, over records times epsilon."""
_GRID_BITS = 20
"""About 2^20 cells at most: one bit more where the axes do not share them evenly."""
_START_SHARE = (0.1, 0.3)
"""Least and most of the squared privacy parameter that a start takes."""
_ENOUGH = 3000.0
"""Records times mu from which the least share will do."""
_WHITENING = (0.2, 0.3, 0.5)
"""How rounds of whitening share what they have."""
_MARGINALS = 0.5
"""What marginals take where there are both."""
_MIXTURE_SHARE = 0.5
"""What a mixture by EM takes of the squared privacy parameter."""
_COMPONENTS = (2, 20)
_RECORDS_PER_COMPONENT = 300.0
"""Records times mu that each component of a mixture by EM needs."""
_EM_STEPS = 24
_ASSUMED_RECORDS = 10_000
"""For rules of thumb where the number is not declared."""
_ASSUMED_RATE = 0.02
"""Sampling rate where the number of records is not declared."""
_BATCH = (1024, 4096)
_OPEN_BATCH = 512

MARGINAL_BITS = 9
"""Histograms of columns have 2^9 cells."""

STARTS = ("grid", "columns", "whitening", "actnorm", "none")
"""What can be released before training: see `models/start`."""

_PRIVATE: dict[str, Any] = {
    "architecture": maf(),
    "steps": 2000,
    "clip_norm": 1.0,
    "learning_rate": 8e-3,
    "weight_decay": 0.1,
}
_OPEN: dict[str, Any] = {  # without noise a larger network and many small steps pay
    "architecture": maf(hidden=(256, 256)),
    "steps": 10_000,
    "clip_norm": 1e3,
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a fit will do. Public numbers only."""

    start: str
    """One of `STARTS`."""
    grid_bits: int
    marginal_noise: float
    """Noise multiplier of the marginals; 0 only for a fit without privacy."""
    whitening_noise: tuple[float, ...]
    """Noise multiplier of each round of moments."""
    components: int
    """Normals in a base released by private EM; 0 for another base."""
    mixture_noise: tuple[float, ...]
    """Noise multiplier of each step of EM."""
    architecture: Architecture
    steps: int
    """Steps of private training; 0 where the start is all."""
    sampling_rate: float
    clip_norm: float
    learning_rate: float
    weight_decay: float

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain JSON values."""
        plain = {**asdict(self), "architecture": self.architecture.to_json()}
        return {name: list(x) if isinstance(x, tuple) else x for name, x in plain.items()}


def plan(
    *,
    dim: int,
    box: bool,
    num_records: int | None,
    budget: Budget,
    base: str,
    start: str,
    num_components: int | None,
    sampling_rate: float | None,
    chosen: dict[str, Any],
) -> Recipe:
    """The recipe for a fit.

    Args:
        dim: Number of columns.
        box: Whether the domain is a box; else it is a ball.
        num_records: If declared.
        budget: Of the whole fit.
        base: "auto", "normal" or "mixture".
        start: "auto" or one of `STARTS`.
        num_components: Of a mixture by EM, if the user gave it.
        sampling_rate: If the user gave one, or a batch size to make it from.
        chosen: Other settings the user gave; None stands for no choice.
    """
    if start == "auto":
        grid = box and dim <= _GRID_DIM and base != "normal"
        start = "grid" if grid else "columns" if box else "whitening"
    if start == "grid" and dim > _GRID_BITS:
        raise ValueError(
            f"a grid over {dim} columns would have more than 2^{_GRID_BITS} cells. "
            "Leave start out, or give another."
        )
    records = _ASSUMED_RECORDS if num_records is None else num_records
    if sampling_rate is None:
        batch = _batch(records, budget.epsilon)
        sampling_rate = _ASSUMED_RATE if num_records is None else min(1.0, batch / num_records)
    settings = dict(_PRIVATE if budget.private else _OPEN)
    if start == "grid":
        settings["steps"] = 0
    settings.update({name: value for name, value in chosen.items() if value is not None})
    if start == "actnorm":
        settings["architecture"] = replace(settings["architecture"], actnorm=True)
    blocks = settings["architecture"].blocks
    if base == "auto":  # ActNorms lead to a normal base, and "none" means that nothing is released
        base = "mixture" if budget.private and start in ("columns", "whitening") else "normal"
    by_em = base == "mixture" and start != "grid"
    components = (num_components or _components(records, budget)) if by_em else 0
    marginal_noise, whitening_noise = _start_noise(start, blocks, records, budget)
    return Recipe(
        start=start,
        grid_bits=_grid_bits(dim, records, budget.epsilon),
        marginal_noise=marginal_noise,
        whitening_noise=whitening_noise,
        sampling_rate=sampling_rate,
        components=components,
        mixture_noise=_mixture_noise(components, budget),
        **settings,
    )


def _components(num_records: int, budget: Budget) -> int:
    """Normals in a mixture by EM."""
    least, most = _COMPONENTS
    if not budget.private:
        return most
    enough = num_records * calibration.gaussian_mu(budget) / _RECORDS_PER_COMPONENT
    return round(min(max(enough, least), most))


def _mixture_noise(components: int, budget: Budget) -> tuple[float, ...]:
    """Noise of each step of EM, for its share of the squared mu."""
    if not components:
        return ()
    if not budget.private:
        return (0.0,) * _EM_STEPS
    mu = calibration.gaussian_mu(budget)
    return noise_multipliers((_EM_STEPS / _MIXTURE_SHARE) ** 0.5 / mu, components, _EM_STEPS)


def _batch(num_records: int, epsilon: float) -> float:
    """Expected records in a step."""
    if epsilon == math.inf:
        return _OPEN_BATCH
    least = min(_BATCH[0], max(64, num_records // 4))
    return max(least, min(_BATCH[1], num_records * epsilon / 100))


def _grid_bits(dim: int, num_records: int, epsilon: float) -> int:
    """Bits of resolution along each axis."""
    cells = max(_GRID_CELLS * num_records * min(epsilon, 10.0), 2.0)
    bits = round(min(math.log2(cells), _GRID_BITS) / dim)
    return max(1, min(bits, (_GRID_BITS + 1) // dim))


def _start_noise(
    start: str, blocks: int, num_records: int, budget: Budget
) -> tuple[float, tuple[float, ...]]:
    """Noise of the marginals and of the rounds of moments: their share of the squared mu."""
    rounds = _WHITENING if start in ("whitening", "columns") else ()
    if start == "actnorm":
        rounds = (1 / blocks,) * blocks  # one for each block, all alike
    if not budget.private:
        return 0.0, (0.0,) * len(rounds)
    mu = calibration.gaussian_mu(budget)
    least, most = _START_SHARE
    share = min(most, least * max(1.0, _ENOUGH / (num_records * mu)) ** 0.5)
    marginals = _MARGINALS if start == "columns" else 0.0
    noise = tuple(1 / (mu * (share * (1 - marginals) * part) ** 0.5) for part in rounds)
    return 1 / (mu * (share * (marginals or 1.0)) ** 0.5), noise
