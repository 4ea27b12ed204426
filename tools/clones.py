"""A finder of duplicate code: runs of lines that are alike but for names, texts and numbers.

Lines are compared by their tokens, with every name, string and number replaced by a placeholder.
Blank lines, comments, docstrings, imports and lone punctuation are passed over. Two files (or two
places of one file) are a pair if they share a run of `RUN` such lines with `TOKENS` tokens or more.
Runs that stand in more than `PLACES` places are an idiom of the package, and do not count.
"""

import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

RUN = 6
TOKENS = 28
PLACES = 8

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}
_ENDS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
# f-strings are one token up to Python 3.11, and several after it
_F_START = getattr(tokenize, "FSTRING_START", -1)
_F_END = getattr(tokenize, "FSTRING_END", -1)


def pairs(paths: Iterable[Path]) -> list[tuple[Path, int, Path, int]]:
    """Pairs of files that share a run, each with the line at which the first shared run starts."""
    places: dict[tuple[str, ...], list[tuple[Path, int, int]]] = defaultdict(list)
    for path in sorted(paths):
        lines = list(_shapes(path.read_text("utf-8")))
        for start in range(len(lines) - RUN + 1):
            run = tuple(shape for _, shape in lines[start : start + RUN])
            if sum(len(shape.split()) for shape in run) >= TOKENS:
                places[run].append((path, start, lines[start][0]))
    found: dict[tuple[Path, Path], tuple[int, int]] = {}
    for where in places.values():
        for (a, i, line_a), (b, j, line_b) in combinations(where[: PLACES + 1], 2):
            overlap = a == b and abs(i - j) < RUN
            if len(where) <= PLACES and not overlap:
                found.setdefault((a, b), (line_a, line_b))
    return [(a, first, b, second) for (a, b), (first, second) in sorted(found.items())]


def _shapes(source: str) -> Iterator[tuple[int, str]]:
    """Number and shape of every line that counts."""
    lines: dict[int, list[str]] = defaultdict(list)
    for token in _tokens(source):
        lines[token.start[0]].append(_placeholder(token))
    for number, words in sorted(lines.items()):
        is_import = words[0] in ("import", "from")
        if not is_import and any(word[0].isalnum() for word in words):
            yield number, " ".join(words)


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    """Tokens of code; an f-string is its first token, a docstring none."""
    at_start, inside = True, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _ENDS:
            at_start = True
        elif token.type not in _NO_CODE:
            is_docstring = at_start and token.type == tokenize.STRING
            if not inside and not is_docstring:
                yield token
            inside += (token.type == _F_START) - (token.type == _F_END)
            at_start = False


def _placeholder(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
        return "name"
    if token.type in (tokenize.STRING, _F_START):
        return "text"
    return "0" if token.type == tokenize.NUMBER else token.string
