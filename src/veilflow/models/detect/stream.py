"""The stream of queries to an ensemble: every answer is paid for before it is given."""

import threading
import warnings

import numpy as np
from jaxtyping import Bool

from veilflow._core.errors import BudgetError
from veilflow.models.detect.counter import Counter
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import SparseVector
from veilflow.releases import answers as answering
from veilflow.releases.answers import Answers, Votes

Flags = Bool[np.ndarray, " answered"]


class Stream:
    """Answers from votes. It holds what changes meanwhile: the search under way, and votes so far.

    Args:
        answers: How answers are given, and how many.
        counter: Counts what is spent.
    """

    def __init__(self, answers: Answers, counter: Counter):
        self._answers, self._counter = answers, counter
        self._lock = threading.Lock()
        self._search: SparseVector | None = None
        self._asked: list[Sensitive[Votes]] = []

    def answer(self, votes: Sensitive[Votes], outside: Bool[np.ndarray, " rows"]) -> Flags:
        """Which rows are anomalies; with sparse vector up to the end of the stream.

        Args:
            votes: The number of parts that call each row normal.
            outside: Rows outside the declared bounds: anomalies by declaration, at no cost.

        Raises:
            BudgetError: The budget is spent. Nothing was answered.
            PrivacyError: The journal is missing or damaged. Nothing was answered.
            OSError: The journal cannot be written. Nothing was answered.
        """
        with self._lock:
            if self._answers.method == "sparse_vector":
                return self._searched(votes, outside)
            flags = np.ones(len(outside), bool)
            paid = np.flatnonzero(~outside)
            if len(paid):
                self._counter.spend(len(paid), limit=self._answers.limit)  # before the answer
                asked = votes.map(lambda counts: counts[paid])
                flags[paid] = answering.odd(self._answers, asked)
                self._asked.append(asked)
            return flags

    @property
    def left(self) -> int:
        """Queries that can still be asked; with sparse vector, anomalies that can still be found."""
        unused = max(0, self._answers.limit - self._counter.spent())
        if self._answers.method != "sparse_vector":
            return unused
        search = self._search
        return unused * self._answers.anomalies + (0 if search is None else search.left)

    @property
    def asked(self) -> Sensitive:
        """The votes on all rows that were answered, except by sparse vector."""
        return answering.joined(self._asked)

    def _searched(self, votes: Sensitive[Votes], outside: Bool[np.ndarray, " rows"]) -> Flags:
        """Answers one by one. When a search is over, the next one is paid for."""
        flags: list[bool] = []
        for i, free in enumerate(outside):
            if free:
                flags.append(True)
                continue
            if self._search is None:
                try:
                    self._counter.spend(1, limit=self._answers.limit)
                except BudgetError as error:
                    return self._ended(flags, error)
                self._search = answering.search(self._answers)
            against = votes.map(lambda counts, i=i: float(self._answers.parts - counts[i]))
            flags.append(self._search.above(against))
            if self._search.left == 0:
                self._search = None
        return np.array(flags, bool)

    def _ended(self, flags: list[bool], error: BudgetError) -> Flags:
        if not flags:
            anomalies = self._answers.limit * self._answers.anomalies
            raise BudgetError(
                f"the stream is over: {anomalies} anomalies were paid for, and each was found, or was "
                "being searched for by a process that ended. Fit a new ensemble to go on: on the same "
                "records that is a second spend."
            ) from error
        warnings.warn(
            f"the stream ended after {len(flags)} answers of this call: the last anomaly that was "
            "paid for is found. Later rows have no answer.",
            stacklevel=5,
        )
        return np.array(flags, bool)

    def __reduce__(self):
        raise TypeError("the state of a stream of queries is secret and is not copied.")
