"""A private quantile of one number per record."""

from dataclasses import dataclass
from typing import Any

from veilflow.privacy.events import Event, ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import quantile
from veilflow.releases.release import Release, Tools


@dataclass(frozen=True, kw_only=True)
class Quantile(Release):
    """A quantile, chosen from an even grid by how close its rank is to the requested one.

    Guarantee:
        epsilon-bounded range for add/remove of one record, hence epsilon-DP: the exponential
        mechanism on ranks, each of which moves by at most one. A number outside the range counts as
        its nearest end, and NaN as the upper end.

    Attributes:
        probability: The requested rank, between 0 and 1.
        epsilon: The price.
        num_candidates: Number of grid points.
    """

    purpose: str = "threshold (private quantile)"
    probability: float
    epsilon: float
    num_candidates: int = 4096

    @property
    def event(self) -> Event:
        return ExponentialMechanism(self.epsilon)

    def run(
        self, records: Sensitive[Any], tools: Tools, *, lower: float, upper: float
    ) -> Released[float]:
        """Choose a point of the grid from `lower` to `upper`, which are declared or released.

        The randomness comes from the operating system, not from the secret of `tools`.
        """
        return quantile(
            records,
            probability=self.probability,
            lower=lower,
            upper=upper,
            epsilon=self.epsilon,
            num_candidates=self.num_candidates,
            default=upper,
        )
