"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from benchmarks.provenance import ROOT

from reproductions import pages
from reproductions.expm_nf import figures, prose, targets
from reproductions.expm_nf.tables import SHEET
from reproductions.records import Record

PAGE = ROOT / "docs" / "reproductions" / "expm-nf.md"


def write_page(folder: Path, records: list[Record], path: Path = PAGE) -> Path:
    """Write the page.

    Args:
        folder: Where the figures are.
        records: What was measured.
        path: The page.
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
    sections = [prose.HEAD, prose.STALE if any(r.splits for r in records) else prose.NONE]
    for words, blocks in parts:
        # not every sampler has every number: a grid has no divergence
        shown = (pages.section(SHEET, block, known) for block in blocks)
        sections += [words, *shown]
    sections += [pages.figures(folder, figures.all_figures(10)), prose.LOOKED_AT, prose.DECLARED]
    how = pages.how(records)
    sections += [prose.HOW + how if how else "", pages.codes(records)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(section for section in sections if section), "utf-8")
    return path
