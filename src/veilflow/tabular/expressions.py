"""Expressions over the columns of one row, parsed without running anything.

The language is small and closed: numbers, names of columns, arithmetic, comparisons and the functions
in `FUNCTIONS`. An expression comes out in postfix order, so that whoever reads it needs a stack and no
recursion: a text from a file can ask for no more work than it has tokens.
"""

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

FUNCTIONS: dict[str, tuple[int, int]] = {
    "abs": (1, 1),
    "ceil": (1, 1),
    "floor": (1, 1),
    "max": (2, 50),
    "min": (2, 50),
    "round": (1, 2),
    **dict.fromkeys(
        ("year", "month", "day", "hour", "minute", "weekday", "days", "seconds"), (1, 1)
    ),
}
"""The smallest and the largest number of arguments of each function."""

_COMPARISONS = ("<=", ">=", "==", "!=", "<", ">")
_SUMS, _PRODUCTS = ("+", "-"), ("*", "//", "/", "%")
_MOST_CHARACTERS, _MOST_TOKENS, _DEEPEST = 20_000, 1000, 40
_MOST_DIGITS = 15
"""Digits to which `round` rounds at most: those that double precision always has."""
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?!\w))
      | (?P<name>[^\W\d]\w*)
      | `(?P<ticks>(?:[^`]|``)+)`
      | "(?P<quotes>(?:[^"]|"")+)"
      | (?P<sign><=|>=|==|!=|//|[-+*/%<>(),])
    )""",
    re.VERBOSE,
)


class Step(NamedTuple):
    """One step of an expression in postfix order.

    Attributes:
        kind: "number" and "name" put something on the stack; "call" takes `arity` things off it.
        name: The name of the column, or that of the function or sign.
        number: The number; the digits of `round`.
        arity: The number of arguments of a call.
    """

    kind: str
    name: str = ""
    number: float = 0.0
    arity: int = 0


Expression = tuple[Step, ...]
"""The steps of an expression, the last of which gives its value."""


@lru_cache(maxsize=1024)
def parse(text: str) -> Expression:
    """The expression that a text writes down.

    Raises:
        ValueError: The text is no expression, or too long. The message says where it goes wrong.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"an expression must have at most {_MOST_CHARACTERS} characters.")
    reader = _Reader(text)
    steps = reader.comparison()
    if reader.sign or reader.kind:
        raise reader.error("an operator or the end")
    return tuple(steps)


def names_in(expression: Expression) -> tuple[str, ...]:
    """The columns that an expression reads, each once, in the order in which they occur."""
    return tuple(dict.fromkeys(step.name for step in expression if step.kind == "name"))


def copied(expression: Expression) -> str | None:
    """The column that an expression copies if it is one name; None for any other."""
    return expression[0].name if len(expression) == 1 and expression[0].kind == "name" else None


def quoted(name: str) -> str:
    """The name of a column as an expression writes it."""
    if name.isidentifier():
        return name
    return "`" + name.replace("`", "``") + "`"


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


def _tokens(text: str) -> Iterator[_Token]:
    place, num = 0, 0
    end = len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        num += 1
        if match is None or match.lastgroup is None or num > _MOST_TOKENS:
            reason = "has a character that means nothing there" if match is None else "is too long"
            raise ValueError(f"the expression {reason}, at character {place + 1}.")
        group = kind = match.lastgroup
        word = match.group(group)
        if kind in ("ticks", "quotes"):
            mark = "`" if kind == "ticks" else '"'
            word = word.replace(mark + mark, mark)
            kind = "quoted"
        yield _Token(kind, word, match.start(group))
        place = match.end()


class _Reader:
    """Reads tokens one by one, by recursive descent: a comparison of sums of products of atoms."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._depth, self._end = 0, len(text)
        self._next()

    def _next(self) -> None:
        token = next(self._tokens, _Token("", "", self._end))
        self.kind, self.text, self.place = token
        self.sign = self.text if self.kind == "sign" else ""

    def error(self, wanted: str) -> ValueError:
        return ValueError(f"the expression must have {wanted} at character {self.place + 1}.")

    def _take(self, sign: str) -> None:
        if self.sign != sign:
            raise self.error(repr(sign))
        self._next()

    def comparison(self) -> list[Step]:
        steps = self._sum()
        if self.sign in _COMPARISONS:
            name = self.sign
            self._next()
            steps += [*self._sum(), Step("call", name, arity=2)]
        return steps

    def _sum(self) -> list[Step]:
        steps = self._product()
        while self.sign in _SUMS:
            name = self.sign
            self._next()
            steps += [*self._product(), Step("call", name, arity=2)]
        return steps

    def _product(self) -> list[Step]:
        steps = self._signed()
        while self.sign in _PRODUCTS:
            name = self.sign
            self._next()
            steps += [*self._signed(), Step("call", name, arity=2)]
        return steps

    def _signed(self) -> list[Step]:
        negative = False
        while self.sign in _SUMS:
            negative ^= self.sign == "-"
            self._next()
        steps = self._atom()
        return [*steps, Step("call", "negative", arity=1)] if negative else steps

    def _atom(self) -> list[Step]:
        kind, text = self.kind, self.text
        if kind == "number":
            number = float(text)
            if not math.isfinite(number):
                raise self.error("a finite number")
            self._next()
            return [Step("number", number=number)]
        if kind in ("name", "quoted"):
            self._next()
            if kind == "name" and self.sign == "(":
                return self._call(text)
            return [Step("name", text)]
        if self.sign != "(":
            raise self.error("a number or the name of a column")
        (steps,) = self._arguments()
        return steps

    def _arguments(self) -> list[list[Step]]:
        """What is within parentheses, one list of steps for each part between commas."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"an expression must have at most {_DEEPEST} nested parentheses.")
        parts = []
        while not parts or self.sign == ",":
            self._next()
            parts.append(self.comparison())
        self._take(")")
        self._depth -= 1
        return parts

    def _call(self, name: str) -> list[Step]:
        if name not in FUNCTIONS:
            raise ValueError(
                f"the expression calls {name!r}. There are the functions {', '.join(FUNCTIONS)}."
            )
        place, parts = self.place, self._arguments()
        least, most = FUNCTIONS[name]
        if not least <= len(parts) <= most:
            raise ValueError(f"{name} takes another number of arguments, at character {place + 1}.")
        digits = 0.0
        if name == "round" and len(parts) == 2:
            (*_, last), length = parts[1], len(parts[1])
            digits = last.number
            if length != 1 or last.kind != "number" or digits not in range(_MOST_DIGITS + 1):
                raise ValueError(f"round takes a number of digits from 0 to {_MOST_DIGITS}.")
            parts = parts[:1]
        steps = [step for part in parts for step in part]
        return [*steps, Step("call", name, digits, len(parts))]
