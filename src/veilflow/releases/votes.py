"""Votes of the parts of an ensemble: private counts, and the noisy answers that may leave."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import SparseVector, choose, discrete_gaussian
from veilflow.releases.answers import GRID, Answers

Votes = Int[np.ndarray, " rows"]
"""How many parts call each row normal."""


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
