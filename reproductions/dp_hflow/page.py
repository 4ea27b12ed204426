"""The page in the documentation, written from the records and figures; it has no number of its own."""

import math
from pathlib import Path

from benchmarks.provenance import ROOT, bound

from reproductions import pages
from reproductions.dp_hflow import figures, prose
from reproductions.dp_hflow.ablations import ABLATIONS
from reproductions.dp_hflow.blocks import TITLES, Block, Column, Row, epsilon_text
from reproductions.dp_hflow.paper import TABLES
from reproductions.dp_hflow.runs import HELD_OUT
from reproductions.dp_hflow.tables import column_of
from reproductions.dp_hflow.targets import TARGETS
from reproductions.records import Record

PAGE = ROOT / "docs" / "reproductions" / "dp-hflow.md"


def write_page(folder: Path, records: list[Record], path: Path = PAGE) -> Path:
    """Write the page.

    Args:
        folder: Where the figures are.
        records: What was measured.
        path: The page.
    """
    parts = (
        (prose.HEAD, TARGETS),
        (prose.PAPER, TABLES),
        (prose.ABLATIONS, ABLATIONS),
    )
    known = {record.key: record for record in records}
    sections = []
    for words, blocks in parts:
        sections += [words, *(_section(block, known) for block in blocks)]
    sections += [pages.figures(folder, figures.all_figures(1)), prose.LOOKED_AT, prose.DECLARED]
    sections += [_how(records), pages.codes(records)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(section for section in sections if section), "utf-8")
    return path


Known = dict[tuple[str, str, str, str], Record]


def _section(block: Block, known: Known) -> str:
    """One table: what is given, ours in bold if it stands beside, and what must be reached."""
    mixed = any(row.method is None for row in block.rows)
    one = len({column.data for column in block.columns}) == 1
    heads = [_head(column, alone=one) for column in block.columns]
    rows = []
    for row in block.rows:
        found = [known.get(_key(block, row, column)) for column in block.columns]
        if row.method is None:
            cells = [row.given.get(column, "") for column in block.columns]
        else:
            # of test rows only distances are measured: what is left out will never be run
            left_out = row.method == HELD_OUT and any(found)
            cells = ["" if left_out and r is None else _ours(r, bold=mixed) for r in found]
        name = f"**{row.name}, ours**" if mixed and row.method is not None else row.name
        rows.append([name, epsilon_text(row.epsilon), *cells])
        if row.must:
            verdicts = [
                _verdict(row, column, record)
                for column, record in zip(block.columns, found, strict=True)
            ]
            rows.append(["must", epsilon_text(row.epsilon), *verdicts])
    words = f"{block.words}\n\n" if block.words else ""
    table = pages.table(["", "epsilon", *heads], rows)
    return f"### {block.title}\n\n{words}{table}"


def _key(block: Block, row: Row, column: Column) -> tuple[str, str, str, str]:
    return (block.table, row.name, column_of(row, column), column.metric)


def _head(column: Column, *, alone: bool) -> str:
    name = f"{column.what.name} {'↑' if column.what.better == 'higher' else '↓'}"
    return name if alone else f"{TITLES[column.data]}: {name}"


def _ours(record: Record | None, *, bold: bool) -> str:
    text = pages.ours(record)
    return f"**{text}**" if bold and text != "not run" else text


def _verdict(row: Row, column: Column, record: Record | None) -> str:
    must = bound(row.must.get(column), column.what.better)
    if not must or record is None or not record.splits:
        return must
    if record.must is None:
        return f"{must} (not for this machine)"
    return f"{must} {'misses' if record.misses else 'holds'}"


def _how(records: list[Record]) -> str:
    """How our numbers came about: what was spent, on how many seeds, where."""
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
    if not rows:
        return ""
    head = ("method", "data, target", "spent", "delta", "accountant", "batches", "seeds", "s", "on")
    return prose.HOW + pages.table(head, rows, words=2)
