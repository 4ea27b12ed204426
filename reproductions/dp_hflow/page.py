"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from reproductions import pages
from reproductions.dp_hflow import figures, prose
from reproductions.dp_hflow.ablations import ABLATIONS
from reproductions.dp_hflow.paper import TABLES
from reproductions.dp_hflow.runs import HELD_OUT
from reproductions.dp_hflow.tables import SHEET
from reproductions.dp_hflow.targets import TARGETS
from reproductions.records import Record


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page; some may be empty.

    Args:
        folder: Where the figures are.
        records: What was measured.
    """
    parts = (
        (prose.HEAD, TARGETS),
        (prose.PAPER, TABLES),
        (prose.ABLATIONS, ABLATIONS),
    )
    known = {record.key: record for record in records}
    found = []
    for words, blocks in parts:
        # of test rows only distances are measured
        shown = (pages.section(SHEET, block, known, partly=HELD_OUT) for block in blocks)
        found += [words, *shown]
    found += [pages.figures(folder, figures.all_figures(1)), prose.LOOKED_AT, prose.DECLARED]
    how = pages.how(records)
    found += [prose.HOW + how if how else "", pages.origins(records)]
    return found
