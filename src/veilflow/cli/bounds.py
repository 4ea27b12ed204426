"""Public bounds of rows of numbers, as flags and files declare them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from veilflow._core import toml
from veilflow.cli.values import names, numbers

if TYPE_CHECKING:
    from veilflow.tabular.io import Rows

Bounds = tuple[list[float], list[float]]


def read_bounded(
    data: Path,
    columns: str | None,
    *,
    low: str | None,
    high: str | None,
    file: Path | None,
    row_norm: float | None,
    invalid: str = "error",
) -> tuple["Rows", Bounds | None]:
    """The rows, and the bounds that the flags declare for them, if they do.

    With `invalid="replace"`, what is no number is still in the rows, for the fit to replace.
    """
    from veilflow.tabular.io import read_rows

    if file is None and low is None and high is None and row_norm is None:
        raise ValueError(
            "give --bounds, or --low and --high, or --row-norm. They come from knowledge of the "
            "domain and are never read from the rows."
        )
    wanted = None if columns is None else names(columns)
    rows = read_rows(data, columns=wanted, invalid="keep" if invalid == "replace" else "error")
    return rows, _bounds(rows, low=low, high=high, file=file)


def _bounds(rows: "Rows", *, low: str | None, high: str | None, file: Path | None) -> Bounds | None:
    """Bounds per column from the flags, or None where none of them is given."""
    if (low is None) != (high is None):
        raise ValueError("give both --low and --high.")
    if file is not None:
        if low is not None:
            raise ValueError("give either --bounds or --low and --high, not both.")
        return _read_bounds(file, rows)
    if low is None or high is None:
        return None
    dim = rows.values.shape[1]
    return _each("--low", low, dim), _each("--high", high, dim)


def _each(flag: str, text: str, dim: int) -> list[float]:
    found = list(numbers(flag, text) or ())
    if len(found) not in (1, dim):
        raise ValueError(f"{flag} must be one number or {dim}, one per column; got {len(found)}.")
    return found * dim if len(found) == 1 else found


def _read_bounds(file: Path, rows: "Rows") -> Bounds:
    """Bounds from a TOML file that names every column of the data, and no other."""
    try:
        table = toml.parse(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    names: Sequence[str] = rows.columns or [f"x{i + 1}" for i in range(rows.values.shape[1])]
    for name in table:
        if name not in names:  # which are not shown: without a header, the first line is a record
            raise ValueError(
                f"{file} bounds {name!r}, but there is no such column among those read. Does the first "
                "line of the data name the columns, and is the name spelled as there?"
            )
    if not table:
        raise ValueError(f"{file} is empty. Give low and high of every column: age = [0, 120].")
    lows, highs = [], []
    for name in names:
        pair = table.get(name)
        if pair is None:
            raise ValueError(
                f"column {name!r} has no bounds in {file}. Declare them, or choose columns with "
                "--columns. They are not read from the data."
            )
        if not _is_pair(pair):
            raise ValueError(f"{file}: {name} must be two numbers, such as {name} = [0, 120].")
        low, high = _double(pair[0]), _double(pair[1])
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"{file}: {name} must be finite and rise, got [{low:g}, {high:g}].")
        lows.append(low)
        highs.append(high)
    return lows, highs


def _double(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:  # TOML has whole numbers of any length; the caller refuses these
        return math.inf if number > 0 else -math.inf


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
    )
