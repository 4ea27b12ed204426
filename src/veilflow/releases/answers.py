"""Answers of an ensemble by vote: all of them together are one entry of a plan.

Of k parts, c give a row a density above the threshold. A record is in one part, so adding or removing
it moves c by at most 1 (replacing it, by at most 2: these prices are for add/remove only).
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, ndtr

from veilflow._core import check
from veilflow.privacy import calibration
from veilflow.privacy.assumptions import Assumption, Conditional
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import (
    Event,
    ExponentialMechanism,
    PureDP,
    Repeated,
    ZeroConcentrated,
)
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Entry, Ledger
from veilflow.privacy.mechanisms import SparseVector, choose, discrete_gaussian
from veilflow.releases.part_densities import PartModels, split
from veilflow.releases.release import Release, Tools

METHODS = ("exponential", "sparse_vector", "noisy_max")
GRID = 2**20
"""Whole numbers to a vote, for discrete Gaussian noise."""

_NOISE = (1e-2, 1e6)
"""Where the noise multiplier is looked for."""
_ALONE = Conditional("a part's model is the same whatever the records of other parts are")

Rows = Float[np.ndarray, "rows dim"]
Votes = Int[np.ndarray, " rows"]
"""How many parts call each row normal."""


@dataclass(frozen=True, kw_only=True)
class Answers(Release):
    """Everything that an ensemble will ever say: an interactive mechanism.

    `run` trains one model on each part of the records. That is the state of the mechanism, and it
    stays behind the door: whoever gets it must keep it where the records are. What leaves are answers
    (`releases/votes.py`), each written down in a journal before it is given, and `limit` at most.

    Guarantee:
        `event` is the price of all answers together, for add/remove of one row. A record is in one
        part, and the model of a part is the same whatever the other parts hold. So between neighbors
        one vote differs, on whatever row is asked about, and a count of votes moves by at most 1.
        However a row is chosen from earlier answers, its own answer is one mechanism of this
        sensitivity, with noise that was settled before a record was seen. So is a whole search by
        sparse vector. Adaptive composition adds up `limit` of them. Fewer cost no more, also where
        the answers decide when to stop.

    Attributes:
        method: "exponential" (Algorithm 2 of DP-NF), "sparse_vector" or "noisy_max".
        parts: How many parts vote.
        limit: Most uses: queries, or searches by "sparse_vector".
        epsilon: Of one use by itself; None for "noisy_max".
        noise_multiplier: For "noisy_max"; None for other methods.
        quorum: For "sparse_vector": the share of parts against a row above which it is odd.
        anomalies: For "sparse_vector": how many a search finds before it is over.
        settings: How each part learns its density.
    """

    purpose: str = "answers"
    method: str
    parts: int
    limit: int
    epsilon: float | None = None
    noise_multiplier: float | None = None
    quorum: float = 0.5
    anomalies: int = 1
    settings: PartModels

    def __post_init__(self) -> None:
        check.one_of(METHODS, method=self.method)
        check.count(parts=self.parts, limit=self.limit, anomalies=self.anomalies)
        check.fraction(quorum=self.quorum)
        check.positive(**{self._price: getattr(self, self._price)})

    @property
    def _price(self) -> str:
        """The field that decides what a use costs."""
        return "noise_multiplier" if self.method == "noisy_max" else "epsilon"

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
        return Repeated(self.limit, self.event_of_one)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return (_ALONE,)

    @property
    def rounds(self) -> int:
        return self.settings.rounds

    def entries(self, uses: int) -> tuple[Entry, ...]:
        """What so many uses cost. A stream of searches is paid for as a whole when it begins."""
        if not uses:
            return ()
        times = self.limit if self.method == "sparse_vector" else min(uses, self.limit)
        return (Entry(self.purpose, Repeated(times, self.event_of_one)),)

    def priced(self, budget: Budget, others: Ledger) -> Self:
        """With the least noise with which all uses together fit the budget, by PLD composition."""
        if self.method == "noisy_max":
            search: dict[str, Any] = {"bracket": _NOISE, "increasing": False}
        else:
            root = self.limit if budget.delta == 0 else self.limit**0.5
            bracket = (1e-9 * budget.epsilon, 2 * budget.epsilon)
            search = {"bracket": bracket, "increasing": True, "guess": budget.epsilon / root}
        price = calibration.calibrate(
            lambda price: replace(self, **{self._price: price}).event,
            budget,
            ledger=others,
            what=f"{self._price} of an answer",
            **search,
        )
        return replace(self, **{self._price: price})

    def run(
        self,
        records: Sensitive[Rows],
        tools: Tools,
        *,
        encode: Callable[[Rows], Rows],
        flow: Any = None,
        ready: Callable[[], object] = lambda: None,
    ) -> Released[dict[str, Any]]:
        """Split the records and train the parts.

        Args:
            records: Rows inside the declared bounds.
            tools: Of the run.
            encode: From rows to flow coordinates, each row by itself.
            flow: The architecture of all flows, where flows are trained.
            ready: Called first. It raises where answers could not be written down.

        Returns:
            The arrays of the parts, which nobody but the curator may see, and a random name.
        """
        ready()
        parts = split(records.open(), parts=self.parts, secret=tools.secret)
        trained = self.settings.train(
            [encode(part) for part in parts],
            flow=flow,
            secret=tools.secret,
            monitor=tools.monitor,
        )
        arrays = jax.tree.leaves(eqx.filter(trained, eqx.is_array))
        # a part whose training diverged has some density, too: files take finite numbers only
        finite = [np.nan_to_num(np.asarray(array)) for array in arrays]
        return Released({"parts": finite, "name": secrets.token_hex(16)}, self.event)

    def response_probability(self, votes: Any) -> Float[np.ndarray, "..."]:
        """The probability that a row with so many votes is answered to be normal.

        Args:
            votes: How many of the parts call it normal; public numbers, to plan with.

        Raises:
            ValueError: For "sparse_vector", whose answers depend on those before.
        """
        if self.method == "sparse_vector":
            raise ValueError("an answer of sparse vector has no probability of its own.")
        margin = 2 * np.asarray(votes, float) - self.parts
        if self.method == "exponential":
            assert self.epsilon is not None
            return expit(self.epsilon * margin / 2)
        assert self.noise_multiplier is not None
        # a tie of whole numbers is normal: half a grid step in its favor
        return ndtr((margin + 0.5 / GRID) / (2 * self.noise_multiplier))


def odd(answers: Answers, votes: Sensitive[Votes]) -> Bool[np.ndarray, " rows"]:
    """Which rows are answered to be anomalies; the uses must be on the journal by now.

    Guarantee:
        One use of `answers` for each row: a count of votes moves by at most 1 with a record.
    """
    if answers.method == "noisy_max":
        assert answers.noise_multiplier is not None
        # the difference of the two counts moves by 2
        margins = votes.map(lambda c: (2 * np.asarray(c, np.int64) - answers.parts) * GRID)
        noisy = discrete_gaussian(
            margins, sensitivity=2 * GRID, noise_multiplier=answers.noise_multiplier
        )
        return noisy.value < 0
    assert answers.method == "exponential"
    assert answers.epsilon is not None
    chosen = [
        choose(
            votes.map(lambda c, i=i: [float(c[i]), float(answers.parts - c[i])]),
            sensitivity=1.0,
            epsilon=answers.epsilon,
        ).value
        for i in range(len(votes.open()))
    ]
    return np.array(chosen, int) == 1


def search(answers: Answers) -> SparseVector:
    """A fresh search with a noisy threshold of its own: so often "above", then it is over.

    Guarantee:
        One use of `answers`, however many rows are asked about; votes against a row are what is
        compared, and have sensitivity 1.
    """
    assert answers.method == "sparse_vector"
    assert answers.epsilon is not None
    return SparseVector(
        threshold=answers.quorum * answers.parts,
        sensitivity=1.0,
        epsilon=answers.epsilon,
        max_positives=answers.anomalies,
    )


def joined(asked: Sequence[Sensitive[Votes]]) -> Sensitive[Sequence[int]]:
    """All votes of several queries in one list, behind the door as they were."""
    every: Sequence[int] = [int(count) for votes in asked for count in votes.open()]
    return Sensitive(every, description="votes of parts")


class Overview(NamedTuple):
    """Votes on the records themselves, for the eyes of the curator: as private as the records."""

    against: float
    """Share of records that more than the quorum of parts call odd, or that are out of bounds."""
    answered: float | None
    """Mean probability of the answer "anomaly"; None for "sparse_vector"."""
    shares: Float[np.ndarray, " bins"]
    """Shares of records by how many parts call them normal."""


def overview(
    answers: Answers, votes: Sensitive[Votes], outside: Bool[np.ndarray, " rows"], *, bins: int
) -> Overview:
    """What the parts make of the records. NOT PRIVATE, and nothing is spent: for internal reports.

    Args:
        answers: Of the ensemble.
        votes: On each record.
        outside: Which records are out of bounds.
        bins: Of the histogram.
    """
    normal, parts = votes.open(), answers.parts
    against = (parts - normal) > answers.quorum * parts
    answered = None
    if answers.method != "sparse_vector":  # whose answers depend on those before
        chances = np.where(outside, 1.0, 1 - answers.response_probability(normal))
        answered = float(chances.mean())
    counts = np.histogram(normal, bins=bins, range=(-0.5, parts + 0.5))[0]
    return Overview(float(np.mean(against | outside)), answered, counts / len(normal))
