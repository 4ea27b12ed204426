"""Values of the log-likelihood at public points: what gradients and curvatures at one place miss.

A quadratic knows a posterior around one place. The sum of all records' log-likelihoods at many points
knows it wherever points are, whatever its shape. Every record's values at all points are one vector, so
one clip and one Gaussian mechanism release them together.

Only differences between points matter, so each record's value at the first point is taken away, and
then its mean over the points. Far away values differ more, and need not be known as precisely: points
have public weights, and their noise is in proportion to the inverse. Where nothing is known of a point,
it may be so far off that its values are beyond all others. A public limit on each value keeps these
from setting the clipping bound; the point then still looks as hopeless as it is.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from veilflow._core.fields import convert, count, nonnegative
from veilflow.engine.barrier import after_barrier
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Together
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.release import Release, Tools, gaussians
from veilflow.releases.rounds.lengths import NOISE_RANGE, nearly_longest
from veilflow.releases.rounds.statistics import (
    BINS,
    LogLikelihood,
    cut,
    from_units,
    length_of,
    one_hot_lengths,
    over_chunks,
    sum_in_units,
)

_COUNTS_SHARE = 0.06
"""Share of the price, in squared mu, of the count of lengths."""


@dataclass(frozen=True)
class Values:
    """Noisy values of the log-likelihood of all records, up to a constant.

    Attributes:
        points: Parameters at which it was evaluated.
        values: The noisy sums over all records.
        deviations: Standard deviation of the noise in each value.
        significant: Whether the clipping bound could be told from noise. If not, the values say
            nothing.
    """

    points: Float[np.ndarray, "points dim"]
    values: Float[np.ndarray, " points"]
    deviations: Float[np.ndarray, " points"]
    significant: bool


@dataclass(frozen=True, kw_only=True)
class LikelihoodValues(Release):
    """Sums over all records of their log-likelihoods at public points.

    Guarantee:
        Two Gaussian mechanisms, for add/remove of one record, whatever it holds. A count of lengths,
        which a record moves by 1; it sets the clipping bound. And the sum of the records' vectors of
        weighted, centered values, each divided by the bound and clipped to a length of 1. A record
        whose value at the first point is not finite adds 0; elsewhere such a value is as far off as
        the limit. Points and weights are declared or released.

    Attributes:
        round_: The number of this round of values; each has noise of its own.
        num_points: The number of points.
        noise_multiplier: Both mechanisms together cost as much as one with this; 0 without privacy.
    """

    purpose: str = "values of the log-likelihood"
    round_: int = 0
    num_points: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        convert(
            self,
            round_=count(at_least=0),
            num_points=count(at_least=2),
            noise_multiplier=nonnegative,
        )

    @property
    def noises(self) -> tuple[float, float]:
        """Noise multipliers of the count of lengths and of the values."""
        whole = self.noise_multiplier
        return whole / _COUNTS_SHARE**0.5, whole / (1 - _COUNTS_SHARE) ** 0.5

    @property
    def event(self) -> Event:
        return gaussians(self.noises)

    @property
    def num_draws(self) -> int:
        return BINS + self.num_points if self.noise_multiplier else 0

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        counts, values = self.noises
        return ((counts, BINS), (values, self.num_points))

    def priced(self, budget: Budget, others: Ledger) -> Self:
        guess = 1 / calibration.gaussian_mu(budget)
        return self._with_least_noise(budget, others, bracket=NOISE_RANGE, guess=guess)

    def run(
        self,
        records: Sensitive[PyTree],
        tools: Tools,
        *,
        log_likelihood: LogLikelihood,
        points: Float[np.ndarray, "points dim"],
        weights: Float[np.ndarray, " points"],
        limit: float = np.inf,
    ) -> Released[dict[str, Any]]:
        """Evaluate all records at all points.

        Args:
            records: Arrays with the record as first axis.
            tools: The tools of the run.
            log_likelihood: The log-likelihood of one record.
            points: Parameters, `num_points` of them.
            weights: Positive, one for each point; the noise of a value is divided by its weight.
            limit: The most that a record's weighted value may differ from that at the first point.
        """
        if points.shape[0] != self.num_points or weights.shape != (self.num_points,):
            raise ValueError(f"there must be {self.num_points} points and weights.")
        for_counts, for_values = self.noises
        asked: dict[str, Any] = {"points": points, "weights": weights, "limit": limit}
        settings: Any = {"secret": tools.secret, "purpose": "values"}
        counts = gaussian_once(
            value_lengths(log_likelihood, records, **asked),
            noise_multiplier=for_counts,
            index=2 * self.round_,
            **settings,
        )
        bound = nearly_longest(counts.value, for_counts)
        clip = bound if np.isfinite(bound) else 1.0
        sums = gaussian_once(
            clipped_values(log_likelihood, records, bound=clip, **asked),
            noise_multiplier=for_values,
            index=2 * self.round_ + 1,
            **settings,
        )
        released = {
            "points": np.asarray(points, np.float64),
            "values": sums.value * clip / weights,
            "deviations": for_values * clip / weights,
            "significant": bool(np.isfinite(bound)),
        }
        return Released(released, Together((counts.event, sums.event)))

    def result(self, value: dict[str, Any]) -> Values:
        """The noisy values."""
        return Values(**value)


def clipped_values(
    log_likelihood: LogLikelihood,
    records: Sensitive[PyTree],
    *,
    points: Float[np.ndarray, "points dim"],
    weights: Float[np.ndarray, " points"],
    limit: float,
    bound: float,
) -> ClippedSum:
    """The sum over records of weighted, centered values over `bound`, clipped to a length of 1.

    Guarantee:
        One record, whatever it holds, moves the sum by at most 1.
    """
    settings = (points, weights, np.array(limit), np.array(bound))
    total = over_chunks(_clipped, log_likelihood, records.open(), *settings)
    return ClippedSum(from_units(total), 1.0)


def value_lengths(
    log_likelihood: LogLikelihood,
    records: Sensitive[PyTree],
    *,
    points: Float[np.ndarray, "points dim"],
    weights: Float[np.ndarray, " points"],
    limit: float,
) -> ClippedSum:
    """A histogram of the lengths of weighted, centered values: `BINS` counts.

    Guarantee:
        A record adds 1 to one bin.
    """
    settings = (points, weights, np.array(limit))
    return ClippedSum(over_chunks(_counted, log_likelihood, records.open(), *settings), 1.0)


def _of_record(
    log_likelihood: LogLikelihood, record: Any, points: Array, weights: Array, limit: Array
) -> Float[Array, " points"]:
    values = jax.vmap(log_likelihood, (0, None))(points, record)
    # parameters at which a likelihood does not exist are impossible, not a reason to drop the record
    values = jnp.where(jnp.isnan(values), -jnp.inf, values)
    off = weights * (values - values[0])
    values = jnp.where(jnp.isnan(off), off, jnp.clip(off, -limit, limit)) / weights
    return weights * (values - jnp.sum(weights**2 * values) / jnp.sum(weights**2))


@partial(jax.jit, static_argnums=0)
def _clipped(
    log_likelihood: LogLikelihood,
    records: PyTree,
    here: Array,
    points: Array,
    weights: Array,
    limit: Array,
    bound: Array,
) -> Float[Array, " points"]:
    values = jax.vmap(lambda record: _of_record(log_likelihood, record, points, weights, limit))(
        records
    )

    def total(values: Array, index: Any) -> Array:
        return sum_in_units(jax.vmap(lambda one: cut(one, bound))(values), here)

    # lengths must be computed from the same numbers as the vectors that they clip
    return after_barrier(total, values, needed=jnp.any(here))


@partial(jax.jit, static_argnums=0)
def _counted(
    log_likelihood: LogLikelihood,
    records: PyTree,
    here: Array,
    points: Array,
    weights: Array,
    limit: Array,
) -> Float[Array, " counts"]:
    def counts(record: Any) -> Array:
        length = length_of(_of_record(log_likelihood, record, points, weights, limit))
        return one_hot_lengths(length)

    return jnp.sum(jnp.where(here[:, None], jax.vmap(counts)(records), 0.0), axis=0)
