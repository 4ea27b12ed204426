"""The start of a density fit: what a recipe releases before training, and what that costs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from veilflow._core.keys import Secret
from veilflow.flows import AbstractBase, AbstractBijection, Flow, GaussianMixture, StandardNormal
from veilflow.models.planner import MARGINAL_BITS, Recipe
from veilflow.models.start.actnorm import private_actnorm
from veilflow.models.start.grid import private_grid
from veilflow.models.start.marginals import private_marginals
from veilflow.models.start.mixture import event_of, num_draws, private_mixture
from veilflow.models.start.rows import seen_through
from veilflow.models.start.whitening import private_whitening
from veilflow.privacy.events import Event, Gaussian, NonPrivate, PureDP, Together
from veilflow.privacy.guarantees import Sensitive

_NORMAL_REACH = 2.0
"""Radius over sqrt(dim) in the first round of whitening, where columns are about normal already."""


@dataclass(frozen=True)
class Started:
    """What a start released."""

    base: AbstractBase
    maps: tuple[AbstractBijection, ...]
    """From the flow's side to the data."""
    flow: Flow
    """The flow to train, over `base`."""
    coordinates: Sensitive[np.ndarray]
    """The rows behind the maps."""


def start_event(recipe: Recipe, grid_epsilon: float | None) -> Event | None:
    """What `begin` will cost, whatever it finds."""
    if recipe.start == "grid":
        assert grid_epsilon is not None
        return NonPrivate() if grid_epsilon == np.inf else PureDP(grid_epsilon)
    noises = recipe.whitening_noise
    if recipe.start == "columns":
        noises = (recipe.marginal_noise, *noises)
    events: list[Event] = [NonPrivate() if noise == 0 else Gaussian(noise) for noise in noises]
    if recipe.components:
        events.append(event_of(recipe.mixture_noise))
    return Together(tuple(events)) if events else None


def start_coordinates(recipe: Recipe, dim: int) -> int:
    """How many numbers the start draws Gaussian noise for."""
    rounds = len(recipe.whitening_noise)
    square = 1 + dim + dim * (dim + 1) // 2
    mixture = 0
    if recipe.components:
        mixture = num_draws(dim, recipe.components, len(recipe.mixture_noise))
    if recipe.start == "actnorm":
        return mixture + rounds * 2 * dim
    marginals = dim * 2**MARGINAL_BITS if recipe.start == "columns" else 0
    return mixture + marginals + rounds * (square - 1)


def begin(
    recipe: Recipe,
    rows: Sensitive[np.ndarray],
    *,
    border: float,
    radius: float,
    num_records: float,
    grid_epsilon: float | None,
    secret: Secret,
    hardened: bool,
) -> Started:
    """Release the start of `recipe`; the events are those of `start_event`.

    Args:
        recipe: From the planner.
        rows: Rows in flow coordinates, inside the declared domain.
        border: Where a box ends.
        radius: Largest length of a row.
        num_records: Declared or released.
        grid_epsilon: Price of a grid.
        secret: Source of randomness.
        hardened: Noise from the operating system, on a grid.
    """
    dim = rows.open().shape[1]
    flow = recipe.architecture.build(dim, key=secret.key("weights"))
    base: AbstractBase = StandardNormal(dim)
    maps: list[AbstractBijection] = []
    noise: dict[str, Any] = {"secret": secret, "hardened": hardened}
    if recipe.start == "grid":
        assert grid_epsilon is not None
        base = private_grid(rows, border=border, bits=recipe.grid_bits, epsilon=grid_epsilon).value
    if recipe.start == "columns":
        columns = private_marginals(
            rows,
            border=border,
            bits=MARGINAL_BITS,
            noise_multiplier=recipe.marginal_noise,
            **noise,
        )
        maps.insert(0, columns.value)
        rows, radius = _behind(columns.value, rows), _NORMAL_REACH * dim**0.5
    if recipe.start in ("columns", "whitening"):
        linear = private_whitening(
            rows,
            radius=radius,
            num_records=num_records,
            noise_multipliers=recipe.whitening_noise,
            **noise,
        )
        maps.insert(0, linear.value)
        rows = _behind(linear.value, rows)
    if recipe.components:
        mixture = private_mixture(
            rows,
            spread=1.0,
            num_components=recipe.components,
            noise_multipliers=recipe.mixture_noise,
            **noise,
        ).value.mixture
        base = GaussianMixture.create(mixture.weights, mixture.means, mixture.covariances)
    if recipe.start == "actnorm":
        flow = private_actnorm(
            flow,
            rows,
            num_records=num_records,
            noise_multipliers=recipe.whitening_noise,
            **noise,
        ).value
    return Started(base, tuple(maps), flow, rows)


def _behind(bijection: AbstractBijection, rows: Sensitive[np.ndarray]) -> Sensitive[np.ndarray]:
    return rows.map(lambda values: seen_through(bijection, values))
