"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from reproductions import pages
from reproductions.dp_lflow import figures, prose
from reproductions.dp_lflow.ablations import ABLATIONS
from reproductions.dp_lflow.paper import TABLES
from reproductions.dp_lflow.runs import REAL
from reproductions.dp_lflow.tables import SHEET
from reproductions.dp_lflow.targets import SMALL, TARGETS
from reproductions.records import Record


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page; some may be empty.

    Args:
        folder: Where the figures are.
        records: What was measured.
    """
    parts = (
        (prose.TARGETS, TARGETS),
        (prose.PAPER, TABLES),
        (prose.ABLATIONS, (*ABLATIONS, SMALL)),
    )
    known = {record.key: record for record in records}
    found = [prose.HEAD, prose.MEASURED if any(r.splits for r in records) else prose.NONE]
    for words, blocks in parts:
        # real images have neither a model nor a fit
        shown = (pages.section(SHEET, block, known, partly=REAL) for block in blocks)
        found += [words, *shown]
    found += [pages.figures(folder, figures.all_figures(1)), prose.NOT_MADE, prose.LOOKED_AT]
    how = pages.how(records)
    found += [prose.DECLARED, prose.HOW + how if how else "", pages.origins(records)]
    return found
