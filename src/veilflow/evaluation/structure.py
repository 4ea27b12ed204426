"""What always holds in the rows of a table, found in the rows themselves: as private as they are.

Statements are looked for in a sample of the rows, and measured in all of them. One is kept if it holds
in nearly all rows, and would not if the columns had nothing to do with each other: that `age <= income`
is no finding if any age is below any income.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from veilflow._core import check
from veilflow.evaluation import _columns_structure as single
from veilflow.evaluation._cells import check_frames, subsample
from veilflow.evaluation.statements import (
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
    Product,
    Scaled,
    Statement,
    Table,
    Total,
    digits,
    is_number,
    measured,
    same,
    share_kept,
    shares_kept,
)
from veilflow.tabular.columns import Column, Datetime
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Statement", "find_structure", "share_kept", "shares_kept"]

ALWAYS = 0.99
"""The share of rows from which on something "always" holds: real tables have errors, too."""
_LEAST_ROWS = 30
_LEAST_SUPPORT = 0.002
_LIKELY = 0.9
"""What holds this often by chance is no finding."""
_SCREENED = 400
"""Rows on which pairs are tried before all are looked at."""
_HOPEFUL = 0.95
_FLOORS = (1, 10, 100, 1000, 10_000, 1_000_000)
_KEEPS = (None, 10, 100, 1000, 10_000)
_NEAR = 0.05
"""The largest difference of near-equal columns, relative to the range of most of their values."""
_MOST_VALUES = 1000
_MOST_CELLS = 200_000
_MOST_SUMMED = 60
"""The most columns of numbers that are tried for sums and products: the triples are too many else."""
_MOST_PAIRED = 300
"""The most columns of numbers of which all pairs are tried."""


def find_structure(
    frame: "pd.DataFrame", schema: Schema, *, max_rows: int = 20_000, seed: int = 0
) -> tuple[Statement, ...]:
    """Find what holds in nearly all rows: gaps, equal columns, order, functions, round numbers, lists.

    The result holds facts about the rows and is as private as they are.

    Args:
        frame: Rows, with all columns of the schema.
        schema: The declared columns; bounds may be unknown.
        max_rows: The most rows to look in. All rows are used to measure what was found there.
        seed: The seed by which these rows are drawn.

    Returns:
        Statements with their share in all rows: about gaps first, then about several columns, then
        about single ones.
    """
    check.count(max_rows=max_rows, at_least=_LEAST_ROWS)
    check_frames(schema, frame=frame)
    search = _Search.of(subsample(frame, max_rows, seed=seed), schema, seed)
    table = Table(frame)
    found: list[Statement] = []
    for look in (_gaps, _equal, _digits, _parts, _scaled, _sums, _products, _near, _order, _follow):
        found += search.confirmed(look(search, tuple(found)))
    for name, column in schema.columns.items():
        if is_number(column) and not any(_makes(one, name) for one in found):
            found += single.statements(name, column, search.table, table)
    kept = []
    for statement in found:
        share, support = measured(statement, table)
        if share >= (ALWAYS if statement.is_rule else 0) and support > 0:
            kept.append(dataclasses.replace(statement, share=share, support=support))
    return tuple(kept)


def _makes(statement: Statement, name: str) -> bool:
    """Whether a statement says what a column is: then what holds in it alone is no news."""
    return isinstance(statement, Digits | Part | Follows | Total) and statement.columns[0] == name


@dataclass(frozen=True)
class _Search:
    """The sample that is looked in."""

    table: Table
    schema: Schema
    names: tuple[str, ...]
    """The columns of numbers."""
    numbers: np.ndarray
    """Their numbers, one column each; NaN where there is none."""
    order: np.ndarray
    """The rows in random order: what holds after shuffling one column, holds by chance."""

    @classmethod
    def of(cls, frame: "pd.DataFrame", schema: Schema, seed: int) -> "_Search":
        table = Table(frame)
        names = tuple(name for name, column in schema.columns.items() if is_number(column))
        columns = [table.numbers(name, schema.columns[name]) for name in names]
        order = np.random.default_rng(seed).permutation(len(frame))
        numbers = np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
        return cls(table, schema, names, numbers, order)

    def column(self, name: str) -> Column:
        return self.schema.columns[name]

    def declared(self, *names: str) -> dict[str, tuple]:
        """The columns of a statement."""
        return {"columns": names, "declared": tuple(self.column(name) for name in names)}

    def place(self, name: str) -> int:
        return self.names.index(name)

    def screened(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Some rows in which a column has a number: its numbers, and those of all columns."""
        rows = self.order[~np.isnan(self.numbers[self.order, place])][:_SCREENED]
        return self.numbers[rows, place], self.numbers[rows]

    def confirmed(self, statements: Iterable[Statement]) -> list[Statement]:
        """The statements that hold in the sample, but not if one column is shuffled."""
        return [one for one in statements if self._holds(one)]

    def _holds(self, statement: Statement) -> bool:
        spoken, holds = statement.masks(self.table)
        count = np.count_nonzero(spoken)
        if count < _LEAST_ROWS or count < _LEAST_SUPPORT * len(spoken):
            return False
        if np.count_nonzero(holds & spoken) < ALWAYS * count:
            return False
        if isinstance(statement, MissingTogether | Total):
            return True  # gaps are compared where one is, and sums of many columns are no chance
        shuffled = _Shuffled(self.table, statement.columns[0], self.order)
        by_chance, holding = statement.masks(shuffled)
        least = np.count_nonzero(by_chance)
        return np.count_nonzero(by_chance & holding) <= _LIKELY * least


class _Shuffled(Table):
    """A table in which the cells of one column belong to other rows."""

    def __init__(self, table: Table, name: str, order: np.ndarray) -> None:
        super().__init__(table.frame)
        self._table, self._name, self._order = table, name, order

    def numbers(self, name: str, column: Column) -> np.ndarray:
        numbers = self._table.numbers(name, column)
        return numbers[self._order] if name == self._name else numbers

    def values(self, name: str, column: Column) -> tuple[list, np.ndarray]:
        values, places = self._table.values(name, column)
        return values, places[self._order] if name == self._name else places


Found = tuple[Statement, ...]


def _gaps(search: _Search, found: Found) -> Iterator[Statement]:
    """Columns that are empty together, because another is, or because another has some value."""
    columns = search.schema.columns
    gaps = {name: search.table.missing(name, column) for name, column in columns.items()}
    gaps = {name: gap for name, gap in gaps.items() if _LEAST_ROWS <= gap.sum() < len(gap)}
    names = list(gaps)
    if not names:
        return
    masks = np.stack([gaps[name] for name in names]).astype(np.float32)
    both, each = masks @ masks.T, masks.sum(axis=1)
    either = each[:, None] + each[None] - both
    groups = _groups(both >= ALWAYS * either)
    for group in groups:
        if len(group) > 1:
            yield MissingTogether(**search.declared(*(names[i] for i in group)))
    firsts = [group[0] for group in groups]
    implied = {
        (i, j)
        for i, j in itertools.permutations(firsts, 2)
        if both[i, j] >= ALWAYS * each[i] and each[j] <= _LIKELY * len(masks[0])
    }
    for i, j in sorted(_without_detours(implied)):
        yield ImpliedGap(**search.declared(names[i], names[j]))
    few = [name for name in columns if _num_values(search, name) <= 50]
    for i in firsts:
        ranked = [one for name in few if (one := _gap_by_value(search, names[i], gaps, name))]
        yield from [one for _, one in sorted(ranked, key=lambda pair: -pair[0])[:1]]


def _gap_by_value(
    search: _Search, name: str, gaps: dict[str, np.ndarray], other: str
) -> tuple[float, Statement] | None:
    """Values of another column where this one is empty, and how many of its gaps they explain."""
    gap = gaps[name]
    values, places = search.table.values(other, search.column(other))
    if name == other or len(values) < 2:
        return None
    counts = np.bincount(places + 1, minlength=len(values) + 1)[1:]
    empty = np.bincount(places + 1, weights=gap, minlength=len(values) + 1)[1:]
    chosen = (counts >= 10) & (empty >= ALWAYS * counts)
    if not chosen.any() or chosen.all():
        return None
    explained = empty[chosen].sum() / gap.sum()
    statement = GapByValue(
        **search.declared(name, other),
        values=tuple(value for value, here in zip(values, chosen, strict=True) if here),
        only=bool(explained >= ALWAYS),
    )
    return explained, statement


def _equal(search: _Search, found: Found) -> Iterator[Statement]:
    for i, later, x, ys in _paired(search):
        for j in _agreeing(same(x, ys), ys):
            yield Equal(**search.declared(search.names[i], search.names[later[j]]))
    words = [name for name, column in search.schema.columns.items() if not is_number(column)]
    sets = {n: set(search.table.values(n, search.column(n))[0]) for n in words[:_MOST_PAIRED]}
    for first, second in itertools.combinations(sets, 2):
        if sets[first] & sets[second]:
            yield Equal(**search.declared(first, second))


def _digits(search: _Search, found: Found) -> Iterator[Statement]:
    known = _related(found)
    whole = _whole(search)
    for i in whole[:_MOST_PAIRED]:
        x, ys = search.screened(i)
        taken: set[int] = set()
        for keep, floor in itertools.product(_KEEPS, _FLOORS):
            if (floor, keep) == (1, None):
                continue
            made = digits(x, floor, keep)
            if not made.size or (made == made[0]).all() or (made == x).all():
                continue
            for j in _agreeing(same(made[:, None], ys), ys):
                pair = search.names[j], search.names[i]
                if j in whole and j != i and j not in taken and frozenset(pair) not in known:
                    taken.add(j)
                    yield Digits(**search.declared(*pair), floor=floor, keep=keep)


def _parts(search: _Search, found: Found) -> Iterator[Statement]:
    for i, name in enumerate(search.names):
        if not isinstance(search.column(name), Datetime):
            continue
        x, ys = search.screened(i)
        for part, of in PARTS.items():
            for j in _agreeing(same(of(x)[:, None], ys), ys):
                if not isinstance(search.column(search.names[j]), Datetime):
                    yield Part(**search.declared(search.names[j], name), part=part)


def _scaled(search: _Search, found: Found) -> Iterator[Statement]:
    known = _related(found)
    for i, later, x, ys in _paired(search):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where((x != 0) & (ys != 0), ys / x, np.nan)
        usual = _typical(ratios)
        for j in _agreeing(same(ratios, usual), ratios):
            # the smaller one is made of the larger one
            factor, (one, other) = float(usual[j]), (i, later[j])
            if abs(factor) > 1:
                factor, (one, other) = 1 / factor, (other, one)
            pair = search.names[other], search.names[one]
            if factor not in (0, 1) and frozenset(pair) not in known:
                yield Scaled(**search.declared(*pair), factor=1 / float(f"{1 / factor:.6g}"))


def _sums(search: _Search, found: Found) -> Iterator[Statement]:
    """One column is the sum of two others, or of several."""
    known = _related(found)
    places = _measured(search)
    seen: set[frozenset[str]] = set()
    for i, j in itertools.combinations(places, 2):
        x, ys = search.screened(i)
        made = x + ys[:, j]
        for z in _agreeing(_close(made, ys), ys, made):
            names = tuple(search.names[k] for k in (z, i, j))
            group = frozenset(names)
            pairs = map(frozenset, itertools.combinations(names, 2))
            if len(group) == 3 and group not in seen and not known & set(pairs):
                seen.add(group)
                yield Total(**search.declared(*names), signs=(1, 1))
    yield from _long_sums(search, places, seen)


def _long_sums(
    search: _Search, places: list[int], seen: set[frozenset[str]]
) -> Iterator[Statement]:
    """Sums of three and more columns, by least squares on rows without gaps."""
    few = [k for k in places if np.isnan(search.numbers[:, k]).mean() < 0.2]
    rows = search.numbers[search.order][:, few]
    rows = rows[~np.isnan(rows).any(axis=1)][: max(_SCREENED, 10 * len(few))]
    scale = np.abs(rows).max(axis=0, initial=1e-9)
    if len(rows) < max(5 * len(few), 2 * _LEAST_ROWS):
        return
    for k in np.argsort(-np.abs(rows).mean(axis=0)):
        others = np.delete(np.arange(len(few)), k)
        weights, _, rank, _ = np.linalg.lstsq(
            rows[:, others] / scale[others], rows[:, k], rcond=None
        )
        weights = weights / scale[others]
        signs = np.round(weights)
        used = np.flatnonzero(signs)
        exact = np.abs(weights - signs) < 1e-6
        if len(used) < 3 or (np.abs(signs) > 1).any() or not exact.all() or rank < len(others):
            continue
        names = [search.names[few[k]], *(search.names[few[others[u]]] for u in used)]
        if frozenset(names) not in seen:
            seen.add(frozenset(names))
            yield Total(**search.declared(*names), signs=tuple(int(signs[u]) for u in used))


def _products(search: _Search, found: Found) -> Iterator[Statement]:
    known = _related(found)
    places = _measured(search)
    for i, j in itertools.combinations_with_replacement(places, 2):
        x, ys = search.screened(i)
        made = x * ys[:, j]
        if np.count_nonzero(np.isin(np.abs(ys[:, j]), (0, 1))) > len(ys) / 2:
            continue  # a product with 0 and 1 is no product
        for z in _agreeing(same(made[:, None], ys), ys, made):
            names = tuple(search.names[k] for k in (z, i, j))
            pairs = map(frozenset, itertools.combinations(names, 2))
            if z not in (i, j) and not known & set(pairs):
                yield Product(**search.declared(*names))


def _near(search: _Search, found: Found) -> Iterator[Statement]:
    known = _related(found)
    spreads = np.array([_spread(column) for column in search.numbers.T])
    for i, later, x, ys in _paired(search):
        most = _NEAR * np.minimum(spreads[i], spreads[later])
        for j in _agreeing(np.abs(x - ys) <= most, ys):
            pair = search.names[i], search.names[later[j]]
            differences = np.abs(search.numbers[:, i] - search.numbers[:, later[j]])
            tolerance = _round_up(float(np.nanquantile(differences, 0.9975)))
            if frozenset(pair) not in known and 0 < tolerance <= most[j]:
                yield Near(**search.declared(*pair), tolerance=tolerance)


def _order(search: _Search, found: Found) -> Iterator[Statement]:
    exact = {
        frozenset(pair)
        for one in found
        if not isinstance(one, Near | MissingTogether | ImpliedGap | GapByValue)
        for pair in itertools.combinations(one.columns, 2)
    }
    orders = []
    for i, later, x, ys in _paired(search):
        pairs = [(i, later[j]) for j in _agreeing(x <= ys, ys)]
        pairs += [(later[j], i) for j in _agreeing(x >= ys, ys)]
        for pair in pairs:
            names = tuple(search.names[place] for place in pair)
            if frozenset(names) not in exact:
                orders.append(Order(**search.declared(*names)))
    sure = {one.columns: one for one in search.confirmed(orders)}
    yield from (sure[pair] for pair in sorted(_without_detours(set(sure))))


def _follow(search: _Search, found: Found) -> Iterator[Statement]:
    """Columns of which each value has one value of another column."""
    known = _related(found)
    names = [n for n in search.schema.names if 2 <= _num_values(search, n) <= _MOST_VALUES]
    done: set[frozenset[str]] = set()
    for x, y in itertools.permutations(names[:_MOST_PAIRED], 2):
        pair = frozenset((x, y))
        (keys, i), (values, j) = (search.table.values(n, search.column(n)) for n in (x, y))
        cells = len(keys) * len(values)
        if pair in known or pair in done or cells > _MOST_CELLS or len(keys) < len(values):
            continue
        some = search.order[:_SCREENED]
        joint = _joint(i[some], j[some], len(keys), len(values))
        if joint.max(axis=1).sum() < _HOPEFUL * joint.sum():
            continue
        joint = _joint(i, j, len(keys), len(values))
        rows, most = joint.sum(), joint.sum(axis=0).max()
        if rows < 10 * len(keys) or most > _LIKELY * rows:
            continue
        missed = rows - joint.max(axis=1).sum()
        if missed > (1 - ALWAYS) * min(rows, 5 * (rows - most)):
            continue
        done.add(pair)
        modal = joint.argmax(axis=1)
        pairs = tuple((key, values[place]) for key, place in zip(keys, modal, strict=True))
        yield Follows(**search.declared(y, x), pairs=pairs)


def _paired(search: _Search) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Each column of numbers, the later ones of its kind, and the rows on which they are compared."""
    names = search.names[:_MOST_PAIRED]
    moments = np.array([isinstance(search.column(name), Datetime) for name in names])
    for i in range(len(names)):
        later = i + 1 + np.flatnonzero(moments[i + 1 :] == moments[i])
        x, ys = search.screened(i)
        yield i, later, x[:, None], ys[:, later]


def _typical(ratios: np.ndarray) -> np.ndarray:
    """The median of the first numbers of each column; NaN where there is none."""
    some = ratios[:41]
    filled = np.sort(some, axis=0)  # NaN comes last
    counts = np.count_nonzero(~np.isnan(some), axis=0)
    return filled[np.maximum(counts - 1, 0) // 2, np.arange(some.shape[1])]


def _agreeing(agrees: np.ndarray, others: np.ndarray, made: np.ndarray | None = None) -> list[int]:
    """The columns that agree in most rows in which they have a number."""
    present = ~np.isnan(others)
    if made is not None:
        present &= ~np.isnan(made)[:, None]
    counts = present.sum(axis=0)
    enough = (counts >= _LEAST_ROWS / 2) & (agrees.sum(axis=0) >= _HOPEFUL * counts)
    return np.flatnonzero(enough).tolist()


def _close(made: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.abs(made[:, None] - others) <= 1e-6 * np.abs(others)


def _measured(search: _Search) -> list[int]:
    """Columns of numbers that vary much, and so may be sums: the first ones."""
    return [
        place
        for place, name in enumerate(search.names)
        if search.column(name).kind == "numeric" and _num_values(search, name) > 10
    ][:_MOST_SUMMED]


def _whole(search: _Search) -> list[int]:
    """Columns of whole numbers."""
    numbers = np.nan_to_num(search.numbers)
    whole = (numbers == np.floor(numbers)).all(axis=0)
    return [
        place
        for place, name in enumerate(search.names)
        if whole[place] and not isinstance(search.column(name), Datetime)
    ]


def _num_values(search: _Search, name: str) -> int:
    return len(search.table.values(name, search.column(name))[0])


def _joint(first: np.ndarray, second: np.ndarray, *sizes: int) -> np.ndarray:
    """How often values occur together, where both columns have one."""
    both = (first >= 0) & (second >= 0)
    places = first[both] * sizes[1] + second[both]
    return np.bincount(places, minlength=sizes[0] * sizes[1]).reshape(sizes)


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


def _related(found: Found) -> set[frozenset[str]]:
    """Pairs of columns of which something exact is known."""
    exact = (one for one in found if isinstance(one, Equal | Digits | Part | Scaled | Product))
    return {frozenset(pair) for one in exact for pair in itertools.combinations(one.columns, 2)}


def _groups(alike: np.ndarray) -> list[list[int]]:
    """Places in groups of which all are like the first."""
    groups: list[list[int]] = []
    for place in range(len(alike)):
        home = next((group for group in groups if alike[group[0], place]), None)
        if home is None:
            groups.append([place])
        else:
            home.append(place)
    return groups


def _without_detours(pairs: set[tuple]) -> set[tuple]:
    """The pairs that do not follow from two others."""
    after: dict = {}
    for first, second in pairs:
        after.setdefault(first, set()).add(second)
    return {
        (first, second)
        for first, second in pairs
        if not any(second in after.get(middle, ()) for middle in after[first] - {first, second})
    }
