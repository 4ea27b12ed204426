"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from benchmarks.provenance import ROOT

from reproductions import pages
from reproductions.dp_hflow import figures, prose
from reproductions.dp_hflow.ablations import ABLATIONS
from reproductions.dp_hflow.paper import TABLES
from reproductions.dp_hflow.runs import HELD_OUT
from reproductions.dp_hflow.tables import SHEET
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
        # of test rows only distances are measured
        shown = (pages.section(SHEET, block, known, partly=HELD_OUT) for block in blocks)
        sections += [words, *shown]
    sections += [pages.figures(folder, figures.all_figures(1)), prose.LOOKED_AT, prose.DECLARED]
    how = pages.how(records)
    sections += [prose.HOW + how if how else "", pages.codes(records)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(section for section in sections if section), "utf-8")
    return path
