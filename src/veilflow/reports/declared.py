"""The public facts of a model file about its columns, as lines of a table, for every kind of model."""

from typing import Any

from veilflow.models.artifact import Artifact
from veilflow.tabular.schema import Schema

_MOST_VALUES = 12
_NO_LINES = ("domain", "columns", "low", "high", "assembly")
"""Bounds have lines of their own; how a flow is put together was not declared."""


def declared_facts(artifact: Artifact) -> list[tuple[str, str]]:
    """Names and declarations: what was said of the data before it was read, or paid for."""
    schema = {"domain": artifact.manifest.get("plan", {}).get("domain"), **artifact.schema}
    if isinstance(images := schema.get("spec"), dict):
        return [(_title(name), _shown(value)) for name, value in images.items()]
    if isinstance(schema.get("schema"), dict) and isinstance(schema.get("vocabularies"), dict):
        return _of_table(schema)
    if isinstance(names := schema.get("parameters"), list):
        return [("parameters", _shown(names))]
    facts = _of_domain(schema)
    left = {k: v for k, v in schema.items() if k not in _NO_LINES}
    return facts + [(_title(name), _shown(value)) for name, value in left.items()]


def _of_table(schema: dict[str, Any]) -> list[tuple[str, str]]:
    columns = Schema.from_json(schema["schema"])
    lines = [(name, repr(column)) for name, column in columns.columns.items()]
    for name, words in schema["vocabularies"].items():
        lines.append((f"values of {name}, released and paid for", _shown(list(words))))
    if columns.label is not None:
        lines.append(("label", columns.label))
    return lines + [("every row fulfills", repr(one)) for one in columns.constraints]


def _of_domain(schema: dict[str, Any]) -> list[tuple[str, str]]:
    """Columns of numbers with their bounds; a bound for all, or one for each."""
    domain = schema.get("domain")
    names = schema.get("columns")
    if not isinstance(domain, dict):
        return [] if names is None else [("columns", _shown(names))]
    if domain.get("kind") != "Box":
        facts = [("largest norm of a row", _shown(domain.get("row_norm")))]
        return facts + ([] if names is None else [("columns", _shown(names))])
    low, high = (list(domain.get(end, [])) for end in ("low", "high"))
    if not isinstance(names, list) or len(low) not in (1, len(names)) or len(low) != len(high):
        return [("bounds", f"{_shown(low)} to {_shown(high)}")]
    if len(low) == 1:
        low, high = low * len(names), high * len(names)
    return [
        (str(name), f"{_shown(a)} to {_shown(b)}")
        for name, a, b in zip(names, low, high, strict=True)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        more = f", and {len(value) - _MOST_VALUES} more" if len(value) > _MOST_VALUES else ""
        return ", ".join(_shown(one) for one in value[:_MOST_VALUES]) + more
    if isinstance(value, dict):
        return ", ".join(f"{_title(name)} {_shown(one)}" for name, one in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _title(name: object) -> str:
    return str(name).replace("_", " ")
