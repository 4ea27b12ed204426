"""`veilflow schema --confirm`: a person goes through a draft in the terminal, column by column."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from veilflow.cli.output import note, safe

if TYPE_CHECKING:
    from veilflow.tabular.schema import Schema

_QUESTION = "keep, change, discover, leave or quit? [k/c/d/l/q]"
_ANSWERS = ("k", "c", "d", "l", "q")
_MOST_SHOWN = 12
_NO_FACTS = ("name", "kind", "confirmed")


def confirmed(schema: "Schema", hints: Mapping[str, Sequence[str]]) -> "Schema":
    """The schema with what a person has confirmed or changed.

    It shows facts that were read from the data: nobody can confirm what they do not see.

    Args:
        schema: The draft.
        hints: By column, what is odd about it.
    """
    note(
        "this shows values of the data on your terminal. Keep a fact only if it is known without the "
        "data; change it to what is known, or leave it to be discovered for a share of the budget."
    )
    for place, name in enumerate(schema.unconfirmed, 1):
        column = schema.columns[name]
        _say(f"\n{safe(name)} ({place} of {len(schema.unconfirmed)}): {column.kind}")
        for fact, value in _facts(schema, name).items():
            _say(f"  {fact} = {safe(_shown(value))}")
        for hint in hints.get(name, ()):
            _say(f"  hint: {safe(hint)}")
        answer = ""
        while answer not in _ANSWERS:
            answer = _ask(_QUESTION, "l").lower()[:1]
            changed = _changed(schema, name) if answer == "c" else None
            if answer == "c" and changed is None:
                answer = ""  # what was typed is no column: ask again
            schema = changed or schema
        if answer == "q":
            break
        if answer == "k":
            schema = schema.confirm(name)
        elif answer == "d":
            schema = schema.confirm(name, facts=["kind"])
            if column.kind in ("datetime", "ordinal"):
                _say("  its range cannot be discovered: declare it before you fit.")
    return schema


def _facts(schema: "Schema", name: str) -> dict[str, Any]:
    """The facts of a column besides its kind, as the draft's file has them."""
    return {fact: x for fact, x in _entry(schema, name).items() if fact not in _NO_FACTS}


def _entry(schema: "Schema", name: str) -> dict[str, Any]:
    entries = schema.to_json()["columns"]
    return next(entry for entry in entries if entry["name"] == name)


def _changed(schema: "Schema", name: str) -> "Schema | None":
    """The schema with the facts of a column as a person types them, all confirmed; None if unusable."""
    from veilflow.tabular.number_columns import KINDS
    from veilflow.tabular.schema import Schema

    old = _entry(schema, name)
    kind = _ask("  kind", old["kind"])
    entry: dict[str, Any] = {"name": name, "kind": kind}
    for fact in KINDS[kind].facts[1:] if kind in KINDS else ():
        if kind == "boolean" and fact == "values":
            continue
        text = _ask(f"  {fact}", _typed(old.get(fact)))
        if text != "none":
            entry[fact] = _parsed(fact, text)
    try:
        column = Schema.from_json({"columns": [entry]}).columns[name]
        return schema.with_columns({name: column})
    except (ValueError, TypeError) as error:
        _say(f"  {safe(str(error))}")
        return None


def _parsed(fact: str, text: str) -> Any:
    """What a person typed: a number, a truth value, text; a list has commas."""
    if fact == "values":
        return [_parsed("", part.strip()) for part in text.split(",")]
    try:
        value = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _typed(value: Any) -> str:
    """A fact as a person would type it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > _MOST_SHOWN:
        return f"{_typed(value[:_MOST_SHOWN])}, ... {len(value) - _MOST_SHOWN} more"
    return _typed(value)


def _ask(question: str, default: str) -> str:
    return typer.prompt(question, default=default, err=True).strip()


def _say(text: str) -> None:
    typer.echo(text, err=True)
