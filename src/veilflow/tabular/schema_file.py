"""A schema as plain JSON values, which model files keep, and as TOML, which people read and edit."""

import datetime as dt
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from veilflow._core import toml
from veilflow.tabular.columns import Boolean, Column
from veilflow.tabular.constraints import (
    Allowed,
    AtMost,
    Between,
    Constraint,
    Derived,
    MissingIf,
    MissingTogether,
    Near,
)
from veilflow.tabular.number_columns import KINDS

if TYPE_CHECKING:
    from veilflow.tabular.schema import Schema

_HEAD = "# The columns of a table, as veilflow reads them. All of it must be public knowledge."
_DRAFT = """\
# A DRAFT: what is marked NOT PUBLIC was read from the data. Keep this file as private as the data.
# For each column, check the kind, replace every other marked value by what is known without the data
# (a code book, a questionnaire, a law), and then set `confirmed = true`. Or list what you confirm:
# confirmed = ["kind"] keeps the kind alone, confirmed = ["kind", "low", "high"] the bounds as well.
# What stays unconfirmed is refused, or is forgotten and discovered for a share of the budget
# (--pay-for-discovery). No budget discovers a kind: every kind must be confirmed.
# Names of columns were read from the data, too: whoever fits by this file declares them."""
_MARK = "  # NOT PUBLIC: read from the data"
_CONSTRAINTS: dict[str, Any] = {
    "at_most": AtMost,
    "between": Between,
    "allowed": Allowed,
    "derived": Derived,
    "near": Near,
    "missing_if": MissingIf,
    "missing_together": MissingTogether,
}
"""The kinds of constraints by the word that files use for them."""
_NO_NOTES: Mapping[str, Sequence[str]] = MappingProxyType({})
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_json(
    columns: Mapping[str, Column], label: str | None, constraints: Sequence[Constraint]
) -> dict[str, Any]:
    """The parts of a schema as plain JSON values."""
    return {
        "columns": [{"name": n, **_column_to_json(c)} for n, c in columns.items()],
        "label": label,
        "constraints": [_constraint_to_json(c) for c in constraints],
    }


def from_json(
    document: Mapping[str, Any],
) -> tuple[dict[str, Column], str | None, list[Constraint]]:
    """The columns, the label and the constraints that `to_json` wrote; strict about every field."""
    known = {"columns", "label", "constraints"}
    _check_fields(document, allowed=known, required={"columns"}, where="the schema")
    columns: dict[str, Column] = {}
    for entry in _a_list(document["columns"], "columns of the schema"):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise ValueError("each of the columns of the schema must have a name.")
        name = entry["name"]
        if name in columns:
            raise ValueError(f"the column name {name!r} occurs twice. Rename one of them.")
        columns[name] = _column_from_json(name, {k: v for k, v in entry.items() if k != "name"})
    label = document.get("label")
    if label is not None and not isinstance(label, str):
        raise ValueError("label of the schema must be the name of a column.")
    entries = _a_list(document.get("constraints", []), "constraints of the schema")
    try:
        return columns, label, [_constraint_from_json(entry) for entry in entries]
    except TypeError as error:
        raise ValueError(f"a constraint is not allowed: {error}") from None


def to_text(
    schema: "Schema",
    notes: Mapping[str, Sequence[str]] = _NO_NOTES,
    ending: Sequence[str] = (),
) -> str:
    """The TOML text of a schema, with a note at everything that is not public.

    Args:
        schema: The schema.
        notes: By column, comments to write above it.
        ending: Lines of comments for the end.
    """
    parts = [_HEAD + ("\n" + _DRAFT if schema.unconfirmed else "")]
    if schema.label is not None:
        parts.append(f"label = {_value(schema.label)}")
    for name, column in schema.columns.items():
        lines = [line for note in notes.get(name, ()) for line in _comment(note)]
        parts.append("\n".join([*lines, _column_text(name, column)]))
    for constraint in schema.constraints:
        lines = [f"{k} = {_value(v)}" for k, v in _constraint_to_json(constraint).items()]
        parts.append("\n".join(["[[constraints]]", *lines]))
    if ending:
        parts.append("\n".join(f"# {_printable(line)}".rstrip() for line in ending))
    return "\n\n".join(parts) + "\n"


def parse(text: str | bytes) -> dict[str, Any]:
    """The JSON values of the schema that a TOML text describes."""
    document = toml.parse(text)
    columns = document.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise ValueError("there must be a table [columns.<name>] for each column.")
    entries = []
    for name, entry in columns.items():
        if not isinstance(entry, Mapping):
            raise ValueError(f"column {name!r} must be a table: [columns.{name}].")
        if "name" in entry:
            raise ValueError(f"column {name!r} has the unknown field 'name'.")
        entries.append({"name": name, **entry})
    constraints = _without_markers(document.get("constraints", []))
    return {**document, "columns": entries, "constraints": constraints}


def _column_to_json(column: Column) -> dict[str, Any]:
    """A column without its name, as plain JSON values."""
    document: dict[str, Any] = {}
    for name in (*column.facts, *column.settings):
        value = getattr(column, name, None)
        if name in ("decimal", "format") and value in (".", None):
            continue  # as most columns are
        if isinstance(value, dt.datetime):
            value = value.isoformat()
        if value is not None:
            document[name] = list(value) if isinstance(value, tuple) else value
    if column.unconfirmed:
        document["confirmed"] = [n for n in column.facts if n not in column.unconfirmed] or False
    return document


def _column_from_json(name: str, document: Mapping[str, Any]) -> Column:
    """The column that `_column_to_json` described; `name` is for errors."""
    where = f"column {name!r}"
    kind = KINDS.get(str(document.get("kind")))
    if kind is None:
        raise ValueError(f"the kind of {where} must be one of {', '.join(KINDS)}.")
    settings = {field: value for field, value in document.items() if field != "kind"}
    allowed = {*kind.facts, *kind.settings, "confirmed"}
    if kind is Boolean:
        allowed.remove("values")
    _check_fields(settings, allowed=allowed, required=set(), where=where)
    confirmed = settings.pop("confirmed", True)
    if confirmed is True or confirmed is False:
        unconfirmed = () if confirmed else kind.facts
    elif isinstance(confirmed, list) and all(fact in kind.facts for fact in confirmed):
        unconfirmed = tuple(fact for fact in kind.facts if fact not in confirmed)
    else:
        raise ValueError(
            f"confirmed of {where} must be true, false or a list of {', '.join(kind.facts)}."
        )
    values = settings.pop("values", ())
    if not isinstance(values, list | tuple):
        raise ValueError(f"values of {where} must be a list.")
    try:
        return kind(*values, **settings, unconfirmed=unconfirmed)
    except (TypeError, ValueError, OverflowError) as error:
        # a draft holds values of the data, and messages of constructors quote what they were given
        reason = f": {error}" if not unconfirmed else " by the rules of its kind."
        raise ValueError(f"{where} is not allowed{reason}") from None


def _constraint_to_json(constraint: Constraint) -> dict[str, Any]:
    """A constraint as plain JSON values."""
    (word,) = (word for word, kind in _CONSTRAINTS.items() if type(constraint) is kind)
    return {"kind": word, **{f: _plain(getattr(constraint, f)) for f in _fields(word)}}


def _constraint_from_json(document: Any) -> Constraint:
    """The constraint that `_constraint_to_json` described."""
    word = document.get("kind") if isinstance(document, Mapping) else None
    if word not in _CONSTRAINTS:
        words = ", ".join(map(repr, _CONSTRAINTS))
        raise ValueError(f"the kind of a constraint must be one of {words}.")
    names = _fields(word)
    _check_fields(document, allowed={"kind", *names}, required={*names}, where="a constraint")
    values = {name: document[name] for name in names}
    if "columns" in values:
        _a_list(values["columns"], "columns of a constraint")
    if word == "missing_together":
        return MissingTogether(*values["columns"])
    if word == "allowed":
        for row in _a_list(values["rows"], "rows of a constraint"):
            _a_list(row, "each of the rows of a constraint")
    return _CONSTRAINTS[word](**values)


def _fields(word: str) -> tuple[str, ...]:
    """The names of the fields of a kind of constraint."""
    return tuple(field.name for field in fields(_CONSTRAINTS[word]))


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _check_fields(document: Any, *, allowed: set[str], required: set[str], where: str) -> None:
    if not isinstance(document, Mapping):
        raise ValueError(f"{where} must be a table of fields.")
    for field in document:
        if field not in allowed:
            words = ", ".join(sorted(allowed))
            raise ValueError(f"{where} has the unknown field {field!r}. Allowed are {words}.")
    for field in sorted(required - set(document)):
        raise ValueError(f"{where} must have the field {field!r}.")


def _a_list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list.")
    return value


def _without_markers(value: Any) -> Any:
    """TOML has no null: in combinations a missing cell is written { missing = true }."""
    if isinstance(value, list):
        return [_without_markers(item) for item in value]
    if value == {"missing": True}:
        return None
    if isinstance(value, dict):
        return {key: _without_markers(item) for key, item in value.items()}
    return value


def _column_text(name: str, column: Column) -> str:
    lines = [f"[columns.{_key(name)}]"]
    for field, given in _column_to_json(column).items():
        value = getattr(column, field) if isinstance(given, str) and field != "kind" else given
        fact = "kind" if field in ("decimal", "format") else field  # confirmed with the kind
        lines.append(f"{field} = {_value(value)}{_MARK if fact in column.unconfirmed else ''}")
    return "\n".join(lines)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(_printable(text), 96, initial_indent="# ", subsequent_indent="#   ")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if value is None:
        return "{ missing = true }"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("numbers of a schema must be finite.")
        return repr(value)
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, list):
        return _list([_value(item) for item in value])
    return _text(value)


def _list(items: list[str]) -> str:
    line = f"[{', '.join(items)}]"
    return line if len(line) <= 80 else "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _text(text: str) -> str:
    """A TOML basic string: quotes, backslashes and control characters are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(_escape(c) if not c.isprintable() else c for c in escaped) + '"'


def _escape(character: str) -> str:
    number = ord(character)
    if 0xD800 <= number < 0xE000:
        raise ValueError("text of a schema must be valid Unicode.")
    return f"\\U{number:08X}"
