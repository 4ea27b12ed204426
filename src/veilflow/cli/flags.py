"""Flags from settings: one for each field of a dataclass, with its type and the words of its docstring.

A setting that is added to an estimator is a flag by that, of the same name and in the same words. Only
what no text on a command line can say is left to the commands: where records come from, files of
declared facts, and what is kept of the result.
"""

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from veilflow.cli.values import numbers

Parse = Callable[[str, Any], Any]
"""From a flag's name and what was typed to a value."""


@dataclass(frozen=True)
class Flag:
    """One flag, and the setting that it is for."""

    name: str
    path: tuple[str, ...]
    """Fields from the estimator to the setting."""
    kind: Any
    help: str
    parse: Parse | None = None

    @property
    def parameter(self) -> inspect.Parameter:
        """As an argument of a command."""
        option = typer.Option(f"--{self.name.replace('_', '-')}", help=self.help)
        kind, default = (bool, False) if self.kind is bool else (self.kind | None, None)
        return keyword(self.name, Annotated[kind, option], default)


def keyword(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    """A keyword argument of a command."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


def flags_of(settings: type, *, leave_out: Collection[str] = ()) -> list[Flag]:
    """The flags of a dataclass of settings, and of those inside it.

    Args:
        settings: The dataclass.
        leave_out: Fields that are no flags.
    """
    return list(_flags(settings, set(leave_out), ()))


def _flags(settings: type, leave_out: set[str], path: tuple[str, ...]) -> Iterator[Flag]:
    hints, said = get_type_hints(settings), sentences(settings)
    for field in dataclasses.fields(settings):
        if field.name in leave_out:
            continue
        kind, where = _without_none(hints[field.name]), (*path, field.name)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield from _flags(kind, leave_out, where)
            continue
        plain, parse = _typed(kind)
        yield Flag(field.name, where, plain, said.get(field.name, ""), parse)


def given(flags: list[Flag], values: dict[str, Any]) -> dict[str, Any]:
    """What was given by flags, as nested arguments; the rest keeps the default of the library.

    Args:
        flags: Of a command.
        values: Of all its arguments by name.
    """
    settings: dict[str, Any] = {}
    for flag in flags:
        value = values.get(flag.name)
        if value is None or value is False:
            continue
        if flag.parse is not None:
            value = flag.parse(f"--{flag.name.replace('_', '-')}", value)
        place = settings
        for name in flag.path[:-1]:
            place = place.setdefault(name, {})
        place[flag.path[-1]] = value
    return settings


def sentences(settings: type) -> dict[str, str]:
    """What the docstring says of each setting: its first sentence, which is enough for a flag."""
    doc = inspect.getdoc(settings) or ""
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", doc, re.S | re.M)
    if section is None:
        return {}
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", section[1], re.S | re.M)
    return {name: _first(" ".join(text.split())) for name, text in found}


def _first(text: str) -> str:
    """The first sentence; a dot inside a word or a number ends none."""
    end = re.search(r"\.(?= [A-Z]|$)", text)
    return (text[: end.end()] if end else text).replace("`", "")


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        rest = [part for part in get_args(kind) if part is not type(None)]
        return rest[0] if len(rest) == 1 else tuple(rest)
    return kind


def _typed(kind: Any) -> tuple[Any, Parse | None]:
    """The type of a flag's value, and how a text becomes a setting where typer does not know it."""
    if kind in (bool, int, float, str):
        return kind, None
    if get_origin(kind) is tuple:
        whole = get_args(kind)[0] is int
        return str, lambda flag, text: _listed(flag, text, whole=whole)
    if isinstance(kind, tuple) and str in kind:  # a word or a number
        return str, lambda flag, text: _number_or_word(text)
    if isinstance(kind, tuple) and float in kind:  # a number, or one for each of something
        return str, lambda flag, text: _one_or_each(flag, text)
    raise TypeError(f"no flag can say a {kind}: leave it out, and let the command make it.")


def _listed(flag: str, text: str, *, whole: bool) -> tuple[Any, ...]:
    values = numbers(flag, text) or ()
    if whole and any(value != int(value) for value in values):
        raise ValueError(f"{flag} must be whole numbers with commas between them, got {text!r}.")
    return tuple(map(int, values)) if whole else values


def _one_or_each(flag: str, text: str) -> float | tuple[float, ...]:
    values = numbers(flag, text) or ()
    return values[0] if len(values) == 1 else values


def _number_or_word(text: str) -> float | str | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        return text


def made(
    name: str, doc: str, parameters: list[inspect.Parameter], body: Callable[..., None]
) -> Any:
    """A function that typer can make a command of.

    Args:
        name: Of the command.
        doc: What `--help` says first.
        parameters: Its arguments and flags.
        body: Called with all of them by name.
    """

    def command(**values: Any) -> None:
        body(**values)

    command.__name__, command.__doc__ = name, doc
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command
