"""From the cells of a table to those of its core, and back: a public map, row by row.

Into the core: numbers are moved to what is declared, and replaced by what is learned, such as a
difference. Derived columns are not even read. Out of it: every column is computed from the core.
Records that contradict the declared facts are moved like numbers out of bounds, and never are an error.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from veilflow.tabular.cells import read_column
from veilflow.tabular.columns import Boolean, Column, Datetime, Listed, Numeric
from veilflow.tabular.constraints import Derived, Near
from veilflow.tabular.evaluation import evaluate
from veilflow.tabular.expressions import copied, parse
from veilflow.tabular.facts import EPOCH
from veilflow.tabular.frames import Block, Blocks, open_table
from veilflow.tabular.number_columns import Values, from_places, moved, to_places
from veilflow.tabular.schema import Schema
from veilflow.tabular.structure import sources

_CLOSE = 1e-9
"""Relative to a largest difference: decimals are not exact in binary."""


def open_core(
    source: Any, schema: Schema, *, chunk: int, invalid: str = "error", extra: str = "ignore"
) -> Blocks:
    """Open a table for reading as the columns of a schema's core; see `open_table`.

    Columns that are derived need not be in the table, and are not read if they are.

    Args:
        source: A file or a frame.
        schema: The declared columns.
        chunk: Rows of a block of a file.
        invalid: See `encode`; "replace" reads every line of text by itself.
        extra: See `encode`.
    """
    names, blocks = open_table(source, chunk=chunk, by_line=invalid == "replace")
    at = _places_in(names, schema, extra)

    def core(block: Block) -> Block:
        known: dict[str, Values] = {}

        def cell(place: int) -> pa.Array:
            name = schema.core.names[place]
            if name not in schema.rewritten:
                return block(at[name])
            if not known:
                known.update(_core_numbers(schema, lambda name: block(at[name]), invalid))
            return pa.array(known[name], mask=np.isnan(known[name]))

        return cell

    return Blocks(schema.core.names, (core(block) for block in blocks))


def _places_in(names: tuple[str, ...], schema: Schema, extra: str) -> dict[str, int]:
    """The places among the names of a table of all columns that are not derived."""
    read = [name for name in schema.names if name in schema.core.columns]
    if not set(names) & set(schema.names):
        # not quoted: without a header, the first line is a record
        raise ValueError(
            "the table has none of the columns of the schema. Does its first line name the columns, "
            "with commas, semicolons, tabs or bars between them?"
        )
    check_columns(read, names)
    strange = [name for name in names if name not in schema.columns]
    if strange and extra == "error":
        shown = ", ".join(map(repr, strange[:5])) + (", ..." if len(strange) > 5 else "")
        raise ValueError(
            f"the table has columns that are not in the schema: {shown}. Declare them, drop them, or "
            'pass extra="ignore" (--extra ignore).'
        )
    return {name: names.index(name) for name in read}


def check_columns(declared: Iterable[str], names: Sequence[str]) -> None:
    """Raise unless a table with columns of these names has all declared ones."""
    for name in declared:
        if name not in names:
            raise ValueError(f"the table has no column {name!r}, which the schema declares.")


def _core_numbers(
    schema: Schema, array: Callable[[str], pa.Array], invalid: str
) -> dict[str, Values]:
    """The numbers of the core's columns that are learned in another way than they are written."""
    rules, core = schema.rules, {}
    known: dict[str, Values] = {}
    near = [name for name, rule in rules.items() if isinstance(rule, Near)]
    needed = sources(near, rules)
    for name in schema.names:
        if name in schema.core.columns and (name in needed or name in schema.rewritten):
            known[name] = read_values(name, schema.columns[name], array(name), invalid)
    num_rows = len(next(iter(known.values())))
    for name, rule in rules.items():
        if name not in needed:
            continue
        column = schema.columns[name]
        if isinstance(rule, Derived):
            known[name] = derived(rule, column, known, num_rows)
        else:
            assert isinstance(column, Numeric)
            away = known[name] - known[rule.of]
            core[name] = moved(_numeric(schema.core.columns[name]), away)
            known[name] = _near(rule, column, known[rule.of], core[name])
    for name in schema.rewritten:
        if name not in core:
            core[name] = to_places(_numeric(schema.columns[name]), known[name])
    return core


def full_table(core: pa.Table, schema: Schema, names: Sequence[str] | None = None) -> pa.Table:
    """The table of all columns, from that of the core.

    Args:
        core: The decoded columns of the core; of them only those that `names` depend on are needed.
        schema: The declared columns.
        names: The columns of the result; all of them if None.
    """
    names = schema.names if names is None else names
    needed = sources(names, schema.rules)
    arrays: dict[str, Any] = {}
    known: dict[str, Values] = {}

    def numbers(name: str) -> Values:
        if name not in known:
            known[name] = doubles(arrays[name], schema.columns[name])
        return known[name]

    for name in core.column_names:
        column, rule = schema.columns[name], schema.rules.get(name)
        if name not in schema.rewritten:
            arrays[name] = core.column(name)
        elif rule is None:
            places = doubles(core.column(name), schema.core.columns[name])
            known[name] = from_places(_numeric(column), places)
            arrays[name] = to_cells(column, known[name])
    for name, rule in schema.rules.items():
        if name not in needed:
            continue
        column = schema.columns[name]
        source = copied(parse(rule.expression)) if isinstance(rule, Derived) else None
        if source is not None and not isinstance(column, Numeric):
            arrays[name] = arrays[source]
            continue
        if isinstance(rule, Derived):
            operands = {one: numbers(one) for one in rule.columns[1:]}
            known[name] = derived(rule, column, operands, len(core))
        else:
            away = doubles(core.column(name), schema.core.columns[name])
            known[name] = _near(rule, _numeric(column), numbers(rule.of), away)
        arrays[name] = to_cells(column, known[name])
    chosen = [field for field in arrow_schema(schema) if field.name in names]
    return pa.table([arrays[field.name] for field in chosen], schema=pa.schema(chosen))


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a decoded table, with their types."""
    return pa.schema(
        [pa.field(name, cell_type(c), nullable=c.nullable) for name, c in schema.columns.items()]
    )


def cell_type(column: Column) -> Any:
    """The type in which pyarrow holds a decoded column."""
    if isinstance(column, Numeric):
        return pa.int64() if column.integer else pa.float64()
    if isinstance(column, Datetime):
        return pa.date32() if column.resolution == "day" else pa.timestamp("us")
    if isinstance(column, Boolean):
        return pa.bool_()
    is_whole = isinstance(column, Listed) and isinstance(column.values[0], int)
    return pa.int64() if is_whole else pa.string()


def doubles(array: Any, column: Column) -> Values:
    """The cells of a decoded column as expressions see them: moments are seconds since 1970."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(column, Datetime):
        microseconds = array.cast(pa.timestamp("us")).cast(pa.int64())
        return microseconds.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) // 1e6
    if isinstance(column, Boolean):
        array = array.cast(pa.uint8())
    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def read_values(name: str, column: Column, array: pa.Array, invalid: str) -> Values:
    """The cells of a column of a source, moved to what the column can hold."""
    cells = read_column(name, column, array, invalid=invalid)
    gaps = cells.missing | cells.unreadable
    values = cells.values
    if isinstance(column, Datetime):
        start, step = (column.start - EPOCH).total_seconds(), column.step.total_seconds()
        seconds = values // 1_000_000
        end = (column.end - EPOCH).total_seconds()
        values = start + np.clip(seconds - start, 0, end - start) // step * step
        lowest = start
    elif isinstance(column, Listed):
        values = np.array(column.values, np.float64)[np.where(gaps, 0, values)]
        lowest = column.values[0]
    else:
        values = values.astype(np.float64)
        lowest = column.low if isinstance(column, Numeric) and column.low is not None else 0
    values = np.where(gaps, np.nan if column.nullable else lowest, values)
    return moved(column, values) if isinstance(column, Numeric) else values


def derived(rule: Derived, column: Column, known: dict[str, Values], num_rows: int) -> Values:
    """The numbers of a derived column, moved to what the column can hold.

    Args:
        rule: How it is derived.
        column: Its declaration.
        known: The numbers of its operands; see `doubles`.
        num_rows: The number of rows.
    """
    values = evaluate(parse(rule.expression), known, num_rows)
    if isinstance(column, Numeric):
        return moved(column, values)
    if isinstance(column, Boolean):
        return np.where(np.isnan(values), np.nan, values != 0)
    assert isinstance(column, Listed)
    listed = np.sort(np.array(column.values, np.float64))
    nearest = np.searchsorted(listed[:-1] + np.diff(listed) / 2, values, side="left")
    return np.where(np.isnan(values), np.nan, listed[nearest])


def _near(rule: Near, column: Numeric, of: Values, away: Values) -> Values:
    """Numbers at these differences from others, moved to what the column can hold."""
    values = moved(column, of + away)
    step = 0.0 if column.step is None else column.step
    for _ in range(2):  # rounding may have moved a number beyond the largest difference
        beyond = np.abs(values - of) > rule.within * (1 + _CLOSE * bool(step))
        if not beyond.any():
            break
        nearer = values + step * np.sign(of - values) if step else np.nextafter(values, of)
        values = np.where(beyond, moved(column, nearer), values)
    return values


def to_cells(column: Column, values: Values) -> Any:
    """Numbers as cells of a column."""
    gaps = np.isnan(values)
    kind = cell_type(column)
    whole = np.where(gaps, 0, values)
    return pa.array(whole.astype(kind.to_pandas_dtype()), kind, mask=gaps)


def _numeric(column: Column) -> Numeric:
    assert isinstance(column, Numeric)
    return column
