"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from reproductions import pages
from reproductions.dp_nf_vi import figures, prose
from reproductions.dp_nf_vi.paper import ABLATIONS, BETA, PAPER, TARGETS
from reproductions.dp_nf_vi.tables import SHEET
from reproductions.records import Record


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page; some may be empty.

    Args:
        folder: Where the figures are.
        records: What was measured.
    """
    known = {record.key: record for record in records}
    parts = (
        (prose.TARGETS, (TARGETS, BETA)),
        (prose.ABLATIONS, (ABLATIONS,)),
        (prose.PAPER, PAPER),
    )
    found = [prose.HEAD]
    for words, blocks in parts:
        found += [words, *(pages.section(SHEET, block, known) for block in blocks)]
    found += [pages.figures(folder, figures.all_figures(1)), prose.DIFFERENT, prose.LOOKED_AT]
    how = pages.how(records)
    found += [prose.HOW + how if how else "", pages.origins(records)]
    return found
