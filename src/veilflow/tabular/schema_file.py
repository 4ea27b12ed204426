"""A schema as a TOML file that people read and edit."""

import datetime as dt
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilflow._core import toml
from veilflow._core.store import write_atomic
from veilflow.tabular.columns import Column
from veilflow.tabular.schema import Schema
from veilflow.tabular.schema_json import column_to_json, constraint_to_json

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
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write(schema: Schema, path: str | os.PathLike[str]) -> None:
    """Write a schema, all or nothing; readable by the user alone while anything is unconfirmed."""
    mode = 0o600 if schema.unconfirmed else 0o666
    write_atomic(path, to_text(schema).encode("utf-8"), mode=mode)


def to_text(schema: Schema) -> str:
    """The text of the TOML file."""
    parts = [_HEAD + ("\n" + _DRAFT if schema.unconfirmed else "")]
    if schema.label is not None:
        parts.append(f"label = {_value(schema.label)}")
    parts += [_column_text(name, column) for name, column in schema.columns.items()]
    for constraint in schema.constraints:
        lines = [f"{k} = {_value(v)}" for k, v in constraint_to_json(constraint).items()]
        parts.append("\n".join(["[[constraints]]", *lines]))
    return "\n\n".join(parts) + "\n"


def read(path: str | os.PathLike[str]) -> Schema:
    """Read a schema from a file; errors name it."""
    data = Path(path).read_bytes()
    try:
        return parse(data)
    except ValueError as error:
        raise ValueError(f"{Path(path).name}: {error}") from None


def parse(text: str | bytes) -> Schema:
    """The schema that a TOML text describes."""
    document = toml.parse(text)
    columns = document.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise ValueError("there must be a table [columns.<name>] for each column.")
    listed = []
    for name, entry in columns.items():
        if not isinstance(entry, Mapping):
            raise ValueError(f"column {name!r} must be a table: [columns.{name}].")
        if "name" in entry:
            raise ValueError(f"column {name!r} has the unknown field 'name'.")
        listed.append({"name": name, **entry})
    constraints = _without_markers(document.get("constraints", []))
    return Schema.from_json({**document, "columns": listed, "constraints": constraints})


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
    for field, given in column_to_json(column).items():
        value = getattr(column, field) if isinstance(given, str) and field != "kind" else given
        lines.append(f"{field} = {_value(value)}{_MARK if field in column.unconfirmed else ''}")
    return "\n".join(lines)


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
