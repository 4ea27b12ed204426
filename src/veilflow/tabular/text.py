"""Comma-separated text as people have it: read without guessing, written without loss."""

import codecs
import contextlib
import csv
import itertools
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import csv as arrow_csv

from veilflow._core.lines import records as lines_of
from veilflow._core.lines import split_line
from veilflow.tabular.words import MISSING_WORDS

UTF8 = "utf-8-sig"
"""The encoding of text, unless a `TextFile` says otherwise; a byte order mark is skipped."""
_DELIMITERS = ",;\t|"
_REPLACE = "fit with invalid='replace', which reads every line by itself"
_NOT_UTF8 = (
    "{}{} is not UTF-8 text. Save it as UTF-8, declare its encoding (--encoding latin-1, or "
    "vf.TextFile in Python), or " + _REPLACE + "."
)


@dataclass(frozen=True)
class TextFile(os.PathLike[str]):
    """A text file in a declared encoding: `vf.TextFile("people.csv", encoding="latin-1")`.

    It stands wherever the path of a table does. Other formats ignore the encoding.

    Args:
        path: The file.
        encoding: The name of its encoding, as Python knows it.
    """

    path: str | os.PathLike[str]
    encoding: str

    def __post_init__(self) -> None:
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError):
            raise ValueError(
                f"encoding must be one that Python knows, such as latin-1 or cp1252, got "
                f"{self.encoding!r}."
            ) from None

    def __fspath__(self) -> str:
        return os.fspath(self.path)


def encoding_of(source: Any) -> str:
    """The encoding of a file that is given by its path."""
    return source.encoding if isinstance(source, TextFile) else UTF8


def open_csv(
    path: Path, *, chunk: int, by_line: bool = False, encoding: str = UTF8
) -> tuple[list[str], bool, Iterator[pa.Table]]:
    """The names of the columns, whether the file has them, and its cells as tables of text.

    A byte order mark, blank lines and spaces around cells are ignored. Columns without names are
    named x1, x2, ...

    Args:
        path: The file.
        chunk: The number of rows in a table.
        encoding: The encoding of the file.
        by_line: Read every line as one record, whatever it holds, so that no record is an error or
            changes another: an unclosed quote ends with its line, cells beyond the last column are
            dropped, bytes that are not UTF-8 are marked in their cell. Line breaks within quotes are
            then not understood, and there must be a header. Otherwise such lines are refused.
    """
    first, delimiter = _first_line(path, by_line=by_line, encoding=encoding)
    # A first line of missing cells is a record, too: as a header it would be in the model file.
    named = not all(_is_number(cell) or cell.lower() in MISSING_WORDS for cell in first)
    if by_line and not named:
        raise ValueError(
            f"{path.name} has no header line, and without one its first record would decide how the "
            'others are read. Add a line that names every column, or do not pass invalid="replace".'
        )
    if named:
        _check_header(first, path)
    names = first if named else [f"x{i + 1}" for i in range(len(first))]
    _check_twice(names, path)
    if by_line:
        return names, named, _line_tables(path, names, delimiter, chunk=chunk, encoding=encoding)
    how = _How(path, delimiter, len(names), encoding)
    return names, named, _text_tables(how, names, named=named, chunk=chunk)


class _How(NamedTuple):
    """A text file, and how it is read."""

    path: Path
    delimiter: str
    width: int
    encoding: str


def _line_tables(
    path: Path, names: list[str], delimiter: str, *, chunk: int, encoding: str
) -> Iterator[pa.Table]:
    lines = itertools.islice(lines_of(path, encoding), 1, None)
    is_first = True
    while (block := list(itertools.islice(lines, chunk))) or is_first:
        is_first = False
        rows = (split_line(line, delimiter) for line in block)
        # zip would otherwise end with the shortest line
        full = (row[: len(names)] + [None] * (len(names) - len(row)) for row in rows)
        columns = list(zip(*full, strict=True)) or [()] * len(names)
        yield pa.table([pa.array(cells, pa.large_string()) for cells in columns], names)


def _text_tables(how: _How, names: list[str], *, named: bool, chunk: int) -> Iterator[pa.Table]:
    import pandas as pd

    with _own_errors(how):
        # As text: versions of pandas differ in the precision of the numbers that they read.
        reader: Any = pd.read_csv(
            how.path,
            sep=how.delimiter,
            header=0 if named else None,
            index_col=False,
            dtype=str,
            keep_default_na=False,
            encoding=how.encoding,
            skipinitialspace=True,
            iterator=True,
        )
    with reader:
        while True:
            with _own_errors(how):
                try:
                    frame = reader.read(chunk)
                except StopIteration:
                    return
            if len(frame.columns) != len(names):
                raise _broken(how)
            columns = (frame.iloc[:, i] for i in range(len(names)))
            yield pa.table([pa.array(c, pa.string(), from_pandas=True) for c in columns], names)
            if len(frame) == 0:
                return


@contextlib.contextmanager
def _own_errors(how: _How) -> Iterator[None]:
    """Turn whatever pandas raises about a text into errors of ours: its messages quote the text."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # pandas drops cells beyond the header, and only warns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except OSError:
        raise
    except UnicodeDecodeError:
        raise _undecodable(how.path, how.encoding) from None
    except (ValueError, pd.errors.ParserWarning):
        raise _broken(how) from None


def _broken(how: _How) -> ValueError:
    """The error about a text that is no table, with the first line that breaks it.

    The number of a line is told here and nowhere else: a line that is no record has no cells to tell
    anything of, and nobody finds it without its number.
    """
    what, start = "a line has more cells than the first one, or a quote is not closed", None
    with open(how.path, encoding=how.encoding, errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter=how.delimiter, skipinitialspace=True, strict=True)
        last = 0
        try:
            for cells in reader:
                if len(cells) > how.width:
                    what, start = "it has more cells than the first line", last + 1
                    break
                last = reader.line_num
        except csv.Error:
            what, start = "a quote in it is not closed, or stands where none may be", last + 1
    where = "" if start is None else f" from line {start} on"
    return ValueError(f"{how.path.name} is not a table{where}: {what}. Correct it, or {_REPLACE}.")


def _undecodable(path: Path, encoding: str) -> ValueError:
    """The error about a text in another encoding, with the first line that shows it."""
    if encoding != UTF8:
        return ValueError(f"{path.name} is not {encoding} text. Declare its encoding.")
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return ValueError(_NOT_UTF8.format(f"line {number} of ", path.name))
    return ValueError(_NOT_UTF8.format("", path.name))


@contextlib.contextmanager
def csv_writer(path: Path, schema: pa.Schema, *, delimiter: str) -> Iterator[arrow_csv.CSVWriter]:
    """A writer of batches of rows below a header, in the fewest digits that read back the same."""
    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
    with open(path, "wb") as file:
        header = [_quoted(name, delimiter) for name in schema.names]
        file.write((delimiter.join(header) + "\n").encode("utf-8"))
        with arrow_csv.CSVWriter(file, schema, write_options=options) as writer:
            yield writer


def _first_line(path: Path, *, by_line: bool, encoding: str) -> tuple[list[str], str]:
    """The cells of the first line that is not blank, and the character that separates them."""
    if by_line:
        head = next(lines_of(path, encoding), "")
        delimiter = _delimiter(head, path)
        cells = split_line(head, delimiter) if head else []
    else:
        try:
            with open(path, encoding=encoding, newline="") as file:
                lines = itertools.dropwhile(lambda line: not line.strip(), file)
                head = next(lines, "")
                delimiter = _delimiter(head, path)
                text = itertools.chain([head], lines)
                cells = next(csv.reader(text, delimiter=delimiter, skipinitialspace=True), [])
        except UnicodeDecodeError:
            raise _undecodable(path, encoding) from None
        except csv.Error:
            raise ValueError(
                f"{path.name} is not a table: its first line cannot be read."
            ) from None
    if not cells:
        raise ValueError(f"{path.name} is empty.")
    return [cell.strip() for cell in cells], delimiter


def _delimiter(head: str, path: Path) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    # text in quotes belongs to a name
    return max(_DELIMITERS, key=re.sub('"[^"]*"', "", head).count)


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
                f"the name of column {names.index(name) + 1} of {path.name} occurs twice: it is also "
                f"that of column {place + 1}. Rename one of them."
            )


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
