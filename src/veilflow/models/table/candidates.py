"""Which pairs of columns are worth a question, from their released histograms.

A column that is a function of another has the histogram of that function's values, and a column
that is near another has nearly its histogram. This test is free, and few pairs pass it that are not
related. What would hold for unrelated columns as well, such as that two columns of zeros are equal,
is no finding and is not asked. What comes around, like the minute of a clock time, is not seen in a
histogram with noise: there only the range has to fit.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from veilflow.models.table.coder import CodedColumn, Coder
from veilflow.releases.table.questions import (
    MOST_EXPRESSIONS,
    MOST_WITHINS,
    GapsOf,
    Question,
    RelationOf,
    computed,
    expressions_of,
    numbers_of,
    tolerance,
    wheels_of,
)
from veilflow.tabular.columns import Column, Datetime, Numeric

_POINTS, _KNOTS = 2048, 32
_APART = 0.05
"""How far two distributions may be apart, as the largest difference of their shares below a number."""
_BY_CHANCE = 0.5
"""A relation that holds in more of the rows of unrelated columns is no finding."""
_NARROWEST = 10
"""Distances are the spread of a column, halved from 3 times to so many."""
_GAPS_APART = 0.02
"""How far the shares of gaps of related columns may be apart."""
_MOST_WHEELS = 8
"""Questions about what comes around, besides those that something else makes likely."""
_FILLED = 0.5
"""How much of its range a column has to fill that comes around."""
_CLEAR = 6.0
"""Deviations of its noise that an answer must be able to move."""


def questions_of(
    columns: Sequence[Column],
    coder: Coder,
    *,
    written: Sequence[Column | None],
    num_questions: int,
    deviation: float,
    num_records: float,
    follow: Sequence[bool],
) -> tuple[Question, ...]:
    """The most promising questions. Everything here reads released numbers.

    Args:
        columns: The columns as they are learned, with bounds.
        written: The columns as they are written; None for one that follows from another already.
        coder: The coder that follows from the histograms of columns.
        num_questions: The most questions.
        deviation: The standard deviation of an answer, if so many questions are asked.
        num_records: The number of records, declared or released.
        follow: Which columns may follow from others.
    """
    gaps = _gaps(coder, num_records, least=_CLEAR * deviation)
    relations = _relations(columns, written, coder, follow)
    some = max(num_questions // 3, num_questions - len(relations))
    gaps = gaps[:some]
    return (*gaps, *relations[: num_questions - len(gaps)])


def gap_shares(coder: Coder) -> Float[np.ndarray, " columns"]:
    """The released share of missing cells of each column."""
    return np.array([c.mass[-1] if c.nullable else 0.0 for c in coder.columns])


def _gaps(coder: Coder, num_records: float, *, least: float) -> list[GapsOf]:
    """Pairs of which one column may be missing wherever the other is; the likeliest first."""
    share = gap_shares(coder)
    ranked = np.argsort(share, kind="stable")
    pairs = []
    for one, two in combinations(range(len(ranked)), 2):
        few, many = share[ranked[one]], share[ranked[two]]
        # how often the rarer gap would come alone, if the two had nothing to do with each other
        alone = few * (1 - many) * num_records
        if alone >= least and few > 0:
            # columns that are missing together have equally many gaps: they are neighbors
            pairs.append((two - one > 1, -alone, int(ranked[one]), int(ranked[two])))
    return [GapsOf(one, two) for *_, one, two in sorted(pairs)]


class _Points(NamedTuple):
    """A column as its released distribution has it: equally likely numbers, in increasing order."""

    place: int
    column: Column
    numbers: Float[np.ndarray, " points"]
    gaps: float

    @property
    def spread(self) -> float:
        """The range of most of its numbers."""
        low, high = np.quantile(self.numbers, [0.05, 0.95])
        return float(high - low)


def _relations(
    columns: Sequence[Column],
    written: Sequence[Column | None],
    coder: Coder,
    follow: Sequence[bool],
) -> list[RelationOf]:
    """One question for each pair of columns that may be related; the likeliest first."""
    share = gap_shares(coder)
    known = [
        _Points(j, own, _points(columns[j], own, coded), float(share[j]))
        for j, (own, coded) in enumerate(zip(written, coder.columns, strict=True))
        if own is not None and coded.cells is not None
    ]
    targets = [one for one in known if follow[one.place] and isinstance(one.column, Numeric)]
    best: dict[tuple[int, ...], tuple[float, int, RelationOf]] = {}
    for source in known:
        for apart, question in _of(source, targets):
            pair = tuple(sorted((source.place, question.column)))
            # of two directions the better one; of equals, the later column follows
            offer = apart, int(source.place > question.column), question
            best[pair] = min(best.get(pair, offer), offer, key=lambda one: one[:2])
    likely = [question for *_, question in sorted(best.values(), key=lambda one: one[:2])]
    wheels = [wheel for source in known for wheel in _wheels(source, targets)]
    # what one column has cut off, another one may have
    cut = {
        q.of
        for q in likely
        if _is_whole(columns[q.column]) and any("//" in said for said in q.expressions)
    }
    wheels.sort(key=lambda wheel: wheel.of not in cut)
    num_first = sum(wheel.of in cut for wheel in wheels)
    near = [question for question in likely if not question.expressions]
    exact = [question for question in likely if question.expressions]
    others = wheels[num_first : num_first + _MOST_WHEELS]
    return [*exact, *wheels[:num_first], *near, *others]


def _points(column: Column, written: Column, coded: CodedColumn) -> Float[np.ndarray, " points"]:
    assert coded.bins is not None
    assert coded.cells is not None
    up_to = np.concatenate([[0.0], np.cumsum(coded.bins.mass)])
    level = (np.arange(_POINTS) + 0.5) / _POINTS * up_to[-1]
    cells = np.clip(np.searchsorted(up_to, level, side="right") - 1, 0, coded.cells.num - 1)
    within = (level - up_to[cells]) / np.maximum(coded.bins.mass[cells], 1e-300)
    positions = coded.cells.draw(cells, np.clip(within, 0.0, 1 - 1e-9))
    return np.sort(numbers_of(column, positions, written=written))


def _of(source: _Points, targets: Sequence[_Points]) -> Iterator[tuple[float, RelationOf]]:
    """What columns may be of one other, and how far apart the distributions are."""
    others = [one for one in targets if one.place != source.place and _may_follow(one, source)]
    if not others:
        return
    steps = np.linspace(0, _POINTS - 1, _KNOTS).astype(int)
    knots = np.stack([one.numbers[steps] for one in others])
    ranks = np.stack([_below(one.numbers, one.numbers[steps]) for one in others])
    seen: set[bytes] = set()
    fits: dict[int, list[tuple[float, str]]] = {}
    for expression in expressions_of(source.column):
        said = np.sort(computed(expression, source.numbers))
        if said.tobytes() in seen:  # as `x % 1000000` is `x` of a small number
            continue
        seen.add(said.tobytes())
        reach = np.array([tolerance(source.column, one.column, expression) for one in others])
        # a look at a few numbers of all columns at once, then at all numbers of few columns
        above = ranks - _below(said, knots + reach[:, None])
        below = _below(said, knots - reach[:, None] * (1 + 1e-6)) - ranks
        close = np.maximum(above, below).max(axis=1) <= _APART + 2 / _KNOTS
        for i in np.flatnonzero(close):
            apart = _distance(said, others[i].numbers, float(reach[i]))
            chance = _by_chance(said, others[i].numbers, float(reach[i]))
            as_often = others[i].gaps <= source.gaps + _GAPS_APART  # as what is computed is missing
            if as_often and apart <= _APART and chance <= _BY_CHANCE:
                fits.setdefault(int(i), []).append((apart, expression))
    for i, other in enumerate(others):
        withins = _withins(source, other) if isinstance(source.column, Numeric) else ()
        fit = sorted(fits.get(i, []))[:MOST_EXPRESSIONS]
        apart = min([one for one, _ in fit], default=np.inf)
        if withins:
            apart = min(apart, _distance(source.numbers, other.numbers, withins[-1]))
        if apart <= _APART:
            expressions = tuple(expression for _, expression in fit)
            yield apart, RelationOf(other.place, source.place, expressions, withins)


def _wheels(source: _Points, targets: Sequence[_Points]) -> Iterator[RelationOf]:
    """Questions about what comes around: the hour of a moment, the minute of a clock time."""
    for target in targets:
        if target.place == source.place or not _may_follow(target, source):
            continue
        if target.gaps > source.gaps + _GAPS_APART or not _is_whole(target.column):
            continue
        low, high = np.quantile(target.numbers, [0.002, 0.998])
        fit = [
            (end - start, expression)
            for expression, (start, end) in wheels_of(source.column).items()
            if start <= low + 1e-9
            and high <= end + 1e-9
            and high - low >= _FILLED * (end - start)
            and (isinstance(source.column, Datetime) or source.spread > 2 * end)
        ]
        if fit and _by_chance(target.numbers, target.numbers, 0.5) <= _BY_CHANCE:
            expressions = tuple(expression for _, expression in sorted(fit)[:MOST_EXPRESSIONS])
            yield RelationOf(target.place, source.place, expressions)


def _is_whole(column: Column) -> bool:
    return isinstance(column, Numeric) and column.integer


def _may_follow(target: _Points, source: _Points) -> bool:
    nullable = target.column.nullable or not source.column.nullable
    return nullable and target.gaps >= source.gaps - _GAPS_APART


def _withins(source: _Points, target: _Points) -> tuple[float, ...]:
    """Distances that say something, if the two distributions allow the largest of them."""
    step = getattr(target.column, "step", None) or 0.0
    halved = [target.spread / 2**k for k in range(_NARROWEST, 2, -1)]
    if step:
        digits = getattr(target.column, "digits", 0)
        halved = [round(np.ceil(one / step - 1e-9) * step, digits) for one in halved]
    known = sorted({float(one) for one in halved if one > 0})[-MOST_WITHINS:]
    known = [t for t in known if _by_chance(source.numbers, target.numbers, t) <= _BY_CHANCE / 2]
    if not known or _distance(source.numbers, target.numbers, known[-1]) > _APART:
        return ()
    return tuple(known)


def _below(
    numbers: Float[np.ndarray, " points"], at: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """The share of the numbers that are at most so large."""
    return np.searchsorted(numbers, at, side="right") / len(numbers)


def _distance(
    one: Float[np.ndarray, " points"], two: Float[np.ndarray, " points"], reach: float
) -> float:
    """By how much one distribution exceeds the other moved by `reach`, either way and anywhere."""
    first = _below(one, one) - _below(two, one + reach)
    second = _below(two, two) - _below(one, two + reach)
    return float(max(first.max(), second.max()))


def _by_chance(
    one: Float[np.ndarray, " points"], two: Float[np.ndarray, " points"], reach: float
) -> float:
    """The share of rows in which the two are that close, if they have nothing to do with each other."""
    high, low = _below(two, one + reach), np.searchsorted(two, one - reach) / len(two)
    return float((high - low).mean())
