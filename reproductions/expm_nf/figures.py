"""Figures over epsilon, over records and features, and the spread of AUC (Figure 2), from runs."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from reproductions import drawing
from reproductions.blocks import Block
from reproductions.expm_nf import tables, targets
from reproductions.expm_nf.runs import Task
from reproductions.figure import Figure, Find
from reproductions.metrics.figures import BLUE, Line, canvas, save
from reproductions.records import Record

_RECORDS = {"adult": 32_561, "adult-tenth": 3_257}
_NAMES = {
    "zoom": "zoom, delta 0",
    "dp-sgd": "DP-SGD, delta 1e-5",
    "dp-sgd-l2": "DP-SGD with l2 loss",
    "output": "output perturbation, delta 0",
    "objective": "objective perturbation, delta 0",
    "flow": "flow, CONDITIONAL",
}


def _line(
    find: Find, tasks: Iterable[Task], *, scale: float = 1.0, like: str | None = None
) -> Line:
    runs = [(task, find(task)) for task in tasks]
    return Line(
        x=[task.epsilon * scale for task, _ in runs],
        y=[run.result["auc"] for _, run in runs],
        spread=[float(np.std(run.result["aucs"])) for _, run in runs],
        style="--" if like else "-",
        like=like,
    )


def _over_epsilon(name: str, caption: str, data: str, block: Block, splits: int) -> Figure:
    """AUC of every method of a table over epsilon."""
    methods = dict.fromkeys(
        str(row.method)
        for row in block.rows
        if row.method in _NAMES and sum(r.method == row.method for r in block.rows) > 1
    )
    by_method = {
        method: tuple(
            tables.task_of(data, method, row.epsilon, splits)
            for row in block.rows
            if row.method == method
        )
        for method in methods
    }
    plain = tables.task_of(data, "non-private", np.inf, splits)

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        lines = {_NAMES[method]: _line(find, tasks) for method, tasks in by_method.items()}
        lines["no privacy"] = Line(x=[], y=[find(plain).result["auc"]], style=":")
        epsilons = sorted({task.epsilon for tasks in by_method.values() for task in tasks})
        drawing.draw_curves(path, lines, x_label="epsilon", y_label="AUC", ticks=epsilons)

    needed = (plain, *(task for tasks in by_method.values() for task in tasks))
    return Figure(name, caption, needed, draw)


def _over_records(splits: int) -> Figure:
    """AUC over epsilon times records: full Adult and a tenth of it."""
    pairs = {("adult", m): targets.EPSILONS for m in ("zoom", "dp-sgd")}
    pairs |= {("adult-tenth", m): targets.TENTH_EPSILONS for m in ("zoom", "dp-sgd")}
    by_pair = {
        (data, method): tuple(tables.task_of(data, method, e, splits) for e in epsilons)
        for (data, method), epsilons in pairs.items()
    }

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        lines = {}
        for (data, method), tasks in by_pair.items():
            base = "zoom" if method == "zoom" else "DP-SGD"
            whole = f"{base}, all records"
            name = whole if data == "adult" else f"{base}, every tenth record"
            like = None if data == "adult" else whole
            lines[name] = _line(find, tasks, scale=_RECORDS[data], like=like)
        drawing.draw_curves(path, lines, x_label="epsilon times records", y_label="AUC")

    return Figure(
        "records",
        "Where zoom stops working: AUC on Adult over epsilon times the number of records. Both "
        "methods, on all records and on every tenth.",
        tuple(task for tasks in by_pair.values() for task in tasks),
        draw,
    )


def _over_features(splits: int) -> Figure:
    wanted = {
        (epsilon, method): tuple(
            tables.task_of(data, method, epsilon, splits) for data in targets.FEATURES.values()
        )
        for epsilon in (1.0, 0.1)
        for method in ("zoom", "dp-sgd")
    }
    plain = tuple(
        tables.task_of(data, "non-private", np.inf, splits) for data in targets.FEATURES.values()
    )
    counts = tuple(map(float, targets.FEATURES))

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        lines = {"no privacy": Line(x=counts, y=[find(task).result["auc"] for task in plain])}
        for (epsilon, method), tasks in wanted.items():
            base = "zoom" if method == "zoom" else "DP-SGD"
            whole = f"{base}, epsilon 1"
            line = _line(find, tasks, like=None if epsilon == 1 else whole)
            name = f"{base}, epsilon {epsilon:g}"
            lines[name] = Line(
                x=counts, y=line.y, spread=line.spread, style=line.style, like=line.like
            )
        drawing.draw_curves(path, lines, x_label="features", y_label="AUC", ticks=counts)

    return Figure(
        "features",
        "And in the number of features: AUC on Adult with 12, 30 and all columns.",
        (*plain, *(task for tasks in wanted.values() for task in tasks)),
        draw,
    )


def _spread(splits: int) -> Figure:
    wanted = {
        data: tuple(tables.task_of(data, "flow", e, splits) for e in targets.ICU_EPSILONS)
        for data in ("lr-mortality", "lr-stay")
    }

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        figure, (axes,) = canvas(1, len(wanted), panel=(3.6, 3.0))
        for axis, (data, tasks) in zip(axes, wanted.items(), strict=True):
            found = [find(task).arrays["draws"].ravel() for task in tasks]
            axis.boxplot(found, whis=(5, 95), showfliers=False, medianprops={"color": BLUE})
            axis.set_xticks(range(1, len(tasks) + 1), [f"{task.epsilon:g}" for task in tasks])
            axis.set_title(tables.TITLES[data], fontsize=9)
            axis.set_xlabel("epsilon (if the flow were exact)", fontsize=9)
            axis.grid(axis="y", color="0.9", linewidth=0.6)
            axis.set_axisbelow(True)
        axes[0].set_ylabel("AUC of a draw", fontsize=9)
        save(figure, path)

    return Figure(
        "figure-2",
        "Figure 2: the spread of AUC over draws of the flows as published (CONDITIONAL). Boxes hold "
        "half of the draws, whiskers nine in ten.",
        tuple(task for tasks in wanted.values() for task in tasks),
        draw,
    )


def all_figures(splits: int) -> tuple[Figure, ...]:
    """Every figure."""
    return (
        _over_epsilon(
            "adult",
            "Adult: AUC over epsilon, medians with the deviation over seeds.",
            "adult",
            targets.ADULT,
            splits,
        ),
        _over_records(splits),
        _over_features(splits),
        *(
            _over_epsilon(
                f"icu-{task}",
                f"ICU, {title}: AUC of logistic regression over epsilon. The flow's epsilon is "
                "nominal: it holds if the flow is exact, which it is not.",
                f"lr-{task}",
                targets.ICU,
                splits,
            )
            for task, title in (("mortality", "mortality"), ("stay", "a long stay"))
        ),
        *(
            _over_epsilon(
                f"icu-last-{task}",
                f"ICU, {title}: AUC of logistic regression over last values.",
                f"last-{task}",
                targets.LAST,
                splits,
            )
            for task, title in (("mortality", "mortality"), ("stay", "a long stay"))
        ),
        _spread(splits),
    )
