"""`veilflow schema`: draft the declaration of a table's columns, for a person to correct."""

from typing import Any

from veilflow.cli import options
from veilflow.cli.output import emit, guarded, note, safe, table

_WARNING = (
    "kinds of columns and all values in the draft were read from the data and are NOT PUBLIC: keep it "
    "as private as the data, correct it by what is publicly known, and confirm each column"
)


@guarded
def schema(
    data: options.Table,
    output: options.Output,
    label: str | None = None,
    max_categories: int = 100,
    invalid: options.Invalid = options.InvalidCells.ERROR,
) -> None:
    """Draft a schema from a table. The draft is private until a person has confirmed every column.

    The names and drafted kinds of columns are printed, for whoever holds the data; no value is.

    Flags:
        out: The schema to write, such as schema.toml.
        label: The column to be predicted, if any.
        max_categories: Text with more distinct values than this becomes an open column.
    """
    output.check(data)
    from veilflow.tabular.draft import draft_schema

    draft = draft_schema(data, label=label, max_categories=max_categories, invalid=invalid)
    draft.to_file(output.out)
    columns = [
        {"name": name, "kind": column.kind, "unconfirmed": list(column.unconfirmed)}
        for name, column in draft.columns.items()
    ]
    result: dict[str, Any] = {
        "out": output.out,
        "label": draft.label,
        "columns": columns,
        "public": not draft.unconfirmed,
        "warning": _WARNING,
    }
    note(f"warning: {_WARNING}.")
    rows = ((safe(one["name"]), one["kind"], ", ".join(one["unconfirmed"])) for one in columns)
    shown = table(("column", "kind (NOT PUBLIC)", "to confirm"), rows)
    emit(result, shown, f"wrote {output.out}", as_json=output.as_json)
