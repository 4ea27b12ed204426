"""How an ensemble answers: mechanisms on votes, and what each costs, settled before any record is seen.

Of k parts, c give a row a density above the threshold. A record is in one part, so adding or removing
it moves c by at most 1 (and replacing it, by at most 2: these prices are for add/remove only).
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from veilflow._core import check
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import (
    Event,
    ExponentialMechanism,
    PureDP,
    Repeated,
    ZeroConcentrated,
)
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import SparseVector, choose, discrete_gaussian

METHODS = ("exponential", "sparse_vector", "noisy_max")

Votes = Int[np.ndarray, " rows"]

GRID = 2**20
"""Whole numbers to a vote, for discrete Gaussian noise."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A method, how often it may be used, and the noise of each use: public facts.

    Attributes:
        method: "exponential" (Algorithm 2 of DP-NF), "sparse_vector" or "noisy_max".
        parts: How many parts vote.
        limit: Most uses: queries; of "sparse_vector", searches.
        epsilon: Of one use by itself; of "noisy_max" None.
        noise_multiplier: Of "noisy_max"; else None.
        quorum: Share of parts that call a row odd, above which it is; of "sparse_vector" only.
        anomalies: How many a search finds before it is over; of "sparse_vector" only.
    """

    method: str
    parts: int
    limit: int
    epsilon: float | None = None
    noise_multiplier: float | None = None
    quorum: float = 0.5
    anomalies: int = 1

    def __post_init__(self) -> None:
        check.one_of(METHODS, method=self.method)
        check.count(parts=self.parts, limit=self.limit, anomalies=self.anomalies)
        check.fraction(quorum=self.quorum)
        if self.method == "noisy_max":
            check.positive(noise_multiplier=self.noise_multiplier)
        else:
            check.positive(epsilon=self.epsilon)

    @classmethod
    def within(
        cls,
        budget: Budget,
        *,
        method: str,
        parts: int,
        limit: int,
        quorum: float = 0.5,
        anomalies: int = 1,
    ) -> "Plan":
        """The least noise with which all uses together fit the budget, by PLD composition.

        Raises:
            BudgetError: No noise is enough.
        """
        check.one_of(METHODS, method=method)
        check.count(parts=parts, limit=limit)
        counts: dict[str, Any] = {"method": method, "parts": parts, "limit": limit}
        counts |= {"quorum": quorum, "anomalies": anomalies}
        if method == "noisy_max":
            noise = calibration.calibrate(
                lambda noise: cls(**counts, noise_multiplier=noise).event,
                budget,
                bracket=(1e-2, 1e6),
                increasing=False,
                what="noise_multiplier",
            )
            return cls(**counts, noise_multiplier=noise)
        epsilon = calibration.calibrate(
            lambda epsilon: cls(**counts, epsilon=epsilon).event,
            budget,
            bracket=(1e-9 * budget.epsilon, 2 * budget.epsilon),
            increasing=True,
            guess=budget.epsilon / (limit if budget.delta == 0 else limit**0.5),
            what="epsilon of an answer",
        )
        return cls(**counts, epsilon=epsilon)

    @property
    def event_of_one(self) -> Event:
        """The price of one use.

        Algorithm 2 answers with log-odds epsilon (2c - k) / 2. A vote moves them by epsilon, so it is
        the exponential mechanism of two utilities, c and k - c, of sensitivity 1: epsilon-bounded
        range. The published price, epsilon, is right; the event says more, and composes better.
        """
        if self.method == "noisy_max":
            assert self.noise_multiplier is not None
            # of the discrete Gaussian mechanism, rounded up as there
            rho = np.nextafter(1 / (2 * self.noise_multiplier**2), np.inf)
            return ZeroConcentrated(float(rho))
        assert self.epsilon is not None
        if self.method == "sparse_vector":
            return PureDP(self.epsilon)
        return ExponentialMechanism(self.epsilon)

    @property
    def event(self) -> Event:
        """The price of all uses that are allowed."""
        return Repeated(self.limit, self.event_of_one)

    def ledger(self, spent: int) -> Ledger:
        """What so many uses cost. A stream of searches is paid for as a whole when it begins."""
        if not spent:
            return Ledger()
        if self.method == "sparse_vector":
            return Ledger().spend(self.event, purpose="searches for anomalies")
        return Ledger().spend(Repeated(spent, self.event_of_one), purpose="answers")

    def odd(self, votes: Sensitive[Votes]) -> Bool[np.ndarray, " rows"]:
        """Which rows are answered to be anomalies; the uses must be on the journal by now."""
        if self.method == "noisy_max":
            assert self.noise_multiplier is not None
            # the difference of the two counts moves by 2
            margins = votes.map(lambda c: (2 * np.asarray(c, np.int64) - self.parts) * GRID)
            noisy = discrete_gaussian(
                margins, sensitivity=2 * GRID, noise_multiplier=self.noise_multiplier
            )
            return noisy.value < 0
        assert self.method == "exponential"
        assert self.epsilon is not None
        answers = [
            choose(
                votes.map(lambda c, i=i: [float(c[i]), float(self.parts - c[i])]),
                sensitivity=1.0,
                epsilon=self.epsilon,
            ).value
            for i in range(len(votes.open()))
        ]
        return np.array(answers, int) == 1

    def search(self) -> SparseVector:
        """A fresh search with a noisy threshold of its own: so often "above", then it is over."""
        assert self.method == "sparse_vector"
        assert self.epsilon is not None
        return SparseVector(
            threshold=self.quorum * self.parts,
            sensitivity=1.0,
            epsilon=self.epsilon,
            max_positives=self.anomalies,
        )

    def response_probability(self, votes: Any) -> Float[np.ndarray, "..."]:
        """The probability that a row with so many votes is answered to be normal.

        Args:
            votes: How many of the parts call it normal; public numbers, to plan with.

        Raises:
            ValueError: For "sparse_vector", whose answers depend on those before.
        """
        from scipy.special import expit, ndtr

        if self.method == "sparse_vector":
            raise ValueError("an answer of sparse vector has no probability of its own.")
        margin = 2 * np.asarray(votes, float) - self.parts
        if self.method == "exponential":
            assert self.epsilon is not None
            return expit(self.epsilon * margin / 2)
        assert self.noise_multiplier is not None
        # a tie of whole numbers is normal: half a grid step in its favor
        return ndtr((margin + 0.5 / GRID) / (2 * self.noise_multiplier))

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Plan":
        """The plan written by `to_json`."""
        return cls(**data)
