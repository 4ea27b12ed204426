"""Files of records: rows of numbers with public bounds, columns of labels, and series with gaps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilflow._core import toml
from veilflow._core.npz import npz_names
from veilflow.cli import options
from veilflow.cli.flags import names, numbers

if TYPE_CHECKING:
    import numpy as np

    from veilflow.tabular.io import Rows

Bounds = tuple[list[float], list[float]]
_SERIES = ("values", "mask", "since")


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """Flags for rows of numbers: which columns are read, and what is public of them.

    Attributes:
        low: Public lower bounds: one number, or one per column, with commas.
        high: Public upper bounds, like --low.
        bounds: TOML file of public bounds: low and high of each column.
        row_norm: Instead of bounds: a public bound on the Euclidean norm of a row.
        columns: Use only these columns: names, with commas.
    """

    low: str | None = None
    high: str | None = None
    bounds: Path | None = None
    row_norm: float | None = None
    columns: str | None = None
    invalid: options.Invalid = options.InvalidCells.ERROR

    @property
    def declared(self) -> dict[str, Any]:
        """The flags that declare bounds, with their values."""
        ends = {"--low": self.low, "--high": self.high, "--bounds": self.bounds}
        return {**ends, "--row-norm": self.row_norm}

    def read(self, data: Path, columns: list[str] | None = None) -> tuple["Rows", Bounds | None]:
        """The rows, and the bounds that the flags declare for them, if they do.

        With `--invalid replace`, cells that are no numbers are left in the rows for the fit to
        replace.

        Args:
            data: The file.
            columns: The columns to read; by default, those of `--columns`.
        """
        from veilflow.tabular.io import read_rows

        if all(value is None for value in self.declared.values()):
            raise ValueError(
                "give --bounds, or --low and --high, or --row-norm. They come from knowledge of the "
                "domain and are never read from the rows."
            )
        if columns is None and self.columns is not None:
            columns = names(self.columns)
        invalid = "keep" if self.invalid is options.InvalidCells.REPLACE else "error"
        rows = read_rows(data, columns=columns, invalid=invalid)
        return rows, self._bounds_of(rows)

    def _bounds_of(self, rows: "Rows") -> Bounds | None:
        """Bounds per column, or None where there is only `--row-norm`."""
        if (self.low is None) != (self.high is None):
            raise ValueError("give both --low and --high.")
        if self.bounds is not None:
            if self.low is not None:
                raise ValueError("give either --bounds or --low and --high, not both.")
            return read_bounds(self.bounds, rows)
        if self.low is None or self.high is None:
            return None
        dim = rows.values.shape[1]
        return _each("--low", self.low, dim), _each("--high", self.high, dim)


def _each(flag: str, text: str, dim: int) -> list[float]:
    values = list(numbers(flag, text))
    if len(values) not in (1, dim):
        raise ValueError(f"{flag} must be one number or {dim}, one per column; got {len(values)}.")
    return values * dim if len(values) == 1 else values


def read_bounds(file: Path, rows: "Rows") -> Bounds:
    """Bounds from a TOML file that names every column of the data, and no other."""
    try:
        table = toml.parse(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    columns: Sequence[str] = rows.columns or [f"x{i + 1}" for i in range(rows.values.shape[1])]
    for name in table:
        if name not in columns:  # these are not shown: without a header, the first line is a record
            raise ValueError(
                f"{file} bounds {name!r}, but there is no such column among those read. Does the first "
                "line of the data name the columns, and is the name spelled as there?"
            )
    if not table:
        raise ValueError(f"{file} is empty. Give low and high of every column: age = [0, 120].")
    pairs = [_pair(file, name, table.get(name)) for name in columns]
    return [low for low, _ in pairs], [high for _, high in pairs]


def _pair(file: Path, name: str, pair: object) -> tuple[float, float]:
    if pair is None:
        raise ValueError(
            f"column {name!r} has no bounds in {file}. Declare them, or choose columns with "
            "--columns. They are not read from the data."
        )
    if not isinstance(pair, list) or [type(x) in (int, float) for x in pair] != [True, True]:
        raise ValueError(f"{file}: {name} must be two numbers, such as {name} = [0, 120].")
    low, high = map(_double, pair)
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"{file}: {name} must be finite and rise, got [{low:g}, {high:g}].")
    return low, high


def _double(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:  # TOML has whole numbers of any length; the caller refuses these
        return math.inf if number > 0 else -math.inf


def is_series(data: Path) -> bool:
    """Whether a file is an NPZ of series with gaps."""
    return npz_names(data).issuperset(_SERIES)


def read_series(data: Path) -> tuple["np.ndarray", ...]:
    """Values, mask and time since the last value, each of shape (records, time, features)."""
    return tuple(_array(data, name) for name in _SERIES)


def feature_names(
    data: Path, label: str, *, flag: str = "--label", invalid: str = "error"
) -> list[str]:
    """All columns of a table except `label`, which `flag` names, in their order."""
    columns = _columns_with(data, label, flag=flag, invalid=invalid)
    return [name for name in columns if name != label]


def read_labels(data: Path, label: str | None, *, invalid: str = "error") -> list[str]:
    """The label of each record, as text.

    Args:
        data: The file.
        label: The column of labels; None for the array of an NPZ file.
        invalid: What to do about missing labels: "error", or "replace" them by "", which is no class.

    Raises:
        ValueError: There is no such column, or a label is missing. The message shows no label.
    """
    from veilflow.tabular.frames import label_column, label_word

    if label is None:
        array = _array(data, "labels")
        if array.ndim != 1:
            raise ValueError(f"labels in {data} must be one number or text for each record.")
        return [label_word(cell) for cell in array.tolist()]
    _columns_with(data, label, flag="--label", invalid=invalid)
    labels = label_column(data, label, invalid=invalid)
    if invalid == "error" and "" in labels:
        raise ValueError(f"column {label!r} has missing cells. Every record needs a label.")
    return labels


def _columns_with(data: Path, label: str, *, flag: str, invalid: str) -> tuple[str, ...]:
    """The columns of a table, `label` among them."""
    from veilflow.tabular.frames import open_table

    columns = open_table(data, chunk=1, by_line=invalid == "replace").names
    if label not in columns:  # these are not shown: without a header, the first line is a record
        raise ValueError(
            f"{flag} {label!r} is not a column. Does the first line of the table name the columns, and "
            "is the name spelled as there?"
        )
    return columns


def _array(data: Path, name: str) -> "np.ndarray":
    import numpy as np

    with open(data, "rb") as file:
        try:
            members: Any = np.load(file, allow_pickle=False)
            array = members[name] if name in members.files else None
        except Exception:  # NumPy lets many kinds of error out of a damaged file
            raise ValueError(
                f"{data} is not a readable NPZ file of plain numbers: damaged, foreign, or holding "
                "Python objects."
            ) from None
    if not isinstance(array, np.ndarray):  # a member that is no array comes back as its bytes
        raise ValueError(f"{data} has no array {name!r}. Series need values, mask, since, labels.")
    return array
