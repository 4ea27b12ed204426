"""Columns that are equal, near, in order, or a simple function of another one."""

import itertools
from collections.abc import Iterator

import numpy as np

from veilflow.evaluation.structure.relations import (
    PARTS,
    Digits,
    Equal,
    Follows,
    GapByValue,
    ImpliedGap,
    MissingTogether,
    Near,
    Order,
    Part,
    Scaled,
    digits,
)
from veilflow.evaluation.structure.search import (
    ALWAYS,
    HOPEFUL,
    LIKELY,
    MOST_PAIRED,
    SCREENED,
    Found,
    Search,
    agreeing,
    num_values,
    paired,
    related,
    without_detours,
)
from veilflow.evaluation.structure.statement import Statement, is_number, same
from veilflow.tabular.columns import Datetime

_FLOORS = (1, 10, 100, 1000, 10_000, 1_000_000)
_KEEPS = (None, 10, 100, 1000, 10_000)
_NEAR = 0.05
"""The largest difference of near-equal columns, relative to the range of most of their values."""
_MOST_VALUES = 1000
_MOST_CELLS = 200_000


def equal(search: Search, found: Found) -> Iterator[Statement]:
    """Columns that hold the same value."""
    for i, later, x, ys in paired(search):
        for j in agreeing(same(x, ys), ys):
            yield Equal(**search.declared(search.names[i], search.names[later[j]]))
    words = [name for name, column in search.schema.columns.items() if not is_number(column)]
    sets = {n: set(search.table.values(n, search.column(n))[0]) for n in words[:MOST_PAIRED]}
    for first, second in itertools.combinations(sets, 2):
        if sets[first] & sets[second]:
            yield Equal(**search.declared(first, second))


def of_digits(search: Search, found: Found) -> Iterator[Statement]:
    """Whole numbers that are some digits of another column."""
    known = related(found)
    whole = _whole(search)
    for i in whole[:MOST_PAIRED]:
        x, ys = search.screened(i)
        taken: set[int] = set()
        for keep, floor in itertools.product(_KEEPS, _FLOORS):
            if (floor, keep) == (1, None):
                continue
            made = digits(x, floor, keep)
            if not made.size or (made == made[0]).all() or (made == x).all():
                continue
            for j in agreeing(same(made[:, None], ys), ys):
                pair = search.names[j], search.names[i]
                if j in whole and j != i and j not in taken and frozenset(pair) not in known:
                    taken.add(j)
                    yield Digits(**search.declared(*pair), floor=floor, keep=keep)


def parts_of_moments(search: Search, found: Found) -> Iterator[Statement]:
    """Numbers that are the year, the month, ... of a column of moments."""
    for i, name in enumerate(search.names):
        if not isinstance(search.column(name), Datetime):
            continue
        x, ys = search.screened(i)
        for part, of in PARTS.items():
            for j in agreeing(same(of(x)[:, None], ys), ys):
                if not isinstance(search.column(search.names[j]), Datetime):
                    yield Part(**search.declared(search.names[j], name), part=part)


def scaled(search: Search, found: Found) -> Iterator[Statement]:
    """Numbers that are another column times a factor."""
    known = related(found)
    for i, later, x, ys in paired(search):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where((x != 0) & (ys != 0), ys / x, np.nan)
        usual = _typical(ratios)
        for j in agreeing(same(ratios, usual), ratios):
            # the smaller one is made of the larger one
            factor, (one, other) = float(usual[j]), (i, later[j])
            if abs(factor) > 1:
                factor, (one, other) = 1 / factor, (other, one)
            pair = search.names[other], search.names[one]
            if factor not in (0, 1) and frozenset(pair) not in known:
                yield Scaled(**search.declared(*pair), factor=1 / float(f"{1 / factor:.6g}"))


def near(search: Search, found: Found) -> Iterator[Statement]:
    """Numbers that differ from another column by little."""
    known = related(found)
    spreads = np.array([_spread(column) for column in search.numbers.T])
    for i, later, x, ys in paired(search):
        most = _NEAR * np.minimum(spreads[i], spreads[later])
        for j in agreeing(np.abs(x - ys) <= most, ys):
            pair = search.names[i], search.names[later[j]]
            differences = np.abs(search.numbers[:, i] - search.numbers[:, later[j]])
            tolerance = _round_up(float(np.nanquantile(differences, 0.9975)))
            if frozenset(pair) not in known and 0 < tolerance <= most[j]:
                yield Near(**search.declared(*pair), tolerance=tolerance)


def ordered(search: Search, found: Found) -> Iterator[Statement]:
    """Columns that never exceed another one."""
    exact = {
        frozenset(pair)
        for one in found
        if not isinstance(one, Near | MissingTogether | ImpliedGap | GapByValue)
        for pair in itertools.combinations(one.columns, 2)
    }
    orders = []
    for i, later, x, ys in paired(search):
        pairs = [(i, later[j]) for j in agreeing(x <= ys, ys)]
        pairs += [(later[j], i) for j in agreeing(x >= ys, ys)]
        for pair in pairs:
            names = tuple(search.names[place] for place in pair)
            if frozenset(names) not in exact:
                orders.append(Order(**search.declared(*names)))
    sure = {one.columns: one for one in search.confirmed(orders)}
    yield from (sure[pair] for pair in sorted(without_detours(set(sure))))


def following(search: Search, found: Found) -> Iterator[Statement]:
    """Columns of which each value has one value of another column."""
    known = related(found)
    names = [n for n in search.schema.names if 2 <= num_values(search, n) <= _MOST_VALUES]
    done: set[frozenset[str]] = set()
    for x, y in itertools.permutations(names[:MOST_PAIRED], 2):
        pair = frozenset((x, y))
        (keys, i), (values, j) = (search.table.values(n, search.column(n)) for n in (x, y))
        cells = len(keys) * len(values)
        if pair in known or pair in done or cells > _MOST_CELLS or len(keys) < len(values):
            continue
        some = search.order[:SCREENED]
        joint = _joint(i[some], j[some], len(keys), len(values))
        if joint.max(axis=1).sum() < HOPEFUL * joint.sum():
            continue
        joint = _joint(i, j, len(keys), len(values))
        rows, most = joint.sum(), joint.sum(axis=0).max()
        if rows < 10 * len(keys) or most > LIKELY * rows:
            continue
        missed = rows - joint.max(axis=1).sum()
        if missed > (1 - ALWAYS) * min(rows, 5 * (rows - most)):
            continue
        done.add(pair)
        modal = joint.argmax(axis=1)
        pairs = tuple((key, values[place]) for key, place in zip(keys, modal, strict=True))
        yield Follows(**search.declared(y, x), pairs=pairs)


def _typical(ratios: np.ndarray) -> np.ndarray:
    """The median of the first numbers of each column; NaN where there is none."""
    some = ratios[:41]
    filled = np.sort(some, axis=0)  # NaN comes last
    counts = np.count_nonzero(~np.isnan(some), axis=0)
    return filled[np.maximum(counts - 1, 0) // 2, np.arange(some.shape[1])]


def _joint(first: np.ndarray, second: np.ndarray, *sizes: int) -> np.ndarray:
    """How often values occur together, where both columns have one."""
    both = (first >= 0) & (second >= 0)
    places = first[both] * sizes[1] + second[both]
    return np.bincount(places, minlength=sizes[0] * sizes[1]).reshape(sizes)


def _whole(search: Search) -> list[int]:
    """Columns of whole numbers."""
    numbers = np.nan_to_num(search.numbers)
    whole = (numbers == np.floor(numbers)).all(axis=0)
    return [
        place
        for place, name in enumerate(search.names)
        if whole[place] and not isinstance(search.column(name), Datetime)
    ]


def _spread(x: np.ndarray) -> float:
    present = x[~np.isnan(x)]
    return float(np.subtract(*np.quantile(present, (0.95, 0.05)))) if present.size else 0.0


def _round_up(x: float) -> float:
    """The next number with one digit, or two below 3."""
    if x <= 0:
        return 0.0
    unit = 10.0 ** np.floor(np.log10(x))
    steps = next(s for s in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if s >= x / unit * (1 - 1e-9))
    return float(f"{steps * unit:.3g}")
