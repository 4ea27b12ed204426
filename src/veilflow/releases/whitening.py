"""Private whitening: the mean and covariance of the rows, by rounds of noisy moments.

One Gaussian mechanism releases the sum of (x, xx^T) over rows shortened to a radius. The noise grows
with the radius squared, so a radius that covers the whole domain drowns all small directions. Hence
a few rounds: each whitens by what is known so far and measures again in those coordinates, where
rows are about sqrt(dim) long and the radius can be that small. The number of rounds and their noise
are fixed in advance; only the coordinates adapt, and these come from earlier releases.

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
from veilflow.releases.release import Release, Tools, gaussians
from veilflow.releases.rows import finite

_REACH = 1.5
"""Radius in whitened coordinates, over sqrt(dim), from the second round on."""
_SMALLEST = 1e-12
"""No variance is below this, nor below this part of the largest: columns may be constant, or alike."""
_SENSITIVITY = 2.0**0.5
"""L2 norm of (x, xx^T) at |x| = 1: no row moves the sum by more."""


@dataclass(frozen=True, kw_only=True)
class Whitening(Release):
    """Mean and covariance of the rows, which give the map from standard coordinates to them.

    Guarantee:
        One Gaussian mechanism a round with its noise multiplier, for add/remove of one row. The
        radius and the noise are public; a row longer than the radius is shortened, and one that is
        not finite counts as zero.

    Attributes:
        dim: Number of columns.
        radius: Length that rows are shortened to in the first round.
        noise_multipliers: One for each round, fixed beforehand; all 0 for none, without privacy.
    """

    purpose: str = "moments"
    dim: int
    radius: float
    noise_multipliers: tuple[float, ...]

    @property
    def event(self) -> Event:
        return gaussians(self.noise_multipliers)

    @property
    def num_draws(self) -> int:
        return self._numbers * sum(noise > 0 for noise in self.noise_multipliers)

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        return tuple((noise, self._numbers) for noise in self.noise_multipliers)

    @property
    def _numbers(self) -> int:
        return self.dim + self.dim * (self.dim + 1) // 2

    def run(
        self,
        records: Sensitive[Float[np.ndarray, "rows dim"]],
        tools: Tools,
        *,
        num_records: float,
    ) -> Released[dict[str, np.ndarray]]:
        """Ask in rounds.

        Args:
            records: The rows.
            tools: Of the run.
            num_records: Declared or released number of rows.
        """
        dim, radius = self.dim, self.radius
        mean, factor = np.zeros(dim), np.eye(dim)
        events = []
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
            # below what the noise alone brings, a variance is not known: better too wide
            values = np.maximum(values, max(noise * dim**0.5, _SMALLEST))
            mean = mean + factor @ shift
            factor = factor @ (vectors * np.sqrt(values))
            radius = _REACH * dim**0.5
        values, vectors = np.linalg.eigh(factor @ factor.T)
        values = np.maximum(values, _SMALLEST * values.max())  # rounds multiply what is small
        whole = (vectors * values) @ vectors.T
        return Released({"mean": mean, "covariance": whole}, Together(tuple(events)))

    def result(self, value: dict[str, np.ndarray]) -> FixedLinear:
        """The map x = A z + m with z about standard."""
        return FixedLinear.from_moments(value["mean"], value["covariance"])


def _moments(rows: Sensitive, mean: np.ndarray, factor: np.ndarray, radius: float) -> ClippedSum:
    """The sum over rows of z and the upper triangle of zz^T, with z shortened and divided by radius."""
    z = np.linalg.solve(factor, (finite(rows.open()) - mean).T).T / radius
    z[~np.isfinite(z).all(axis=1)] = 0.0  # where the solve overflowed
    with np.errstate(over="ignore"):  # a row of infinite length counts as zero
        z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1.0)
    square = z.T @ z
    upper = np.triu_indices(len(square))
    # off the diagonal times sqrt(2): half of the matrix then has the norm of the whole
    weights = np.where(upper[0] == upper[1], 1.0, 2.0**0.5)
    total = np.concatenate([z.sum(axis=0), weights * square[upper]])
    return ClippedSum(total, _SENSITIVITY)


def _read(
    total: np.ndarray, dim: int, radius: float, num_records: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance from a released sum."""
    mean = total[:dim] * radius / num_records
    upper = np.triu_indices(dim)
    weights = np.where(upper[0] == upper[1], 1.0, 2.0**0.5)
    square = np.zeros((dim, dim))
    square[upper] = total[dim:] / weights
    square = square + np.triu(square, 1).T
    return mean, square * radius**2 / num_records - np.outer(mean, mean)
