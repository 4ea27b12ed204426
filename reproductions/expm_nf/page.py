"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from reproductions import pages
from reproductions.expm_nf import figures, prose, targets
from reproductions.expm_nf.tables import SHEET
from reproductions.records import Record


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page; some may be empty.

    Args:
        folder: Where the figures are.
        records: What was measured.
    """
    parts = (
        (prose.TARGETS, targets.TARGETS),
        (prose.ADULT, (targets.ADULT, targets.TENTH, targets.WIDE)),
        (prose.ICU, (targets.ICU, targets.LAST, targets.GRUD, targets.PAPER)),
        (prose.ATTACKS, (targets.ATTACKS,)),
        (prose.TIMES, (targets.TIMES,)),
        (prose.SMALL, (targets.SMALL,)),
    )
    known = {record.key: record for record in records}
    found = [prose.HEAD, prose.MEASURED if any(r.splits for r in records) else prose.NONE]
    for words, blocks in parts:
        # not every sampler has every number: a grid has no divergence
        shown = (pages.section(SHEET, block, known) for block in blocks)
        found += [words, *shown]
    found += [pages.figures(folder, figures.all_figures(10)), prose.LOOKED_AT, prose.DECLARED]
    how = pages.how(records)
    found += [prose.HOW + how if how else "", pages.origins(records)]
    return found
