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
from typing import Any

from veilflow.models.architecture import maf
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.releases.mixture import ExpectationMaximization

GRID_DIM = 3
_GRID_CELLS = 3.0
"""Cells of a grid, over records times epsilon."""
GRID_BITS = 20
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
ASSUMED_RECORDS = 10_000
"""For rules of thumb where the number is not declared."""
ASSUMED_RATE = 0.02
"""Sampling rate where the number of records is not declared."""
_BATCH = (1024, 4096)
_OPEN_BATCH = 512

MARGINAL_BITS = 9
"""Histograms of columns have 2^9 cells."""

STARTS = ("grid", "columns", "whitening", "actnorm", "none")
"""What can be released before training: see `releases`."""
CLAMPED = "number of rows outside the bounds"
GRID_SHARE = 0.8
"""Part of epsilon that a grid takes where private training is asked for on top of it."""
NORMAL_REACH = 2.0
"""Radius over sqrt(dim) in the first round of whitening, where columns are about normal already."""

PRIVATE_FLOW = maf()
OPEN_FLOW = maf(hidden=(256, 256))
"""Without noise a larger network and many small steps pay."""
PRIVATE: dict[str, Any] = {
    "steps": 2000,
    "clip_norm": 1.0,
    "learning_rate": 8e-3,
    "weight_decay": 0.1,
    "optimizer": "adam",
    "ema_decay": 0.99,
}
OPEN: dict[str, Any] = {
    **PRIVATE,
    "steps": 10_000,
    "clip_norm": 1e3,
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
}


def components(
    base: str, start: str, num_components: int | None, num_records: int, budget: Budget
) -> int:
    """Normals in a base by EM; 0 for another base."""
    if base == "auto":  # ActNorms lead to a normal base, and "none" means that nothing is released
        base = "mixture" if budget.private and start in ("columns", "whitening") else "normal"
    if base != "mixture" or start == "grid":
        return 0
    least, most = _COMPONENTS
    if num_components is not None or not budget.private:
        return num_components or most
    enough = num_records * calibration.gaussian_mu(budget) / _RECORDS_PER_COMPONENT
    return round(min(max(enough, least), most))


def mixture(components: int, dim: int, spread: float, budget: Budget) -> ExpectationMaximization:
    """EM, for its share of the squared mu."""
    noise = 0.0
    if budget.private:
        noise = (_EM_STEPS / _MIXTURE_SHARE) ** 0.5 / calibration.gaussian_mu(budget)
    return ExpectationMaximization(
        dim=dim,
        num_components=components,
        steps=_EM_STEPS,
        spread=spread,
        noise_multiplier=noise,
    )


def batch(num_records: int, epsilon: float) -> float:
    """Expected records in a step."""
    if epsilon == math.inf:
        return _OPEN_BATCH
    least = min(_BATCH[0], max(64, num_records // 4))
    return max(least, min(_BATCH[1], num_records * epsilon / 100))


def grid_bits(dim: int, num_records: int, epsilon: float) -> int:
    """Bits of resolution along each axis."""
    cells = max(_GRID_CELLS * num_records * min(epsilon, 10.0), 2.0)
    bits = round(min(math.log2(cells), GRID_BITS) / dim)
    return max(1, min(bits, (GRID_BITS + 1) // dim))


def start_noise(
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
