"""Counts of how two columns hang together, for some pairs of columns of a table.

Which pairs are asked follows from the histograms of columns, which were released before: where one
column is a function of another, its histogram is that of the other, moved. Only pairs that pass
this test, which costs nothing, are asked; so a few questions do for many columns and many
relations.
"""

# asdict returns Any
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.gaussian import OneGaussian
from veilflow.releases.release import Tools
from veilflow.releases.table.questions import MOST_ANSWERS, Cells, GapsOf, Question, RelationOf
from veilflow.tabular.columns import Column
from veilflow.tabular.encoded import EncodedRows


class Answered(NamedTuple):
    """A question, its noisy answers, and the deviation of the noise in each."""

    question: Question
    counts: Float[np.ndarray, " answers"]
    deviation: float

    def others(
        self,
        answers: Bool[np.ndarray, " answers"],
        *,
        nullable: Sequence[bool],
        num_records: float,
    ) -> "Estimate":
        """How many records gave another answer: from the fewer counts, which have less noise.

        Args:
            answers: The answers not to count.
            nullable: Of each column, whether its cells may be missing: what cannot be, nobody answers.
            num_records: The number of records, declared or released.
        """
        first, second = (nullable[j] for j in self.question.columns)
        possible = np.ones(len(self.counts), bool)
        possible[1:4] = first, second, first and second
        these, rest = self.counts[answers & possible], self.counts[~answers & possible]
        if len(these) < len(rest):
            return Estimate(num_records - float(these.sum()), self.deviation * len(these) ** 0.5)
        return Estimate(float(rest.sum()), self.deviation * len(rest) ** 0.5)


class Estimate(NamedTuple):
    """A noisy number of records, and the deviation of its noise."""

    number: float
    deviation: float


@dataclass(frozen=True, kw_only=True)
class PairCounts(OneGaussian):
    """How often which gaps and relations occur in pairs of columns.

    Guarantee:
        One Gaussian mechanism for add/remove of one row. A question divides rows into groups, and a
        row is in one of them, whatever it holds: so it changes one count of each question by 1, and
        all counts of k questions by sqrt(k) in L2. The questions follow from values that were released
        before; there are at most `num_questions`, and the noise is that for as many as there are.

    Attributes:
        num_questions: The most questions.
    """

    purpose: str = "pairs of columns"
    num_questions: int

    @property
    def numbers(self) -> int:
        return self.num_questions * MOST_ANSWERS + 1  # and the empty question

    @property
    def coordinates(self) -> int:
        return (
            4 * self.num_questions
        )  # `gaussian_once` uses four for each number that a row changes

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return ()  # counts are integers, whose sums are exact

    def run(
        self,
        records: Sensitive[EncodedRows],
        tools: Tools,
        *,
        questions: Sequence[Question],
        columns: Sequence[Column],
        written: Sequence[Column],
        sizes: Sequence[int],
    ) -> Released[dict[str, Any]]:
        """Count.

        Args:
            records: Rows encoded by the schema.
            tools: The tools of the run.
            questions: What to ask, from released values.
            columns: Columns as they are learned, with bounds.
            written: Columns as they are written.
            sizes: Number of codes of each column.

        Returns:
            The questions as plain values, and the noisy counts of their answers.
        """
        if len(questions) > self.num_questions:  # the sensitivity is theirs
            raise ValueError(f"expected {self.num_questions} questions, got {len(questions)}.")
        cells = Cells(records.open(), tuple(columns), tuple(written), tuple(sizes))
        counts = [np.bincount(q.answers(cells), minlength=q.num_answers) for q in questions]
        released = gaussian_once(
            # the empty question, with an answer that no row gives: there is always something to release
            ClippedSum(np.concatenate([*counts, [0]]), max(len(questions), 1) ** 0.5),
            noise_multiplier=self.noise_multiplier,
            secret=tools.secret,
            purpose="pairs",
            touched=max(len(questions), 1),
        )
        ends = np.cumsum([len(count) for count in counts], dtype=int)
        asked = [_plain(question) for question in questions]
        return released.map(
            lambda noisy: {"asked": asked, "counts": np.split(noisy, ends)[: len(counts)]}
        )

    def result(self, value: dict[str, Any]) -> tuple[Answered, ...]:
        """The questions with their answers."""
        deviation = self.noise_multiplier * max(len(value["asked"]), 1) ** 0.5
        pairs = zip(value["asked"], value["counts"], strict=True)
        return tuple(Answered(_question(asked), counts, deviation) for asked, counts in pairs)


def _plain(question: Question) -> dict[str, Any]:
    known: dict[str, Any] = asdict(question)
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in known.items()}
    return {"kind": type(question).__name__, **plain}


def _question(asked: dict[str, Any]) -> Question:
    if asked["kind"] == "GapsOf":
        return GapsOf(asked["first"], asked["second"])
    lists = tuple(asked["expressions"]), tuple(asked["withins"])
    return RelationOf(asked["column"], asked["of"], *lists)
