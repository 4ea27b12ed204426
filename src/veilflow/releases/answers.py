"""Answers of an ensemble by vote: all of them together are one entry of a plan.

Of k parts, c give a row a density above the threshold. A record is in one part, so adding or removing
it moves c by at most 1 (replacing it, by at most 2: these prices are for add/remove only).
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false

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
"""Grid points per vote, for discrete Gaussian noise."""

_NOISE = (1e-2, 1e6)
"""Range of noise multipliers that is searched."""
_ALONE = Conditional("a part's model is the same whatever the records of other parts are")

Rows = Float[np.ndarray, "rows dim"]
Votes = Int[np.ndarray, " rows"]
"""How many parts consider each row normal."""


@dataclass(frozen=True, kw_only=True)
class Answers(Release):
    """All answers that an ensemble will ever give: an interactive mechanism.

    `run` trains one model on each part of the records. These models are the state of the mechanism and
    are not released: whoever holds them must keep them where the records are. Only answers leave, at
    most `limit` of them, and each is recorded in a journal before it is given.

    Guarantee:
        `event` is the price of all answers together, for add/remove of one row. A record is in one
        part, and the model of a part is the same whatever the other parts hold. So between neighbors
        one vote differs, whatever row is queried, and a count of votes moves by at most 1. However a
        row is chosen from earlier answers, its own answer is one mechanism of this sensitivity, with
        noise that was fixed before any record was seen. So is a whole search by sparse vector.
        Adaptive composition covers `limit` of them. Fewer cost no more, even if the answers decide
        when to stop.

    Attributes:
        method: "exponential" (Algorithm 2 of DP-NF), "sparse_vector" or "noisy_max".
        parts: Number of parts that vote.
        limit: The most uses: queries, or searches by "sparse_vector".
        epsilon: The epsilon of one use; None for "noisy_max".
        noise_multiplier: The noise of "noisy_max"; None for other methods.
        quorum: For "sparse_vector": a row is an anomaly if a larger share of parts votes against it.
        anomalies: For "sparse_vector": a search ends after this many anomalies.
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
        """The field that determines the price of a use."""
        return "noise_multiplier" if self.method == "noisy_max" else "epsilon"

    @property
    def event_of_one(self) -> Event:
        """The price of one use.

        Algorithm 2 answers with log-odds epsilon (2c - k) / 2. A vote moves them by epsilon, so this is
        the exponential mechanism with two utilities, c and k - c, of sensitivity 1: epsilon-bounded
        range. The published price, epsilon, is correct; the event is stronger and composes better.
        """
        if self.method == "noisy_max":
            assert self.noise_multiplier is not None
            # rounded up, as in the discrete Gaussian mechanism
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
        """The price of some uses. A stream of searches is paid for in full when it begins."""
        if not uses:
            return ()
        times = self.limit if self.method == "sparse_vector" else min(uses, self.limit)
        return (Entry(self.purpose, Repeated(times, self.event_of_one)),)

    def priced(self, budget: Budget, others: Ledger) -> Self:
        """With the least noise at which all uses together fit the budget, by PLD composition."""
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
        journal: str = "",
        ready: Callable[[], object] = lambda: None,
    ) -> Released[dict[str, Any]]:
        """Split the records and train the parts.

        Args:
            records: Rows inside the declared bounds.
            tools: The tools of the run.
            encode: From rows to flow coordinates, each row by itself.
            flow: The architecture of the flows, if flows are trained.
            journal: Where answers will be counted; empty for a count in memory.
            ready: Called first; raises if answers could not be recorded.

        Returns:
            The arrays of the parts, which only the curator may see, a random name, and the journal:
            a run that resumes must not count anew elsewhere.
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
        # a part whose training diverged still needs a density: files hold finite numbers only
        finite = [np.nan_to_num(np.asarray(array)) for array in arrays]
        name = secrets.token_hex(16)
        return Released({"parts": finite, "name": name, "journal": journal}, self.event)

    def response_probability(self, votes: Any) -> Float[np.ndarray, "..."]:
        """The probability that a row is answered to be normal, for planning with public numbers.

        Args:
            votes: How many parts consider the row normal.

        Raises:
            ValueError: For "sparse_vector", whose answers depend on earlier ones.
        """
        if self.method == "sparse_vector":
            raise ValueError(
                "answers of sparse vector depend on earlier ones: they have no probability."
            )
        margin = 2 * np.asarray(votes, float) - self.parts
        if self.method == "exponential":
            assert self.epsilon is not None
            return expit(self.epsilon * margin / 2)
        assert self.noise_multiplier is not None
        # a tie counts as normal: half a grid step in its favor
        return ndtr((margin + 0.5 / GRID) / (2 * self.noise_multiplier))


def odd(answers: Answers, votes: Sensitive[Votes]) -> Bool[np.ndarray, " rows"]:
    """Which rows are answered to be anomalies; the uses must be in the journal already.

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
    """A new search with its own noisy threshold; it ends after `answers.anomalies` anomalies.

    Guarantee:
        One use of `answers`, however many rows are queried: the votes against a row, which have
        sensitivity 1, are compared with the threshold.
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
    """All votes of several queries in one list, still sensitive."""
    every: Sequence[int] = [int(count) for votes in asked for count in votes.open()]
    return Sensitive(every, description="votes of parts")


class Overview(NamedTuple):
    """Votes on the records themselves, for the curator only: as sensitive as the records."""

    against: float
    """Share of records that are out of bounds, or against which more than the quorum votes."""
    answered: float | None
    """Mean probability of the answer "anomaly"; None for "sparse_vector"."""
    shares: Float[np.ndarray, " bins"]
    """Shares of records by the number of parts that consider them normal."""


def overview(
    answers: Answers, votes: Sensitive[Votes], outside: Bool[np.ndarray, " rows"], *, bins: int
) -> Overview:
    """How the parts vote on the records. NOT PRIVATE, and nothing is spent: for internal reports.

    Args:
        answers: The release of the ensemble.
        votes: The votes on each record.
        outside: Which records are out of bounds.
        bins: Number of bins of the histogram.
    """
    normal, parts = votes.open(), answers.parts
    against = (parts - normal) > answers.quorum * parts
    answered = None
    if answers.method != "sparse_vector":  # its answers depend on earlier ones
        chances = np.where(outside, 1.0, 1 - answers.response_probability(normal))
        answered = float(chances.mean())
    counts = np.histogram(normal, bins=bins, range=(-0.5, parts + 0.5))[0]
    return Overview(float(np.mean(against | outside)), answered, counts / len(normal))
