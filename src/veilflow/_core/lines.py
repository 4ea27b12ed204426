"""The lines of a text file as records, and the cells of a line; each line by itself, without errors.

In CSV, only characters of the text itself separate records. With a parser that supports quoted line
breaks, one stray quote pulls the following lines into its cell, so that one record hides others. Here a
record always ends at the end of its line.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

_BODY = r'[^"]*(?:""[^"]*)*'
_QUOTED = re.compile(rf'"({_BODY})(?:"(.*))?', re.DOTALL)


def records(path: Path, encoding: str = "utf-8-sig") -> Iterator[str]:
    """The lines of a file that are not blank, without line ends, whatever bytes it holds.

    Lines end at a line feed, a carriage return or both. Bytes that the encoding
    does not have become U+FFFD.
    """
    with open(path, encoding=encoding, errors="replace", newline=None) as file:
        for line in file:
            if line.strip(" \n"):  # tabs may be separators: a line of them has empty cells
                yield line.removesuffix("\n")


def split_line(line: str, delimiter: str = ",") -> list[str]:
    """The cells of one line; an open quote is closed at the end of the line."""
    if '"' not in line:
        return line.split(delimiter)
    pattern = _cell(delimiter)
    cells, place = [], 0
    while True:
        match = pattern.match(line, place)
        assert match is not None  # the second alternative also matches an empty cell
        cells.append(_unquoted(match[0]))
        if match.end() == len(line):
            return cells
        place = match.end() + 1


@functools.cache
def _cell(delimiter: str) -> re.Pattern[str]:
    # a quote counts only at the start of a cell; text after the closing quote belongs to the cell
    mark = re.escape(delimiter)
    return re.compile(rf' *"{_BODY}(?:"[^{mark}]*)?|[^{mark}]*')


def _unquoted(cell: str) -> str:
    match = _QUOTED.fullmatch(cell.lstrip(" "))
    return cell if match is None else match[1].replace('""', '"') + (match[2] or "")
