"""Parts of the pages in the documentation that all reproductions have."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.provenance import bound

from reproductions.blocks import Block, Column, Row, epsilon_text
from reproductions.figure import Figure
from reproductions.records import FOLDER, Record
from reproductions.sheet import Key, Sheet

_ORIGINS = """\
## Where and when this was measured

A plus sign behind a commit stands for changes that were not committed. Numbers without versions were
measured before versions were recorded; their date is the day on which they were committed.

"""

NOT_RUN = "not run"


def row(*cells: str) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """A table, its first `words` columns set left as text, the others right as numbers."""
    marks = ["---" if i < words else "---:" for i in range(len(head))]
    return "\n".join([row(*head), row(*marks), *(row(*cells) for cells in rows), ""])


def ours(record: Record | None) -> str:
    """Our number in a cell."""
    return record.measured if record is not None and record.splits else NOT_RUN


Parts = Iterable[tuple[str, Iterable[Block]]]
"""Introductions, each with the tables that it introduces."""


def sections(
    folder: Path,
    records: list[Record],
    sheet: Sheet,
    parts: Parts,
    all_figures: Iterable[Figure],
    *,
    head: Sequence[str] = (),
    remarks: Sequence[str],
    how_title: str,
    partly: str | None = None,
) -> list[str]:
    """A page: head, tables, figures, remarks, and how, where and when its numbers were measured."""
    known = {record.key: record for record in records}
    tables = []
    for words, blocks in parts:
        tables += [words, *(section(sheet, block, known, partly=partly) for block in blocks)]
    measured = how(records)
    ends = [how_title + measured if measured else "", origins(records)]
    return [*head, *tables, figures(folder, all_figures), *remarks, *ends]


def section(
    sheet: Sheet, block: Block, known: Mapping[Key, Record], *, partly: str | None = None
) -> str:
    """One table: what is given, ours in bold if it stands beside, and what must be reached.

    Args:
        sheet: All tables.
        block: This one.
        known: Records by their keys.
        partly: A method of which not all is measured: what is left out will never be run.
    """
    mixed = any(row.method is None for row in block.rows)
    alone = len({column.data for column in block.columns}) == 1
    heads = [_head(sheet, column, alone=alone) for column in block.columns]
    rows = []
    for line in block.rows:
        if line.method is None:
            cells = [line.given.get(column, "") for column in block.columns]
            rows.append([line.name, epsilon_text(line.epsilon), *cells])
            continue
        found = [known.get(sheet.key(block, line, column)) for column in block.columns]
        name = f"**{line.name}, ours**" if mixed else line.name
        left_out = line.method == partly and any(found)
        cells = [
            "" if left_out and record is None else _bold(ours(record), mixed) for record in found
        ]
        rows.append([name, epsilon_text(line.epsilon), *cells])
        if line.must:
            pairs = zip(block.columns, found, strict=True)
            verdicts = [_verdict(line, column, record) for column, record in pairs]
            rows.append(["must", epsilon_text(line.epsilon), *verdicts])
    words = f"{block.words}\n\n" if block.words else ""
    return f"### {block.title}\n\n{words}{table(['', 'epsilon', *heads], rows)}"


def _head(sheet: Sheet, column: Column, *, alone: bool) -> str:
    name = f"{column.what.name} {'↑' if column.what.better == 'higher' else '↓'}"
    return name if alone else f"{sheet.titles[column.data]}: {name}"


def _bold(text: str, mixed: bool) -> str:
    return f"**{text}**" if mixed and text != NOT_RUN else text


def _verdict(line: Row, column: Column, record: Record | None) -> str:
    must = bound(line.must.get(column), column.what.better)
    if not must or record is None or not record.splits:
        return must
    if record.must is None:
        return f"{must} (not for this machine)"
    return f"{must} {'misses' if record.misses else 'holds'}"


def how(records: list[Record]) -> str:
    """How our numbers came about: what was spent, on how many seeds, where; empty if none did."""
    lines: dict[tuple[str, str], Record] = {}
    for record in records:
        if record.splits and record.epsilon not in (None, math.inf):
            lines.setdefault((record.row, record.column), record)
    rows = [
        (
            r.row,
            r.column,
            f"{r.epsilon:.4g}",
            f"{r.delta:g}",
            r.accountant,
            r.sampling,
            str(r.splits),
            f"{r.seconds:g}",
            r.device,
        )
        for r in lines.values()
    ]
    head = ("method", "data, target", "spent", "delta", "accountant", "batches", "seeds", "s", "on")
    return table(head, rows, words=2) if rows else ""


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


def origins(records: list[Record]) -> str:
    """Commit, date, versions and device of all records; empty if nothing was measured."""
    made: dict[tuple[str, ...], dict[str, dict[str, None]]] = {}
    for r in records:
        if not r.splits:
            continue
        title, epsilon = r.column.split(", ")[:2]
        where = f"table {r.table}" if r.table.isdigit() else r.table
        versions = ", ".join(f"{name} {version}" for name, version in (r.versions or {}).items())
        origin = (r.date or "", r.commit, versions, r.device)
        made.setdefault(origin, {}).setdefault(f"{where}, {r.row}, {title}", {})[epsilon] = None
    rows = [
        (*origin, "; ".join(f"{what} {', '.join(at)}" for what, at in which.items()))
        for origin, which in sorted(made.items())
    ]
    head = ("date", "commit", "versions", "on", "records")
    return _ORIGINS + table(head, rows, words=len(head)) if rows else ""
