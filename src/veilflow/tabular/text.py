"""Comma-separated text, as people really have it: read without guessing, written without loss."""

import contextlib
import csv
import itertools
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import CSVWriter

_DELIMITERS = ",;\t|"
MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none", "?")
"""What people write into a cell that they leave empty, in lower case."""


def read_csv(path: Path) -> "tuple[pa.Table, bool]":
    """A table of what the file holds, numeric where it can be, and whether it had a header.

    A byte order mark, blank lines, spaces around cells and quotes around numbers are taken as what
    they are: nothing.
    """
    import pyarrow as pa

    names, named, tables = open_csv(path)
    (text,) = tables
    return pa.table([tidied(column) for column in text.columns], names=names), named


def open_csv(
    path: Path, *, chunk: int | None = None
) -> "tuple[list[str], bool, Iterator[pa.Table]]":
    """Names of the columns, whether the file has them, and its cells as text, `chunk` rows a time.

    Without `chunk` all rows come at once. Columns without names are called x1, x2, ...
    """
    first, delimiter = _first_line(path)
    # A first line of gaps is a record, too: as a header it would end up in the model file.
    named = not all(_is_number(cell) or cell.lower() in MISSING_WORDS for cell in first)
    if named:
        _check_header(first, path)
    names = first if named else [f"x{i + 1}" for i in range(len(first))]
    _check_twice(names, path)
    return names, named, _text_tables(path, names, delimiter, named=named, chunk=chunk)


def _text_tables(
    path: Path, names: list[str], delimiter: str, *, named: bool, chunk: int | None
) -> "Iterator[pa.Table]":
    import pandas as pd
    import pyarrow as pa

    with _refused_as_one(path):
        # As text: how precisely pandas reads numbers differs between its versions.
        reader: Any = pd.read_csv(
            path,
            sep=delimiter,
            header=0 if named else None,
            index_col=False,
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
            skipinitialspace=True,
            iterator=True,
        )
    with reader:
        while True:
            with _refused_as_one(path):
                try:
                    frame = reader.read(chunk)
                except StopIteration:
                    return
            if len(frame.columns) != len(names):
                raise ValueError(f"{path.name} has lines with more cells than the first one.")
            columns = (frame.iloc[:, i] for i in range(len(names)))
            yield pa.table([pa.array(c, pa.string(), from_pandas=True) for c in columns], names)
            if chunk is None or len(frame) == 0:
                return


@contextlib.contextmanager
def _refused_as_one(path: Path) -> Iterator[None]:
    """Whatever pandas has against a text, in our words: its own quote the text."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # pandas drops what does not fit under the header, and only warns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except OSError:
        raise
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not UTF-8 text. Save it as UTF-8.") from None
    except (ValueError, pd.errors.ParserWarning):
        raise ValueError(
            f"{path.name} is not a table: some line has more cells than the first one, or a quote "
            "is not closed."
        ) from None


@contextlib.contextmanager
def csv_writer(path: Path, schema: "pa.Schema", *, delimiter: str) -> "Iterator[CSVWriter]":
    """What writes batches of rows below a header, in the fewest digits that read back the same."""
    from pyarrow import csv as arrow_csv

    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
    with open(path, "wb") as file:
        header = [_quoted(name, delimiter) for name in schema.names]
        file.write((delimiter.join(header) + "\n").encode("utf-8"))
        with arrow_csv.CSVWriter(file, schema, write_options=options) as writer:
            yield writer


def _first_line(path: Path) -> tuple[list[str], str]:
    """The cells of the first line that is not blank, and what separates them."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = itertools.dropwhile(lambda line: not line.strip(), file)
            head = next(lines, "")
            tabs = path.suffix.lower() == ".tsv"
            # what stands in quotes belongs to a name
            delimiter = "\t" if tabs else max(_DELIMITERS, key=re.sub('"[^"]*"', "", head).count)
            text = itertools.chain([head], lines)
            cells = next(csv.reader(text, delimiter=delimiter, skipinitialspace=True), [])
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not UTF-8 text. Save it as UTF-8.") from None
    except csv.Error:
        raise ValueError(f"{path.name} is not a table: its first line cannot be read.") from None
    if not cells:
        raise ValueError(f"{path.name} is empty.")
    return [cell.strip() for cell in cells], delimiter


def _check_header(names: list[str], path: Path) -> None:
    for place, name in enumerate(names):
        # Messages quote column names, so a row taken for a header must not be quoted.
        if not name or _is_number(name):
            raise ValueError(
                f"column {place + 1} of {len(names)} of {path.name} has no name, or a number as "
                "its name. Add a header line that names every column, or drop the column."
            )


def _check_twice(names: list[str], path: Path) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            # by number: without a header, the first line is a record
            raise ValueError(
                f"the name of column {names.index(name) + 1} of {path.name} occurs twice: column "
                f"{place + 1} has it, too. Rename one of them."
            )


def tidied(text: Any) -> Any:
    """Numbers if all cells are, without the spaces around them and missing where empty; or text."""
    import pyarrow as pa
    from pyarrow import compute

    # pyarrow makes its functions when imported, out of sight of type checkers.
    arrow: Any = compute
    text = arrow.utf8_trim_whitespace(text)
    missing = arrow.is_in(arrow.utf8_lower(text), value_set=pa.array(MISSING_WORDS))
    text = arrow.if_else(missing, None, text)
    for plus in (False, True):  # a leading plus sign is rare, and not read by the fast parser
        try:
            cells = arrow.replace_substring_regex(text, r"^\+", "") if plus else text
            return arrow.cast(cells, pa.float64())
        except pa.ArrowInvalid:
            continue
    return text


def _quoted(name: str, delimiter: str) -> str:
    if any(c in name for c in (delimiter, '"', "\n", "\r")) or name != name.strip():
        return '"' + name.replace('"', '""') + '"'
    return name


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
