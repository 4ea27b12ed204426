"""Parts of the pages in the documentation that all reproductions have."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from reproductions.figure import Figure
from reproductions.records import FOLDER, Record

_CODE = """\
## Which code measured this

A fingerprint is a hash of what the library and the runs do, without comments, docstrings and layout.
A plus sign behind a commit: with changes that were not committed.

| code | commit | | records |
|---|---|---|---|
"""


def row(*cells: str) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """A table, its first `words` columns set left as text, the others right as numbers."""
    marks = ["---" if i < words else "---:" for i in range(len(head))]
    return "\n".join([row(*head), row(*marks), *(row(*cells) for cells in rows), ""])


def ours(record: Record | None) -> str:
    """Our number in a cell, marked where it is stale."""
    if record is None or not record.splits:
        return "not run"
    return record.measured + ("†" if record.stale else "")


def figures(folder: Path, all_figures: Iterable[Figure]) -> str:
    """The figures, linked where they lie, which the site's build hook copies; or that there is none."""
    where = f"../../{FOLDER.name}/{folder.name}/figures"
    shown = []
    for figure in all_figures:
        drawn = (folder / "figures" / f"{figure.name}.png").exists()
        image = (
            f"![{figure.caption.partition(':')[0]}]({where}/{figure.name}.png)\n\n" if drawn else ""
        )
        missing = "" if drawn else " (Not drawn yet.)"
        shown.append(f"{image}{figure.caption}{missing}\n")
    return "\n".join(["## Figures", "", *shown])


def codes(records: list[Record]) -> str:
    """The code behind the records: fingerprint, commit, and whether it is still in use."""
    made: dict[tuple[str, str, str], dict[str, dict[str, None]]] = {}
    for r in records:
        if not r.splits:
            continue
        title, epsilon = r.column.split(", ")[:2]
        where = f"table {r.table}" if r.table.isdigit() else r.table
        code = (r.code or "not recorded", r.commit, "stale" if r.stale else "")
        made.setdefault(code, {}).setdefault(f"{where}, {r.row}, {title}", {})[epsilon] = None
    rows = [
        row(*code, "; ".join(f"{what} {', '.join(at)}" for what, at in which.items()))
        for code, which in sorted(made.items())
    ]
    return _CODE + "\n".join([*rows, ""]) if rows else ""
