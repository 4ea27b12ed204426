"""A schema as plain JSON values, the form that model files keep; read strictly."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from veilflow.tabular.columns import KINDS, Boolean, Column, OpenCategorical
from veilflow.tabular.constraints import Allowed, AtMost, Constraint


def write(
    columns: Mapping[str, Column], label: str | None, constraints: Sequence[Constraint]
) -> dict[str, Any]:
    """A schema's parts as plain JSON values."""
    return {
        "columns": [{"name": n, **column_to_json(c)} for n, c in columns.items()],
        "label": label,
        "constraints": [constraint_to_json(c) for c in constraints],
    }


def read(document: Mapping[str, Any]) -> tuple[dict[str, Column], str | None, list[Constraint]]:
    """The parts that `write` described: columns, label, constraints."""
    fields = {"columns", "label", "constraints"}
    _check_fields(document, allowed=fields, required={"columns"}, where="the schema")
    columns: dict[str, Column] = {}
    for entry in _list(document["columns"], "columns of the schema"):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise ValueError("each of the columns of the schema must have a name.")
        name = entry["name"]
        if name in columns:
            raise ValueError(f"the column name {name!r} occurs twice. Rename one of them.")
        columns[name] = column_from_json(name, {k: v for k, v in entry.items() if k != "name"})
    label = document.get("label")
    if label is not None and not isinstance(label, str):
        raise ValueError("label of the schema must be the name of a column.")
    listed = _list(document.get("constraints", []), "constraints of the schema")
    try:
        return columns, label, [constraint_from_json(entry) for entry in listed]
    except TypeError as error:
        raise ValueError(f"a constraint is not allowed: {error}") from None


def column_to_json(column: Column) -> dict[str, Any]:
    """A column without its name, as plain JSON values."""
    document: dict[str, Any] = {}
    names = (*column.facts, "max_values") if isinstance(column, OpenCategorical) else column.facts
    for name in names:
        value = getattr(column, name, None)
        if isinstance(value, dt.datetime):
            value = value.isoformat()
        if value is not None:
            document[name] = list(value) if isinstance(value, tuple) else value
    if column.unconfirmed:
        document["confirmed"] = [n for n in column.facts if n not in column.unconfirmed] or False
    return document


def column_from_json(name: str, document: Mapping[str, Any]) -> Column:
    """The column that `column_to_json` described; `name` is for errors."""
    where = f"column {name!r}"
    kind = KINDS.get(str(document.get("kind")))
    if kind is None:
        raise ValueError(f"the kind of {where} must be one of {', '.join(KINDS)}.")
    settings = {field: value for field, value in document.items() if field != "kind"}
    allowed = {*kind.facts, "confirmed"}
    if kind is OpenCategorical:
        allowed.add("max_values")
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


def constraint_to_json(constraint: Constraint) -> dict[str, Any]:
    """A constraint as plain JSON values."""
    if isinstance(constraint, AtMost):
        return {"kind": "at_most", "low": constraint.low, "high": constraint.high}
    rows = [list(row) for row in constraint.rows]
    return {"kind": "allowed", "columns": list(constraint.columns), "rows": rows}


def constraint_from_json(document: Any) -> Constraint:
    """The constraint that `constraint_to_json` described."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if kind == "at_most":
        names = {"kind", "low", "high"}
        _check_fields(document, allowed=names, required=names, where="a constraint")
        return AtMost(document["low"], document["high"])
    if kind == "allowed":
        names = {"kind", "columns", "rows"}
        _check_fields(document, allowed=names, required=names, where="a constraint")
        rows = _list(document["rows"], "rows of a constraint")
        columns = _list(document["columns"], "columns of a constraint")
        return Allowed(columns, [_list(row, "each of the rows of a constraint") for row in rows])
    raise ValueError("the kind of a constraint must be 'at_most' or 'allowed'.")


def _check_fields(document: Any, *, allowed: set[str], required: set[str], where: str) -> None:
    if not isinstance(document, Mapping):
        raise ValueError(f"{where} must be a table of fields.")
    strange = [field for field in document if field not in allowed]
    if strange:
        words = ", ".join(sorted(allowed))
        raise ValueError(f"{where} has the unknown field {strange[0]!r}. Allowed are {words}.")
    for field in sorted(required - set(document)):
        raise ValueError(f"{where} lacks the field {field!r}.")


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list.")
    return value
