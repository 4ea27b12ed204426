"""Small faults that can be put into a file: one edit each, of code that runs.

Annotations, docstrings, texts of errors and warnings, `__repr__` and decorators stay as they are: a
test that noticed a change of them would be a test of words.
"""

import ast
import random
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

Edit = tuple[str, int, int, bytes]
"""Name of the operator, first and last byte, and what takes the place of the bytes between."""

_FLIPPED = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_AT_THE_BOUNDARY = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_SWAPPED = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Pow: ("**", "*"),
}
_EXTREMES = {"min": "max", "minimum": "maximum", "ceil": "floor"}
_EXTREMES |= {there: here for here, there in _EXTREMES.items()}
_DROPPED = {"abs", "absolute", "sqrt", "square", "exp", "expm1", "log", "log1p", "ceil", "floor"}
_SMALL = 10
"""Counts up to here are moved by one; sizes beyond it are set to zero, as one more changes little."""

_WORDS = {"__repr__", "__str__", "__format__", "_repr_html_"}
_NOT_RUN = {"annotation", "returns", "decorator_list", "type_params"}
_FOR_LOOKS = {"repr", "stacklevel", "maxsize", "help", "strict"}


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Args:
        file: Where, from the folder of sources on.
        line: On which line it begins.
        operator: What kind of fault it is.
        before: The code that is replaced.
        after: What replaces it.
        start: The first byte that is replaced.
        code: The line on which it begins, for people.
    """

    file: str
    line: int
    operator: str
    before: str
    after: str
    start: int
    code: str

    def apply(self, source: bytes) -> bytes:
        """The file with the fault in it."""
        end = self.start + len(self.before.encode())
        return source[: self.start] + self.after.encode() + source[end:]

    def __str__(self) -> str:
        short = [" ".join(text.split()) for text in (self.before, self.after)]
        change = f"{self.file}:{self.line} [{self.operator}] {short[0]}  ->  {short[1]}"
        return change if short[0] == self.code else f"{change}  in  {self.code}"


def mutants(path: Path, file: str) -> list[Mutant]:
    """Every fault that can be put into a file, by place; some may turn out to be the same code."""
    source = path.read_bytes()
    lines = source.decode().splitlines()
    editor = _Editor(source)
    edits = {edit for node in _running(ast.parse(source)) for edit in editor.edits(node)}
    found = []
    for operator, start, end, new in sorted(edits, key=lambda edit: (edit[1:], edit[0])):
        line = source.count(b"\n", 0, start) + 1
        before, code = source[start:end].decode(), lines[line - 1].strip()
        found.append(Mutant(file, line, operator, before, new.decode(), start, code))
    return found


def choose(paths: Collection[tuple[Path, str]], count: int, seed: int) -> list[Mutant]:
    """`count` faults of the files at random: every operator in turn, so that none prevails."""
    rng = random.Random(seed)
    sources = {file: path.read_bytes() for path, file in paths}
    by_operator: dict[str, list[Mutant]] = defaultdict(list)
    for path, file in sorted(paths, key=lambda pair: pair[1]):
        for mutant in mutants(path, file):
            by_operator[mutant.operator].append(mutant)
    shuffled = [rng.sample(group, len(group)) for _, group in sorted(by_operator.items())]
    in_turn = filter(None, chain.from_iterable(zip_longest(*shuffled)))
    return list(islice((m for m in in_turn if is_other_code(m, sources[m.file])), count))


def is_other_code(mutant: Mutant, source: bytes) -> bool:
    """Whether a file with the fault can be read and is another program than without."""
    try:
        changed = ast.parse(mutant.apply(source))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(source))


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one whose values decide what the program does."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in _NOT_RUN and not _is_words(child):
                yield child
                yield from _running(child)


def _is_words(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()):  # a docstring
            return True
        case ast.FunctionDef(name=name):
            return name in _WORDS
        case ast.Call(func=ast.Attribute(attr="warn") | ast.Name(id="warn")):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.keyword(arg=name):
            return name in _FOR_LOOKS
    return False


class _Editor:
    """Edits of one file, by bytes: positions in syntax trees count bytes of a line."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def edits(self, node: ast.AST) -> Iterator[Edit]:
        """The faults of one node."""
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield from self._between("flip", node, left, right, _FLIPPED.get(type(op)))
                yield from self._between(
                    "boundary", node, left, right, _AT_THE_BOUNDARY.get(type(op))
                )
            case ast.BinOp(left=left, op=op, right=right):
                if not (_is_text(left) or _is_text(right)):
                    yield from self._between(
                        "arithmetic", node, left, right, _SWAPPED.get(type(op))
                    )
            case ast.BoolOp(op=op, values=[left, right, *_]):
                words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield from self._between("logic", node, left, right, words)
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                if not isinstance(operand, ast.Constant):
                    yield self._replaced("sign", node, b"(" + self._text(operand) + b")")
            case ast.Constant(value=value):
                yield from (self._replaced("constant", node, new) for new in _others(value))
            case ast.Call():
                yield from self._of_call(node)
            case ast.Expr(value=ast.Call()):
                yield self._replaced("statement", node, b"pass")
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield self._replaced("negation", node.test, b"not (" + self._text(node.test) + b")")
        if isinstance(node, ast.If) and not node.orelse:
            last = node.body[-1]
            if isinstance(last, ast.Raise | ast.Return):
                yield self._replaced("guard", last, b"pass")

    def _of_call(self, call: ast.Call) -> Iterator[Edit]:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        end = self._span(call.func)[1]
        if name in _EXTREMES:
            yield "extremes", end - len(name), end, _EXTREMES[name].encode()
        alone = len(call.args) == 1 and not call.keywords
        if name in _DROPPED and alone and not isinstance(call.args[0], ast.GeneratorExp):
            yield self._replaced("dropped", call, b"(" + self._text(call.args[0]) + b")")
        if name == "where" and len(call.args) == 3:
            (a, b), (c, d) = self._span(call.args[1]), self._span(call.args[2])
            swapped = self.source[c:d] + self.source[b:c] + self.source[a:b]
            yield "swapped", a, d, swapped

    def _between(
        self,
        name: str,
        node: ast.AST,
        left: ast.AST,
        right: ast.AST,
        words: tuple[str, str] | None,
    ) -> Iterator[Edit]:
        """Put one operator for another into what stands between two operands of a node."""
        if words is not None:
            (start, end), a, b = self._span(node), self._span(left)[1], self._span(right)[0]
            gap = self.source[a:b].replace(words[0].encode(), words[1].encode(), 1)
            yield name, start, end, self.source[start:a] + gap + self.source[b:end]

    def _replaced(self, name: str, node: ast.AST, new: bytes) -> Edit:
        return name, *self._span(node), new

    def _text(self, node: ast.AST) -> bytes:
        start, end = self._span(node)
        return self.source[start:end]

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        last_line, last_column = node.end_lineno, node.end_col_offset
        assert last_line is not None
        assert last_column is not None
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[last_line - 1] + last_column


def _is_text(node: ast.AST) -> bool:
    is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_string or isinstance(node, ast.JoinedStr)


def _others(value: object) -> list[bytes]:
    """Constants that stand for a fault in the place of one."""
    if isinstance(value, bool):
        return [str(not value).encode()]
    if isinstance(value, int):
        return [str(value + 1 if abs(value) <= _SMALL else 0).encode()]
    if isinstance(value, float):
        return [b"0.0" if value else b"1.0"]
    return []
