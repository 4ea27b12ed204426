"""The page in the documentation, written from the records and figures; it has no number of its own."""

from pathlib import Path

from benchmarks.provenance import bound

from reproductions import pages
from reproductions.batches import NO_BATCHES, POISSON
from reproductions.dp_nf import data, figures, paper, prose, tables
from reproductions.records import Record, number


def sections(folder: Path, records: list[Record]) -> list[str]:
    """The parts of the page; some may be empty.

    Args:
        folder: Where the figures are.
        records: What was measured.
    """
    found = [prose.HEAD, *(_section(block, records) for block in paper.BLOCKS)]
    found += [
        _others(records),
        _claims(records),
        pages.figures(folder, figures.all_figures(1)),
        prose.LOOKED_AT,
    ]
    found += [_declared(), pages.origins(records)]
    return found


def _section(block: paper.Block, records: list[Record]) -> str:
    """One block of a table: the paper's rows and ours, epsilon by epsilon."""
    facts = data.FACTS[block.data]
    mine = {r.row: {} for r in records}
    for r in records:
        if r.table == str(block.table):
            mine[r.row][r.column] = r
    columns = [tables.column(block.data, epsilon) for epsilon in block.epsilons]
    lines = [
        f"## Table {block.table}, {facts.title}",
        "",
        f"{block.metric.capitalize()}, {block.better} is better; delta {facts.delta:g}.",
        "",
        pages.row("", *(f"epsilon {epsilon:g}" for epsilon in block.epsilons)),
        pages.row("---", *("---:" for _ in columns)),
    ]
    for row in block.rows:
        found = [mine.get(row.name, {}).get(name) for name in columns]
        for who, cells in row.printed.items():
            lines.append(
                pages.row(f"{row.name}, paper, {who}", *(number(*(c or (None,))) for c in cells))
            )
        spent = [r and r.true_epsilon_of_paper for r in found]
        if any(spent):
            lines.append(pages.row("really spent by the paper's best", *map(number, spent)))
        if row.method is None:
            lines.append(pages.row(f"{row.name}, ours", *("not run" for _ in columns)))
            continue
        trained = [r is not None and r.sampling == POISSON for r in found]
        cells = [_bold(pages.ours(r), bold) for r, bold in zip(found, trained, strict=True)]
        lines.append(pages.row(_bold(f"{row.name}, ours", any(trained)), *cells))
        if row.must:
            musts = [bound(row.must.get(epsilon), block.better) for epsilon in block.epsilons]
            verdicts = [
                r and r.must is not None and ("misses" if r.misses else "holds") for r in found
            ]
            cells = [f"{m} {v or ''}".strip() for m, v in zip(musts, verdicts, strict=True)]
            lines.append(pages.row("must", *cells))
    lines += ["", *_references(block, records), *_notes(block, records), _how(block, records)]
    return "\n".join(lines)


def _bold(text: str, bold: bool) -> str:
    """In bold is what a flow was trained for by private steps: no grid, no mixture, no empty cell."""
    return f"**{text}**" if bold else text


def _references(block: paper.Block, records: list[Record]) -> list[str]:
    """What the same models reach without privacy."""
    found = [r for r in records if r.table == str(block.table) and r.row in block.references]
    reached = [f"{r.row} {pages.ours(r)}" for r in found]
    return [f"For reference, epsilon infinite: {', '.join(reached)}.", ""] if reached else []


def _notes(block: paper.Block, records: list[Record]) -> list[str]:
    notes = [f"- {row.name}: {row.note}." for row in block.rows if row.note]
    flows = {row.name for row in block.rows if row.method and row.method.startswith("flow")}
    columns = {tables.column(block.data, epsilon) for epsilon in block.epsilons}
    untrained = dict.fromkeys(
        r.row
        for r in records
        if r.row in flows and r.column in columns and r.sampling == NO_BATCHES
    )
    notes += [f"- {name}, ours: {prose.UNTRAINED}" for name in untrained]
    return [*notes, ""] if notes else []


def _how(block: paper.Block, records: list[Record]) -> str:
    """How our numbers of a block came about."""
    title = data.FACTS[block.data].title
    chosen = [
        r
        for r in records
        if r.table == str(block.table) and r.column.startswith(f"{title}, ") and r.splits
    ]
    if not chosen:
        return "None of it was run yet.\n"
    rows = [
        pages.row(
            r.row,
            r.column,
            f"{r.epsilon:.4g}",
            r.accountant,
            r.sampling,
            f"{r.paper_accountant}, {r.paper_sampling}" if r.paper_accountant else "",
            str(r.splits),
            f"{r.seconds:g}",
        )
        for r in chosen
    ]
    head = (
        "method",
        "data, target",
        "spent",
        "accountant",
        "batches",
        "the paper's",
        "splits",
        "s",
    )
    lines = [
        pages.row(*head),
        pages.row("---", "---", "---:", "---", "---", "---", "---:", "---:"),
        *rows,
    ]
    ran = sorted({f"{r.device}; commit {r.commit}, {r.date or 'no date'}" for r in chosen})
    return "\n".join(
        [*lines, "", f"Seconds are per split. Measured on {', and on '.join(ran)}.", ""]
    )


def _others(records: list[Record]) -> str:
    """Records that belong to no table of the paper."""
    numbered = {str(table) for table in paper.TABLES}
    chosen = [r for r in records if r.table not in numbered]
    if not chosen:
        return ""
    rows = [
        pages.row(r.table, r.row, r.column, r.metric, pages.ours(r), bound(r.must, r.better))
        for r in chosen
    ]
    head = [pages.row("", "method", "data, epsilon", "metric", "ours", "must")]
    return "\n".join(
        ["## Beside the tables", "", *head, pages.row(*["---"] * 4, *["---:"] * 2), *rows, ""]
    )


def _claims(records: list[Record]) -> str:
    chosen = [r for r in records if len(r.claims) > 1 and r.sampling == POISSON]
    if not chosen:
        return ""
    labels = list(dict.fromkeys(label for r in chosen for label in r.claims))
    head = [
        pages.row("method", "data, target", *labels),
        pages.row("---", "---", *("---:" for _ in labels)),
    ]
    rows = [
        pages.row(
            r.row, r.column, *(f"{r.claims[x]:.3f}" if x in r.claims else "-" for x in labels)
        )
        for r in chosen
    ]
    return prose.CLAIMS + "\n".join([*head, *rows, ""])


def _declared() -> str:
    rows = [
        pages.row(
            facts.title,
            f"{facts.num_rows:,}",
            f"{facts.delta:g}",
            f"{facts.delta * facts.num_train:.2f}",
            facts.declared,
        )
        for facts in data.FACTS.values()
    ]
    return prose.DECLARED + "\n".join([*rows, ""])
