"""A private quantile of one number per record."""

from dataclasses import dataclass
from typing import Any

from veilflow.privacy.events import Event, ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import quantile
from veilflow.releases.release import Release, Tools


@dataclass(frozen=True, kw_only=True)
class Quantile(Release):
    """A quantile, chosen from an even grid by how close its rank is to the one asked for.

    Guarantee:
        epsilon-bounded range for add/remove of one record, hence epsilon-DP: the exponential
        mechanism on ranks, each of which moves by at most one. A number beyond the range counts as
        its end, and what is no number as the upper end.

    Attributes:
        probability: Which quantile.
        epsilon: The price.
        num_candidates: Points of the grid.
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
        """Ask for the quantile.

        Args:
            records: One number per record.
            tools: Of the run; noise comes from the operating system.
            lower: Where the grid begins: declared or released.
            upper: Where it ends.
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
