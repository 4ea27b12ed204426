"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from reproductions import pages
from reproductions.expm_nf import figures, prose, targets
from reproductions.expm_nf.tables import SHEET
from reproductions.records import Record


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page, from the folder of the figures and what was measured."""
    parts = (
        (prose.TARGETS, targets.TARGETS),
        (prose.ADULT, (targets.ADULT, targets.TENTH, targets.WIDE)),
        (prose.ICU, (targets.ICU, targets.LAST, targets.GRUD, targets.PAPER)),
        (prose.ATTACKS, (targets.ATTACKS,)),
        (prose.TIMES, (targets.TIMES,)),
        (prose.SMALL, (targets.SMALL,)),
    )
    return pages.sections(
        folder,
        records,
        SHEET,
        parts,
        figures.all_figures(10),
        head=(prose.HEAD, prose.MEASURED if any(r.splits for r in records) else prose.NONE),
        remarks=(prose.LOOKED_AT, prose.DECLARED),
        how_title=prose.HOW,
    )
