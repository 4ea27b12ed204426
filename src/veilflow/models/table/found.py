"""What answers about pairs of columns say of all rows: constraints, as a person would declare them.

A relation is found if it holds in all rows but half a per cent, as far as noise can tell. Rows that
contradict it are then made to hold it, each by itself, as for a declared one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from veilflow.releases.table.pairs import Answered
from veilflow.releases.table.questions import GapsOf, RelationOf
from veilflow.tabular.columns import Column, Numeric
from veilflow.tabular.constraints import Constraint, Derived, MissingIf, MissingTogether, Near
from veilflow.tabular.expressions import quoted

FOUND = (Derived, Near, MissingIf, MissingTogether)
"""The kinds of constraints that are found."""
_WRONG, _MOST_WRONG = 0.005, 0.02
"""Share of the rows that may contradict a relation; with the noise of an answer, and at most."""
_HOLDS = 0.05
"""Share of the rows in which a relation must hold between two values."""
_NOISE = 3.0
"""Deviations of the noise up to which a count is taken for none."""
_ALONE = 0.03
"""Share of the gaps of a column that may contradict a rule."""


def found_in(
    answers: Iterable[Answered],
    columns: Mapping[str, Column],
    *,
    num_records: float,
    most_near: int,
    label: str | None = None,
) -> tuple[Constraint, ...]:
    """The constraints that follow from the answers.

    Args:
        answers: Questions and their noisy answers.
        columns: The columns that questions name by place.
        num_records: The number of records, declared or released.
        most_near: The most columns that may lie near others.
        label: The column to predict, which follows from no other one.
    """
    answers, names = tuple(answers), tuple(columns)
    relations = _put_together(
        tuple(_relations(answers, columns, num_records, most_near)), columns, label
    )
    # a column that is computed is missing where its source is
    source = {
        names.index(one.column): names.index(one.columns[1])
        for one in relations
        if isinstance(one, Derived)
    }
    implied = np.eye(len(names), dtype=bool)
    for one in relations:
        if isinstance(one, Derived) and columns[one.column].nullable:
            parts = [names.index(name) for name in one.columns[1:]]
            implied[np.ix_(parts, parts)] = True
    for first, second in _implied(answers):
        implied[source.get(first, first), source.get(second, second)] = True
    return (*relations, *_rules(implied, names))


def _relations(
    answers: Sequence[Answered], columns: Mapping[str, Column], num_records: float, most_near: int
) -> Iterator[Derived | Near]:
    """Relations, none of which rests on a column that another one computes."""
    names = tuple(columns)
    known: dict[str, Any] = {
        "nullable": [column.nullable for column in columns.values()],
        "num_records": num_records,
    }
    offers: list[tuple[bool, float, int, RelationOf, Derived | Near]] = []
    for number, answered in enumerate(answers):
        question = answered.question
        if not isinstance(question, RelationOf):
            continue
        name, other = names[question.column], names[question.of]
        for expression in question.expressions:
            said = question.said_by(expression)
            wrong, noise = answered.others(said, **known)
            holds = num_records - wrong - answered.counts[3]
            most = min(_WRONG * num_records + 2 * noise, _MOST_WRONG * num_records)
            clear = noise <= _MOST_WRONG / 2 * num_records
            if clear and wrong <= most and holds >= _HOLDS * num_records:
                text = re.sub(r"\bx\b", lambda _, name=other: quoted(name), expression)
                offers.append((False, wrong, number, question, Derived(name, text)))
        for distance in question.withins:
            outside, noise = answered.others(question.within(distance), **known)
            most = min(_WRONG * num_records + noise, _MOST_WRONG * num_records)
            clear = noise <= _MOST_WRONG / 2 * num_records
            holds = num_records - outside - answered.counts[1] - answered.counts[3]
            if clear and outside <= most and holds >= _HOLDS * num_records:
                offers.append((True, outside, number, question, Near(name, other, distance)))
                break
    computed: set[int] = set()
    sources: set[int] = set()
    for *_, question, relation in sorted(offers, key=lambda offer: offer[:3]):
        if question.column in computed | sources or question.of in computed:
            continue
        if isinstance(relation, Near):
            if most_near == 0:
                continue
            most_near -= 1
        computed.add(question.column)
        sources.add(question.of)
        yield relation


def _put_together(
    relations: tuple[Derived | Near, ...], columns: Mapping[str, Column], label: str | None
) -> tuple[Derived | Near, ...]:
    """The relations, in which a number of two parts follows from these where both are there.

    So hours and minutes are learned, and the clock time `100 * hour + minute` always is one.
    """
    for whole, column in columns.items():
        own = [one for one in relations if whole in one.columns[1:]]
        ends = {one.expression: one.column for one in own if isinstance(one, Derived)}
        for expression, front in ends.items():
            name, sign, size = expression.rpartition(" // ")
            back = ends.get(f"{name} % {size}")
            if (
                not sign
                or not back
                or len(own) > 2
                or whole == label
                or type(column) is not Numeric
            ):
                continue
            if len({columns[name].nullable for name in (whole, front, back)}) == 1:
                said = f"{quoted(front)} * {size} + {quoted(back)}"
                rest = tuple(one for one in relations if one not in own)
                relations = (*rest, Derived(whole, said))
    return relations


def _implied(answers: Sequence[Answered]) -> Iterator[tuple[int, int]]:
    """Pairs of columns of which the second is missing wherever the first is."""
    for question, counts, deviation in answers:
        if not isinstance(question, GapsOf):
            continue
        for first, second, alone in (
            (question.first, question.second, counts[1]),
            (question.second, question.first, counts[2]),
        ):
            gaps = max(alone, 0.0) + max(counts[3], 0.0)
            few = alone <= max(_NOISE * deviation, _ALONE * gaps)
            if few and gaps >= 2 * _NOISE * deviation:
                yield first, second


def _rules(implied: np.ndarray, names: Sequence[str]) -> Iterator[MissingIf | MissingTogether]:
    """Rules that say which columns are missing with which, without those that follow from others."""
    for middle in range(len(names)):
        implied = implied | np.outer(implied[:, middle], implied[middle])
    together = implied & implied.T
    first = together.argmax(axis=1)  # of each group of columns that are missing together
    groups: list[list[int]] = [np.flatnonzero(first == j).tolist() for j in np.unique(first)]
    for group in groups:
        if len(group) > 1:
            yield MissingTogether(*(names[j] for j in group))
    one = [group[0] for group in groups]
    for j, k in [pair for a, b in combinations(one, 2) for pair in ((a, b), (b, a))]:
        between = any(implied[j, m] and implied[m, k] for m in one if m not in (j, k))
        if implied[j, k] and not between:
            yield MissingIf(names[k], when=names[j])
