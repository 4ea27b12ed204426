"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from reproductions import pages
from reproductions.dp_nf_vi import figures, prose
from reproductions.dp_nf_vi.paper import ABLATIONS, BETA, PAPER, TARGETS
from reproductions.dp_nf_vi.tables import SHEET
from reproductions.records import Record


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page, from the folder of the figures and what was measured."""
    parts = (
        (prose.TARGETS, (TARGETS, BETA)),
        (prose.ABLATIONS, (ABLATIONS,)),
        (prose.PAPER, PAPER),
    )
    return pages.sections(
        folder,
        records,
        SHEET,
        parts,
        figures.all_figures(1),
        head=(prose.HEAD,),
        remarks=(prose.DIFFERENT, prose.LOOKED_AT),
        how_title=prose.HOW,
    )
