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
    """The parts of the page, from the folder of the figures and what was measured."""
    parts = (
        (prose.TARGETS, TARGETS),
        (prose.PAPER, TABLES),
        (prose.ABLATIONS, (*ABLATIONS, SMALL)),
    )
    return pages.sections(
        folder,
        records,
        SHEET,
        parts,
        figures.all_figures(1),
        head=(prose.HEAD, prose.MEASURED if any(r.splits for r in records) else prose.NONE),
        remarks=(prose.NOT_MADE, prose.LOOKED_AT, prose.DECLARED),
        how_title=prose.HOW,
        partly=REAL,  # real images have neither a model nor a fit
    )
