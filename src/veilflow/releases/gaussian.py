"""Releases that are Gaussian mechanisms over the whole table: one of them, or one in each round."""

from abc import abstractmethod
from dataclasses import dataclass

from veilflow.privacy.events import Event
from veilflow.releases.release import Release, gaussian_event, gaussians


@dataclass(frozen=True, kw_only=True)
class OneGaussian(Release):
    """A release by one Gaussian mechanism.

    Attributes:
        noise_multiplier: Noise over the joint sensitivity of all numbers; 0 without privacy.
    """

    noise_multiplier: float

    @property
    @abstractmethod
    def numbers(self) -> int:
        """The most numbers that are released."""

    @property
    def coordinates(self) -> int:
        """The number of coordinates for which the grid of the noise is made."""
        return self.numbers

    @property
    def event(self) -> Event:
        return gaussian_event(self.noise_multiplier)

    @property
    def num_draws(self) -> int:
        return self.numbers if self.noise_multiplier else 0

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        return ((self.noise_multiplier, self.coordinates),)


@dataclass(frozen=True, kw_only=True)
class GaussianRounds(Release):
    """A release by one Gaussian mechanism in each of several rounds.

    Attributes:
        noise_multipliers: One for each round, fixed in advance; all 0 without privacy.
    """

    noise_multipliers: tuple[float, ...]

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers each round releases."""

    @property
    def event(self) -> Event:
        return gaussians(self.noise_multipliers)

    @property
    def num_draws(self) -> int:
        return self.numbers * sum(noise > 0 for noise in self.noise_multipliers)

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        return tuple((noise, self.numbers) for noise in self.noise_multipliers)
