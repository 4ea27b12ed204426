"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from reproductions import pages
from reproductions.dp_hflow import figures, prose
from reproductions.dp_hflow.ablations import ABLATIONS
from reproductions.dp_hflow.paper import TABLES
from reproductions.dp_hflow.runs import HELD_OUT
from reproductions.dp_hflow.tables import SHEET
from reproductions.dp_hflow.targets import TARGETS
from reproductions.dp_hflow.verdicts import with_verdicts
from reproductions.records import Record


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page, from the folder of the figures and what was measured."""
    return pages.sections(
        folder,
        records,
        SHEET,
        (
            (prose.HEAD, TARGETS),
            (prose.PAPER, TABLES),
            (prose.ABLATIONS, with_verdicts(ABLATIONS, records)),
        ),
        figures.all_figures(1),
        remarks=(prose.LOOKED_AT, prose.DECLARED),
        how_title=prose.HOW,
        partly=HELD_OUT,  # only distances are measured of test rows
    )
