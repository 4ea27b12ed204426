"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from benchmarks.provenance import ROOT

from reproductions import pages
from reproductions.dp_lflow import figures, prose
from reproductions.dp_lflow.ablations import ABLATIONS
from reproductions.dp_lflow.paper import TABLES
from reproductions.dp_lflow.runs import REAL
from reproductions.dp_lflow.tables import SHEET
from reproductions.dp_lflow.targets import SMALL, TARGETS
from reproductions.records import Record

PAGE = ROOT / "docs" / "reproductions" / "dp-lflow.md"


def write_page(folder: Path, records: list[Record], path: Path = PAGE) -> Path:
    """Write the page.

    Args:
        folder: Where the figures are.
        records: What was measured.
        path: The page.
    """
    parts = (
        (prose.TARGETS, TARGETS),
        (prose.PAPER, TABLES),
        (prose.ABLATIONS, (*ABLATIONS, SMALL)),
    )
    known = {record.key: record for record in records}
    sections = [prose.HEAD, prose.STALE if any(r.splits for r in records) else prose.NONE]
    for words, blocks in parts:
        # real images have neither a model nor a fit
        shown = (pages.section(SHEET, block, known, partly=REAL) for block in blocks)
        sections += [words, *shown]
    sections += [pages.figures(folder, figures.all_figures(1)), prose.NOT_MADE, prose.LOOKED_AT]
    how = pages.how(records)
    sections += [prose.DECLARED, prose.HOW + how if how else "", pages.codes(records)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(section for section in sections if section), "utf-8")
    return path
