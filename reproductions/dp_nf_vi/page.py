"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from benchmarks.provenance import ROOT

from reproductions import pages
from reproductions.dp_nf_vi import figures, prose
from reproductions.dp_nf_vi.paper import ABLATIONS, BETA, PAPER, TARGETS
from reproductions.dp_nf_vi.tables import SHEET
from reproductions.records import Record

PAGE = ROOT / "docs" / "reproductions" / "dp-nf-vi.md"


def write_page(folder: Path, records: list[Record], path: Path = PAGE) -> Path:
    """Write the page.

    Args:
        folder: Where the figures are.
        records: What was measured.
        path: The page.
    """
    known = {record.key: record for record in records}
    parts = (
        (prose.TARGETS, (TARGETS, BETA)),
        (prose.ABLATIONS, (ABLATIONS,)),
        (prose.PAPER, PAPER),
    )
    sections = [prose.HEAD]
    for words, blocks in parts:
        sections += [words, *(pages.section(SHEET, block, known) for block in blocks)]
    sections += [pages.figures(folder, figures.all_figures(1)), prose.DIFFERENT, prose.LOOKED_AT]
    how = pages.how(records)
    sections += [prose.HOW + how if how else "", pages.codes(records)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(section for section in sections if section), "utf-8")
    return path
