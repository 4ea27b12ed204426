"""`veilflow schema`: draft the declaration of a table's columns, for a person to correct."""

from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli.output import AsJson, Force, check_out, emit, guarded, note, safe

_WARNING = (
    "the draft holds values that were read from the data and are NOT PUBLIC: keep it as private as "
    "the data, replace them by what is publicly known, and confirm each column"
)


@guarded
def schema(
    data: Annotated[Path, typer.Argument(help="The table: .csv, .tsv, .parquet, .arrow.")],
    out: Annotated[Path, typer.Option(help="The schema to write, such as schema.toml.")],
    label: Annotated[str | None, typer.Option(help="The column to be predicted, if any.")] = None,
    max_categories: Annotated[
        int,
        typer.Option(help="Text with more distinct values than this becomes an open column."),
    ] = 100,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draft a schema from a table. The draft is private until a person has confirmed every column.

    Names and kinds of columns are printed; no value that was read from the data is.
    """
    check_out(out, force=force, inputs=(data,))
    from veilflow.tabular.draft import draft_schema

    draft = draft_schema(data, label=label, max_categories=max_categories)
    draft.to_file(out)
    columns = [
        {"name": name, "kind": column.kind, "unconfirmed": list(column.unconfirmed)}
        for name, column in draft.columns.items()
    ]
    result: dict[str, Any] = {
        "out": out,
        "label": draft.label,
        "columns": columns,
        "public": not draft.unconfirmed,
        "warning": _WARNING,
    }
    note(f"warning: {_WARNING}.")
    if as_json:
        emit(result, "", as_json=True)
    else:
        _show(columns, out)


def _show(columns: list[dict[str, Any]], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for head in ("column", "kind", "to confirm"):
        table.add_column(head)
    for column in columns:
        table.add_row(safe(column["name"]), column["kind"], ", ".join(column["unconfirmed"]))
    console = Console(soft_wrap=True, markup=False, highlight=False)
    console.print(table)
    console.print(f"wrote {out}")
