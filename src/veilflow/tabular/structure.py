"""The core of a schema: the columns that a model learns, from which all others follow.

A column that is derived is not in the core. One that lies near another is there as its difference from
it, and numbers that are written in another way are there as their places. Everything here is public: it
follows from declared facts alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from veilflow.tabular.columns import Column, Numeric
from veilflow.tabular.constraint_checks import range_of_column
from veilflow.tabular.constraints import (
    Constraint,
    Derived,
    MissingIf,
    MissingTogether,
    Near,
)
from veilflow.tabular.evaluation import range_of
from veilflow.tabular.expressions import parse
from veilflow.tabular.number_columns import WIDEST, learned

_MOST_STEPS = 2.0**45
"""The most steps between zero and a bound that follows."""

Rules = dict[str, Derived | Near]
"""How each column follows from others, in an order in which they can be computed."""


def rules_of(constraints: Sequence[Constraint]) -> Rules:
    """The rules by which columns follow from others.

    Raises:
        ValueError: A column follows by two rules, or from itself.
    """
    waiting: Rules = {}
    for constraint in constraints:
        if isinstance(constraint, Derived | Near):
            if constraint.column in waiting:
                raise ValueError(
                    f"column {constraint.column!r} follows from others by two constraints. Keep one."
                )
            waiting[constraint.column] = constraint
    rules: Rules = {}
    while waiting:
        ready = [name for name, rule in waiting.items() if not waiting.keys() & rule.columns[1:]]
        if not ready:
            raise ValueError(
                f"the columns {', '.join(waiting)} follow from each other in a circle. Declare one of "
                "them without a constraint."
            )
        rules |= {name: waiting.pop(name) for name in ready}
    return rules


def sources(names: Sequence[str], rules: Rules) -> set[str]:
    """These columns, and all that they follow from."""
    needed = set(names)
    for name, rule in reversed(rules.items()):
        if name in needed:
            needed |= set(rule.columns)
    return needed


def core_columns(columns: Mapping[str, Column], rules: Rules) -> dict[str, Column]:
    """The columns of the core, in the order of the schema."""
    core: dict[str, Column] = {}
    for name, column in columns.items():
        rule = rules.get(name)
        if isinstance(rule, Derived):
            continue
        core[name] = _difference(rule, columns) if isinstance(rule, Near) else learned(column)
    return core


def core_constraints(
    constraints: Sequence[Constraint], columns: Mapping[str, Column], rules: Rules
) -> tuple[Constraint, ...]:
    """The constraints that hold in the core: rules about gaps, and all about columns as they are.

    Raises:
        ValueError: A rule about the gaps of a derived column does not follow from its operands.
    """
    same = {
        name for name, column in core_columns(columns, rules).items() if column is columns[name]
    }
    core: list[Constraint] = []
    for constraint in constraints:
        if isinstance(constraint, MissingIf | MissingTogether):
            core += _gaps(constraint, rules)
        elif not isinstance(constraint, Derived | Near) and same.issuperset(constraint.columns):
            core.append(constraint)
    for rule in rules.values():
        if isinstance(rule, Near):
            core += [MissingIf(rule.column, of) for of in _operands(rule.of, rules)]
    known: dict[Constraint, None] = dict.fromkeys(core)
    return tuple(
        one
        for one in known
        # nothing follows from a column that is never missing
        if not isinstance(one, MissingIf) or columns[one.when].nullable
    )


def bounded(columns: Mapping[str, Column], rules: Rules) -> dict[str, Column]:
    """The columns that follow from others and have no bounds, with those that follow as well."""
    known = dict(columns)
    for name, rule in rules.items():
        column = known[name]
        if not isinstance(column, Numeric) or column.low is not None:
            continue
        ranges = {n: range_of_column(known[n]) for n in rule.columns[1:]}
        numbers = {n: one for n, one in ranges.items() if one is not None}
        if isinstance(rule, Near):
            low, high = numbers[rule.of][:2]
            low, high = low - rule.within, high + rule.within
        else:
            low, high = range_of(parse(rule.expression), numbers)[:2]
        step = column.step or 1
        most = WIDEST if column.step is None else min(WIDEST, _MOST_STEPS * step)
        low, high = max(low, -most), min(high, most)
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
        known[name] = replace(column, low=low, high=high if low < high else low + step)
    return known


def _difference(rule: Near, columns: Mapping[str, Column]) -> Numeric:
    """The column of differences: on the grid of both numbers, if they share one."""
    column, of = columns[rule.column], columns[rule.of]
    assert isinstance(column, Numeric)
    assert isinstance(of, Numeric)
    step = column.step
    # a grid of too many steps would be as good as none
    fine = step is None or rule.within / step > _MOST_STEPS
    if step is None or fine or not _is_multiple(of, step, column.low):
        return Numeric(-rule.within, rule.within, nullable=column.nullable)
    most = round(math.floor(rule.within / step + 0.01) * step, 12)
    return Numeric(
        -most, most, integer=column.integer, resolution=column.resolution, nullable=column.nullable
    )


def _is_multiple(column: Numeric, step: float, origin: float | None) -> bool:
    """Whether all values of a column are whole numbers of steps from an origin."""
    own = math.inf if column.step is None else column.step / step
    away = ((column.low or 0) - (origin or 0)) / step  # bounds that are discovered lie on the grid
    if not math.isfinite(own) or not math.isfinite(away):
        return False
    return abs(own - round(own)) < 1e-9 * own and abs(away - round(away)) < 1e-6 + 1e-12 * abs(away)


def _gaps(rule: MissingIf | MissingTogether, rules: Rules) -> Iterator[Constraint]:
    """A rule about gaps for columns of the core: a derived column is missing where an operand is."""
    if isinstance(rule, MissingIf):
        when = _operands(rule.when, rules)
        if isinstance(rules.get(rule.column), Derived):
            if not set(when) <= set(_operands(rule.column, rules)):
                raise _not_implied(rule.column, rule)
            return
        yield from (MissingIf(rule.column, name) for name in when if name != rule.column)
        return
    derived = [name for name in rule.columns if isinstance(rules.get(name), Derived)]
    others = [name for name in rule.columns if name not in derived]
    for name in derived:
        if not set(_operands(name, rules)) <= set(others):
            raise _not_implied(name, rule)
    if len(others) > 1:
        yield MissingTogether(*others)


def _operands(name: str, rules: Rules) -> list[str]:
    """The columns of the core whose gaps a column has: itself, unless it is derived."""
    found, waiting = dict[str, None](), [name]
    seen = set(waiting)
    while waiting:
        rule = rules.get(one := waiting.pop())
        if not isinstance(rule, Derived):
            found[one] = None
            continue
        waiting += [other for other in rule.columns[1:] if other not in seen]
        seen |= set(rule.columns)
    return list(found)


def _not_implied(name: str, rule: MissingIf | MissingTogether) -> ValueError:
    return ValueError(
        f"{type(rule).__name__} names column {name!r}, which is derived: it is missing where an "
        "operand is. Name its operands instead."
    )
