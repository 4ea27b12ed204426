"""Tables 1, 2, 4 and 5: which runs they need, and the records the finished ones make."""

import math
import statistics
from collections.abc import Callable, Collection, Iterator

from benchmarks.provenance import Better

from reproductions.batches import sampling
from reproductions.cache import Run
from reproductions.dp_nf import accounting, data, paper
from reproductions.dp_nf.runs import Task
from reproductions.metrics.marginals import Marginal
from reproductions.records import Record, provenance, spread
from reproductions.sheet import Key
from veilflow.privacy.ledger import Ledger

Find = Callable[[Task], Run | None]
"""From a task to its finished run, if it is."""

DOWNSTREAM = "lifesci"
"""The data set of which more is measured than the likelihood."""
FIGURE_2, ERROR = "figure 2", "k-NN mean squared error"
FIGURE_5, AREA = "figure 5", "AUROC of anomalies"
FIGURE_11, DISTANCE = "figure 11", "mean total variation of the features, first split"
SHOWN_IN_11 = 0.5
"""The epsilon of Figure 11."""

TIMED = {"cpu": ("one split, the slowest", 240.0), "gpu": ("all splits together", 600.0)}
"""Seconds that Life Science at epsilon 1 may take, by kind of device."""


def tasks(blocks: tuple[paper.Block, ...], splits: int) -> list[Task]:
    """The runs that some blocks need, on the first so many splits."""
    return [
        Task(data=block.data, method=method, epsilon=epsilon, split=split)
        for block in blocks
        for _, method, epsilon in _cells(block)
        for split in range(1, splits + 1)
    ]


def _cells(block: paper.Block) -> Iterator[tuple[paper.Row, str, float]]:
    """Row, method and epsilon of every cell we fill, the references without privacy last."""
    for row in block.rows:
        if row.method is not None:
            yield from ((row, row.method, epsilon) for epsilon in block.epsilons)
    for name, method in block.references.items():
        must = {math.inf: block.reference_musts[name]} if name in block.reference_musts else {}
        yield paper.Row(name=name, method=method, sampling="", must=must), method, math.inf


def keys() -> list[Key]:
    """Keys of all cells except those of time."""
    return [
        key
        for block in paper.BLOCKS
        for row, _, epsilon in _cells(block)
        for key in _keys(block, row, epsilon)
    ]


def _keys(block: paper.Block, row: paper.Row, epsilon: float) -> list[Key]:
    """Keys of the records that the runs of a cell make."""
    measured = [(str(block.table), block.metric)]
    if block.data == DOWNSTREAM:
        measured += [(FIGURE_2, ERROR), (FIGURE_5, AREA)]
        measured += [(FIGURE_11, DISTANCE)] if epsilon == SHOWN_IN_11 else []
    return [(table, row.name, column(block.data, epsilon), metric) for table, metric in measured]


def records(find: Find, splits: int, only: Collection[Key] | None = None) -> list[Record]:
    """A record for every cell of the tables of which a run is finished, and those of time.

    Where keys are given: for the cells of these keys.
    """
    found: list[Record] = []
    for block in paper.BLOCKS:
        for row, method, epsilon in _cells(block):
            if only is not None and not set(only) & set(_keys(block, row, epsilon)):
                continue
            runs = _finished(find, block.data, method, epsilon, splits)
            if runs:
                found.append(_record(block, row, epsilon, runs))
                found += _downstream(block, row, epsilon, runs)
    if only is not None:
        return [record for record in found if record.key in only]
    timed = _finished(find, "lifesci", "flow", 1.0, splits)
    return found + ([_time(timed)] if timed else [])


def unmeasured(known: list[Record]) -> list[Record]:
    """A record without a number for each cell that must reach something and has no record yet."""
    keys = {record.key for record in known}
    found = [
        _record(block, row, epsilon, [])
        for block in paper.BLOCKS
        for row, _, epsilon in _cells(block)
        if epsilon in row.must
    ]
    return [record for record in found if record.key not in keys]


def _finished(find: Find, name: str, method: str, epsilon: float, splits: int) -> list[Run]:
    each = range(1, splits + 1)
    runs = [find(Task(data=name, method=method, epsilon=epsilon, split=i)) for i in each]
    return [run for run in runs if run is not None]


def _record(block: paper.Block, row: paper.Row, epsilon: float, runs: list[Run]) -> Record:
    facts = data.FACTS[block.data]
    means = [run.result["log_likelihood"]["mean"] for run in runs]
    impossible = sum(run.result["log_likelihood"]["num_impossible"] for run in runs)
    private = epsilon != math.inf
    printed, who = block.best(row, epsilon) if private else (None, "")
    ledger = Ledger.from_json(runs[0].result["ledger"]) if runs else Ledger()
    known = block.data == "lifesci" and row.method == "flow" and private
    notes = [row.note] if row.note else []
    if not runs:
        notes.append("not run yet")
    if impossible:
        notes.append(f"{impossible} test rows have density zero, so the mean is minus infinity")
    return Record(
        table=str(block.table),
        row=row.name,
        column=column(block.data, epsilon),
        metric=block.metric,
        paper=printed,
        ours=block.sign * statistics.fmean(means) if means and None not in means else None,
        spread=spread(means) if None not in means else None,
        must=row.must.get(epsilon),
        better=block.better,
        **provenance(runs),
        delta=facts.delta,
        sampling=sampling(ledger),
        paper_accountant=who,
        paper_sampling=row.sampling if printed is not None else "",
        true_epsilon_of_paper=_rounded(
            accounting.true_epsilon(who, epsilon, delta=facts.delta) if known else None
        ),
        claims={
            label: round(claim, 4)
            for label, claim in accounting.claims(ledger, delta=facts.delta).items()
            if claim != math.inf
        },
        note="; ".join(notes),
    )


def _downstream(
    block: paper.Block, row: paper.Row, epsilon: float, runs: list[Run]
) -> Iterator[Record]:
    """What Figures 2, 5 and 11 show, where it was measured."""
    if "regression" not in runs[0].result:
        return
    errors = [run.result["regression"]["synthetic"] for run in runs]
    areas = [run.result["auroc"] for run in runs]
    taken: list[tuple[str, str, Better, list[float], int, list[Run]]] = [
        (FIGURE_2, ERROR, "lower", errors, 5, runs),
        (FIGURE_5, AREA, "higher", areas, 3, runs),
    ]
    if epsilon == SHOWN_IN_11 and (shown := marginals(runs[0])):
        far = statistics.fmean(column.total_variation for column in shown)
        taken.append((FIGURE_11, DISTANCE, "lower", [far], 3, runs[:1]))
    for table, metric, better, values, digits, behind in taken:
        yield Record(
            table=table,
            row=row.name,
            column=column(block.data, epsilon),
            metric=metric,
            paper=None,
            ours=statistics.fmean(values),
            spread=spread(values),
            must=None,
            better=better,
            **provenance(behind),
            delta=data.FACTS[block.data].delta,
            digits=digits,
        )


def marginals(run: Run) -> list[Marginal]:
    """Histograms of every feature, real and synthetic; none where the run did not keep them."""
    parts = [run.arrays.get(f"marginal_{x}") for x in ("edges", "real", "synthetic")]
    found = [part for part in parts if part is not None]
    return [Marginal(*column) for column in zip(*found, strict=True)] if len(found) == 3 else []


def _time(runs: list[Run]) -> Record:
    device = "gpu" if "NVIDIA" in runs[0].device else "cpu"
    what, must = TIMED[device]
    seconds = [run.seconds for run in runs]
    whole = device == "cpu" or len(runs) == data.SPLITS
    return Record(
        table="time",
        row="DP-NF",
        column=f"{column('lifesci', 1.0)}, {what}",
        metric=f"seconds on a {device.upper()}, from fit to test log-likelihood",
        paper=None,
        ours=sum(seconds) if device == "gpu" else max(seconds),
        spread=None,
        must=must if whole else None,
        better="lower",
        **provenance(runs),
        delta=data.FACTS["lifesci"].delta,
    )


def column(name: str, epsilon: float) -> str:
    """How a record names its column."""
    return f"{data.FACTS[name].title}, {epsilon:g}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
