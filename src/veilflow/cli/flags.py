"""How a function becomes a command: its parameters are flags, and its docstring describes them.

A parameter is a flag of its own name, described in the section "Flags" of the docstring, unless it is
annotated with an argument or an option of typer. It may also be a group. A dataclass stands for one
flag per field. `Annotated[Settings, SettingsOf(...)]` stands for one flag per setting of a class
of the library, with the name, type and description that the setting has there. That class is read from
its source file and not imported, because `--help` must not wait for JAX.
"""

import ast
import copy
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import ParameterInfo

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_SOURCE = Path(__file__).parents[2]
_LINES = re.DOTALL | re.MULTILINE
_SECTION = re.compile(r"^(?:Args|Attributes|Flags):\n(.*?)(?=^\S|\Z)", _LINES)
_TYPES: dict[str, Any] = {
    **{kind.__name__: kind for kind in (bool, int, float, str)},
    "tuple[int, ...]": str,
    "RecordCount": str,
    "float | tuple[float, ...]": str,
}
"""The type of a flag for each type of a setting. Settings of other types have no flag."""
_ELSEWHERE = ("row_norm", "seed")
"""Settings whose flags are in groups that several commands share."""

Settings = dict[str, Any]


@dataclass(frozen=True)
class SettingsOf:
    """Flags for the settings of a class; the command receives a dict of those that were given.

    Args:
        path: The class: its module and its name, with a dot between them.
        only: The settings that have flags. By default, all whose type a command line can express.
        leave_out: Settings without a flag.
        words: The allowed values of a setting that is one of a few words.
        flags: Names of flags that differ from those of their settings.
        help: Descriptions of flags, where those of the settings speak to programmers. What the
            command's own docstring says about a flag comes before both.
    """

    path: str
    only: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    words: Mapping[str, type[StrEnum]] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    help: Mapping[str, str] = field(default_factory=dict)

    def parameters(self, texts: Mapping[str, str] = _NO_TEXTS) -> Iterator[inspect.Parameter]:
        """The flags, as parameters of a command that describes some of them itself."""
        kinds, described = _read_class(self.path)

        def spoken(code: re.Match[str]) -> str:
            return flag_of(self._flag(code[1])) if code[1] in kinds else code[1]

        for name, kind in self._kinds().items():
            flag, text = self._flag(name), self.help.get(name, described.get(name, ""))
            text = texts.get(flag, re.sub(r"`([^`]*)`", spoken, text))
            flag_type = self.words[name] if name in self.words else _TYPES[kind]
            yield _parameter(
                flag, Annotated[flag_type | None, _option(flag, flag_type)], None, text
            )

    def collect(self, values: Mapping[str, Any]) -> Settings:
        """The settings that were given, by name. The others keep the default of the library."""
        parsers: dict[str, Callable[[str, str], Any]] = {
            "tuple[int, ...]": whole_numbers,
            "float | tuple[float, ...]": one_or_more,
            "RecordCount": number_or_text,
        }
        settings = {}
        for name, kind in self._kinds().items():
            value = values[self._flag(name)]
            if kind in parsers and value is not None:
                value = parsers[kind](flag_of(self._flag(name)), value)
            if value is not None:
                settings[name] = str(value) if isinstance(value, StrEnum) else value
        return settings

    def _flag(self, name: str) -> str:
        return self.flags.get(name, name)

    def _kinds(self) -> dict[str, str]:
        """The types of the settings that have flags, as they are written in the library."""
        left_out = (*_ELSEWHERE, *self.leave_out)
        return {
            name: kind
            for name, kind in _read_class(self.path)[0].items()
            if (name in self.only if self.only else name not in left_out)
            and (name in self.words or kind in _TYPES)
        }


@functools.cache
def _read_class(path: str) -> tuple[dict[str, str], dict[str, str]]:
    """The types and the descriptions of a class's fields, also of bases in the same module."""
    module, _, name = path.rpartition(".")
    source = (_SOURCE / module.replace(".", "/")).with_suffix(".py").read_text("utf-8")
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    kinds: dict[str, str] = {}
    texts: dict[str, str] = {}
    for node in reversed(list(_with_bases(classes[name], classes))):
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                kinds[line.target.id] = ast.unparse(line.annotation).removesuffix(" | None")
        texts |= _descriptions(ast.get_docstring(node))
    return kinds, {name: _first_sentence(text) for name, text in texts.items()}


def _with_bases(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    yield node
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            yield from _with_bases(classes[base.id], classes)


def _descriptions(doc: str | None) -> dict[str, str]:
    """What a docstring says about each argument or attribute."""
    section = _SECTION.search(doc or "")
    entries = re.findall(
        r"^    (\w+): (.*?)(?=^    \w+: |\Z)", section[1] if section else "", _LINES
    )
    return {name: " ".join(text.split()) for name, text in entries}


def _first_sentence(text: str) -> str:
    end = re.search(r"\.(?= [A-Z]|$)", text)  # a dot inside a word or a number ends no sentence
    return text[: end.end()] if end else text


def expanded(function: Callable[..., None]) -> Callable[..., None]:
    """The command that a function describes: each of its parameters is an argument or a flag."""
    hints = get_type_hints(function, include_extras=True)
    doc = inspect.getdoc(function) or ""
    texts = _descriptions(doc)
    groups = {name: group for name, hint in hints.items() if (group := _group(hint)) is not None}
    flags = {name: list(group.parameters(texts)) for name, group in groups.items()}
    for name, one in inspect.signature(function).parameters.items():
        if name not in groups:
            flags[name] = [_parameter(name, hints[name], one.default, texts.get(name))]
    parameters = [flag for name in inspect.signature(function).parameters for flag in flags[name]]

    @functools.wraps(function)
    def command(**values: Any) -> None:
        single = {name: values[name] for name in flags if name not in groups}
        collected = {name: group.collect(values) for name, group in groups.items()}
        function(**single, **collected)

    command.__doc__ = _SECTION.sub("", doc).rstrip()
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


@dataclass(frozen=True)
class _FieldsOf:
    """Flags for the fields of a dataclass; the command receives an instance of it."""

    group: type

    def parameters(self, texts: Mapping[str, str]) -> list[inspect.Parameter]:
        hints, described = get_type_hints(self.group, include_extras=True), {}
        for base in reversed(self.group.__mro__):
            described |= _descriptions(inspect.cleandoc(base.__doc__ or ""))
        described |= texts
        required = inspect.Parameter.empty
        flags = [
            _parameter(
                one.name,
                hints[one.name],
                required if one.default is dataclasses.MISSING else one.default,
                described.get(one.name),
            )
            for one in dataclasses.fields(self.group)
        ]
        return sorted(flags, key=lambda flag: flag.default is not required)

    def collect(self, values: Mapping[str, Any]) -> Any:
        return self.group(**{one.name: values[one.name] for one in dataclasses.fields(self.group)})


def _group(hint: Any) -> SettingsOf | _FieldsOf | None:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _FieldsOf(hint)
    return next((x for x in getattr(hint, "__metadata__", ()) if isinstance(x, SettingsOf)), None)


def _parameter(name: str, hint: Any, default: Any, text: str | None) -> inspect.Parameter:
    """A parameter for typer: an option of its own name, unless the hint says otherwise."""
    known = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, ParameterInfo)]
    kind = get_args(hint)[0] if known else hint
    info = copy.copy(known[0]) if known else typer.Option(flag_of(name))
    info.help = info.help or text
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=default
    )


def _option(flag: str, kind: type) -> ParameterInfo:
    """The option of a setting; one that is true or false can be given either way."""
    name = flag_of(flag)
    return typer.Option(f"{name}/--no-{name[2:]}" if kind is bool else name)


def flag_of(name: str) -> str:
    """The flag of a parameter: `--batch-size` of `batch_size`."""
    return f"--{name.replace('_', '-')}"


def given(**settings: Any) -> dict[str, Any]:
    """The settings that are not None; the others keep the default of the library."""
    return {
        name: str(value) if isinstance(value, StrEnum) else value
        for name, value in settings.items()
        if value is not None
    }


def names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",")]


def numbers(flag: str, text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    return _listed(flag, text, float, "numbers")


def one_or_more(flag: str, text: str) -> float | tuple[float, ...]:
    """Numbers with commas between them; a single number stands by itself."""
    values = numbers(flag, text)
    return values[0] if len(values) == 1 else values


def share_or_none(flag: str, text: str | None) -> float | bool | None:
    """A number, or False for the word none; None where the flag was not given."""
    if text is None or text == "none":
        return None if text is None else False
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{flag} must be a number or none, got {text!r}.") from None


def whole_numbers(flag: str, text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    return _listed(flag, text, int, "whole numbers")


def number_or_text(flag: str, text: str) -> int | str:
    """A whole number, or any other text as it is."""
    return int(text) if text.strip().isdecimal() else text


def _listed(flag: str, text: str, kind: Callable[[str], Any], what: str) -> tuple[Any, ...]:
    try:
        return tuple(kind(cell) for cell in text.split(","))
    except ValueError:
        raise ValueError(f"{flag} must be {what} with commas between them, got {text!r}.") from None


def refuse(flags: Mapping[str, Any], reason: str) -> None:
    """Raise if one of the flags was given.

    Args:
        flags: The value of each.
        reason: What to say about the first of them, such as "is for tables. Leave it out."
    """
    for flag, value in flags.items():
        if not (value is None or value is False or value == []):
            raise ValueError(f"{flag} {reason}")
