"""Lines of a text file as records, and the cells of a line: every line by itself, without errors.

CSV has no borders but its own characters. A parser that knows quoted line breaks lets one stray quote
take the lines after it into its cell, so that one record hides others. Here a line ends where it ends.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

_BODY = r'[^"]*(?:""[^"]*)*'
_QUOTED = re.compile(rf'"({_BODY})(?:"(.*))?', re.DOTALL)


def records(path: Path) -> Iterator[str]:
    """The lines of a file that are not blank, without their ends, whatever its bytes are.

    Lines end at a line feed, a carriage return or both. Bytes that are not UTF-8 become U+FFFD.
    """
    with open(path, encoding="utf-8-sig", errors="replace", newline=None) as file:
        for line in file:
            if line.strip(" \n"):  # tabs may be separators: a line of them has empty cells
                yield line.removesuffix("\n")


def split_line(line: str, delimiter: str = ",") -> list[str]:
    """The cells of one line; a quote that the line does not close is closed by its end."""
    if '"' not in line:
        return line.split(delimiter)
    pattern = _cell(delimiter)
    cells, place = [], 0
    while True:
        found = pattern.match(line, place)
        assert found is not None  # the second way matches anything, also nothing
        cells.append(_unquoted(found[0]))
        if found.end() == len(line):
            return cells
        place = found.end() + 1


@functools.cache
def _cell(delimiter: str) -> re.Pattern[str]:
    # a quote opens a cell only at its beginning; what follows the closing one still belongs to it
    mark = re.escape(delimiter)
    return re.compile(rf' *"{_BODY}(?:"[^{mark}]*)?|[^{mark}]*')


def _unquoted(cell: str) -> str:
    found = _QUOTED.fullmatch(cell.lstrip(" "))
    return cell if found is None else found[1].replace('""', '"') + (found[2] or "")
