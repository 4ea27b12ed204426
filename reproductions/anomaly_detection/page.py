"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from benchmarks.provenance import ROOT, bound

from reproductions import pages
from reproductions.anomaly_detection import elsewhere, figures, prose, sets, targets
from reproductions.anomaly_detection.tables import SHEET
from reproductions.records import FOLDER, Record, number

_ROC = FOLDER / "dp-nf" / "figures" / "figure-5.png"


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page; some may be empty.

    Args:
        folder: Where the figures are.
        records: What was measured.
    """
    parts = (
        (prose.TARGETS, targets.TARGETS),
        (prose.VOTES, (targets.FIGURE_8,)),
        (prose.STREAMS, (targets.OTHER_STREAM, targets.LENGTHS, targets.TRADE_OFF)),
        (prose.DETECTION, (targets.DETECTION,)),
        (prose.THRESHOLDS, (targets.ALL_THRESHOLDS,)),
    )
    known = {record.key: record for record in records}
    found = [prose.HEAD, "" if any(r.splits for r in records) else prose.NONE]
    found += [prose.FIGURE_5, _areas(records), _roc()]
    for words, blocks in parts:
        found += [words, *(pages.section(SHEET, block, known) for block in blocks)]
        if words is prose.TARGETS:
            found.append(_differences(records))
    found += [prose.IMAGES, _images(records), pages.figures(folder, figures.all_figures(3))]
    found += [prose.LOOKED_AT, _declared()]
    how = pages.how(records)
    found += [prose.HOW + how if how else "", pages.origins(records)]
    return found


def _areas(records: list[Record]) -> str:
    """Figure 5 as a table, a row for each method and a column for each epsilon."""
    found = [r for r in records if r.table == elsewhere.FIGURE_5]
    columns = list(dict.fromkeys(r.column for r in found))
    columns.sort(key=lambda text: float(text.rpartition(", ")[2]))
    names = list(dict.fromkeys(r.row for r in found))
    known = {(r.row, r.column): r for r in found}
    rows = [
        [name, *(pages.ours(r) if (r := known.get((name, c))) else "" for c in columns)]
        for name in names
    ]
    heads = [text.rpartition(", ")[2].replace("inf", "none") for text in columns]
    return pages.table(["epsilon", *heads], rows) if rows else ""


def _roc() -> str:
    if not _ROC.exists():
        return ""
    return f"![Figure 5: ROC on Life Science](../../{_ROC.relative_to(ROOT).as_posix()})\n"


def _differences(records: list[Record]) -> str:
    """Of Figure 5, what must be reached."""
    chosen = [r for r in records if r.table == "targets" and r.metric in elsewhere.METRICS]
    rows = [
        (
            f"{r.row}, {r.column}: {r.metric}",
            pages.ours(r),
            f"{bound(r.must, r.better)} {'misses' if r.misses else 'holds'}",
        )
        for r in chosen
    ]
    title = "### Figure 5, Life Science\n\n"
    return title + pages.table(("", "ours", "must"), rows) if rows else ""


def _images(records: list[Record]) -> str:
    chosen = [r for r in records if r.table == elsewhere.TABLE_3]
    rows = [(r.column, number(r.paper), pages.ours(r)) for r in chosen]
    return pages.table(("data, epsilon", "paper", "ours"), rows) if rows else ""


def _declared() -> str:
    rows = []
    for name in (sets.LIFE, sets.NETWORK, sets.CARDS, *sets.TOYS):
        facts = sets.facts_of(name)
        records = facts.num_rows if name in sets.FACTS else facts.num_train
        rows.append(pages.row(facts.title, f"{records:,}", f"{facts.delta:g}", facts.declared))
    return prose.DECLARED + "\n".join([*rows, ""])
