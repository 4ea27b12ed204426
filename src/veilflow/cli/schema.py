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
    confirm: bool = False,
    look_for_structure: bool = False,
    encoding: options.Encoding = None,
    invalid: options.Invalid = options.InvalidCells.ERROR,
) -> None:
    """Draft a schema from a table. The draft is private until a person has confirmed every column.

    The names and drafted kinds of columns are printed, for whoever holds the data; no value is, unless
    --confirm asks for them.

    Flags:
        out: The schema to write, such as schema.toml.
        label: The column to be predicted, if any.
        max_categories: Text with more distinct values than this becomes an open column.
        confirm: Go through the columns in the terminal: keep what is public, change it, or leave it to
            be discovered. Shows values of the data.
        look_for_structure: Also look for what holds in every row, and write it down as comments.
    """
    output.check(data)
    if confirm and output.as_json:
        raise ValueError("--confirm asks a person, and --json is for programs. Leave one out.")
    from veilflow.tabular.draft import draft as draft_of

    source = options.as_text(data, encoding)
    drafted = draft_of(source, label=label, max_categories=max_categories, invalid=invalid)
    draft, hints = drafted
    if confirm:
        from veilflow.cli.confirming import confirmed

        draft = confirmed(draft, {name: [one.advice for one in x] for name, x in hints.items()})
    comments = {
        name: [f"HINT, NOT PUBLIC: {one.word}: {one.advice}" for one in hints[name]]
        for name in draft.unconfirmed
        if name in hints
    }
    ending: list[str] = []
    if look_for_structure:
        from veilflow.cli.structure_proposals import proposals

        ending, found = proposals(source, drafted.schema, invalid=str(invalid))
        note(f"structure that was found: {found} statements, at the end of the file as comments")
    draft.to_file(output.out, notes=comments, ending=ending)
    columns = [
        {
            "name": name,
            "kind": column.kind,
            "unconfirmed": list(column.unconfirmed),
            "hints": [one.word for one in hints.get(name, ())],
        }
        for name, column in draft.columns.items()
    ]
    result: dict[str, Any] = {
        "out": output.out,
        "label": draft.label,
        "columns": columns,
        "public": not draft.unconfirmed,
    }
    if draft.unconfirmed:
        result["warning"] = _WARNING
        note(f"warning: {_WARNING}.")
    if hints:
        note(f"columns with hints: {len(hints)}. The file says more about each of them.")
    rows = (
        (
            safe(one["name"]),
            one["kind"],
            ", ".join(one["hints"]),
            ", ".join(one["unconfirmed"]) or "nothing",
        )
        for one in columns
    )
    shown = table(("column", "kind (NOT PUBLIC)", "hints", "to confirm"), rows)
    emit(result, shown, f"wrote {output.out}", as_json=output.as_json)
