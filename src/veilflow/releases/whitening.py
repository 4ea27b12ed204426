"""Private whitening: the mean and covariance of the rows, by rounds of noisy moments.

A Gaussian mechanism releases the sum of (x, xx^T) over rows clipped to a radius. The noise grows with
the square of the radius, so with a radius that covers the whole domain all narrow directions drown.
Therefore there are a few rounds: each whitens the rows by the current estimate and measures again in
these coordinates, where rows have a length of about sqrt(dim) and the radius can be that small. The
number of rounds and their noise are fixed in advance; only the coordinates adapt, and they come from
earlier releases.

References:
    Biswas, Dong, Kamath, Ullman, "CoinPress: practical private mean and covariance estimation", 2020.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from veilflow.flows.bijections.fixed import FixedLinear
from veilflow.privacy.events import Event, Together
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.gaussian import GaussianRounds
from veilflow.releases.release import Tools
from veilflow.releases.rows import finite, from_upper_triangle, upper_triangle

_REACH = 1.5
"""Radius in whitened coordinates from the second round on, in units of sqrt(dim)."""
_SMALLEST = 1e-12
"""Floor of variances, absolute and relative to the largest: columns may be constant or collinear."""
_SENSITIVITY = 2.0**0.5
"""L2 norm of (x, xx^T) at |x| = 1: the most that a row moves the sum."""


@dataclass(frozen=True, kw_only=True)
class Whitening(GaussianRounds):
    """Mean and covariance of the rows, which define a linear map from standard coordinates to them.

    Guarantee:
        One Gaussian mechanism per round with its noise multiplier, for add/remove of one row. The
        radius and the noise are public; a row longer than the radius is clipped to it, and one that
        is not finite counts as zero.

    Attributes:
        dim: Number of columns.
        radius: Length to which rows are clipped in the first round.
        noise_multipliers: One for each round, fixed in advance; all 0 without privacy.
    """

    purpose: str = "moments"
    dim: int
    radius: float

    @property
    def numbers(self) -> int:
        return self.dim + self.dim * (self.dim + 1) // 2

    def run(
        self,
        records: Sensitive[Float[np.ndarray, "rows dim"]],
        tools: Tools,
        *,
        num_records: float,
    ) -> Released[dict[str, np.ndarray]]:
        """Measure in rounds; `num_records` is declared or released."""
        dim, radius = self.dim, self.radius
        mean, factor = np.zeros(dim), np.eye(dim)
        events: list[Event] = []
        for round_, noise_multiplier in enumerate(self.noise_multipliers):
            released = gaussian_once(
                _moments(records, mean, factor, radius),
                noise_multiplier=noise_multiplier,
                secret=tools.secret,
                purpose="whitening",
                index=round_,
            )
            events.append(released.event)
            noise = noise_multiplier * _SENSITIVITY * radius**2 / num_records
            shift, covariance = _read(released.value, dim, radius, num_records)
            values, vectors = np.linalg.eigh(covariance)
            # a variance below the level of the noise is unknown: too wide is better than too narrow
            values = np.maximum(values, max(noise * dim**0.5, _SMALLEST))
            mean = mean + factor @ shift
            factor = factor @ (vectors * np.sqrt(values))
            radius = _REACH * dim**0.5
        values, vectors = np.linalg.eigh(factor @ factor.T)
        values = np.maximum(values, _SMALLEST * values.max())  # small factors multiply over rounds
        covariance = (vectors * values) @ vectors.T
        return Released({"mean": mean, "covariance": covariance}, Together(tuple(events)))

    def result(self, value: dict[str, np.ndarray]) -> FixedLinear:
        """The map x = A z + m for which z is approximately standard."""
        return FixedLinear.from_moments(value["mean"], value["covariance"])


def _moments(
    rows: Sensitive[np.ndarray], mean: np.ndarray, factor: np.ndarray, radius: float
) -> ClippedSum:
    """The sum over rows of z and the upper triangle of zz^T, z clipped and divided by radius."""
    z = np.linalg.solve(factor, (finite(rows.open()) - mean).T).T / radius
    z[~np.isfinite(z).all(axis=1)] = 0.0  # where the solve overflowed
    with np.errstate(over="ignore"):  # a row of infinite length counts as zero
        z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1.0)
    return ClippedSum(np.concatenate([z.sum(axis=0), upper_triangle(z.T @ z)]), _SENSITIVITY)


def _read(
    total: np.ndarray, dim: int, radius: float, num_records: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance from a released sum."""
    mean = total[:dim] * radius / num_records
    square = from_upper_triangle(total[dim:], dim)
    return mean, square * radius**2 / num_records - np.outer(mean, mean)
