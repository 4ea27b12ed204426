"""Figure 8, accuracy over the number of queries, ROC curves of attacks and frauds, and thresholds."""

import math
from pathlib import Path

from reproductions import drawing
from reproductions.anomaly_detection import ensembles, fits, sets, streams, targets
from reproductions.anomaly_detection.runs import ENSEMBLE, PARTS, REFERENCE, STREAMS
from reproductions.anomaly_detection.tables import TITLES, tasks, tasks_of
from reproductions.figure import Figure, Find
from reproductions.metrics.figures import Line
from reproductions.metrics.roc import draw_roc
from reproductions.records import Record
from veilflow.evaluation import Roc

_NAMES = {"flow": "flow", REFERENCE: "flow", "mixture-3": "mixture_3"}


def _figure_8(most: int) -> Figure:
    def draw(path: Path, find: Find, records: list[Record]) -> None:
        lines = {}
        for name, method in targets.ENSEMBLES.items():
            runs = [find(task).result for task in tasks_of(ENSEMBLE, method, 1.0, most)]
            means = [
                sum(run[f"epsilon {e:g}"]["correct"] for run in runs) / len(runs)
                for e in ensembles.EPSILONS
            ]
            lines[f"ensemble of {name}"] = Line(x=ensembles.EPSILONS, y=means)
        best = [1 / (1 + math.exp(-e * ensembles.PARTS / 2)) for e in ensembles.EPSILONS]
        lines["votes that all agree"] = Line(x=ensembles.EPSILONS, y=best, style=":")
        drawing.draw_curves(
            path,
            lines,
            x_label="epsilon of an answer",
            y_label="probability of a right answer",
            ticks=ensembles.EPSILONS,
        )

    return Figure(
        "figure-8",
        "Figure 8: half-moons, ten parts: the exact probability that an answer is right over its "
        "epsilon, on average over normal rows and anomalies.",
        tuple(tasks((targets.FIGURE_8,), most)),
        draw,
    )


def _stream(most: int) -> Figure:
    wanted = [task for name in STREAMS for task in tasks_of(name, "mixture", 0.0, most)]

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        lines = {}
        for task in wanted:
            found, title = find(task).result, TITLES[task.data]
            for what in ("plain", "sparse"):
                words = {"plain": "each query paid for", "sparse": "sparse vector"}[what]
                # wrong answers: in powers, what is nearly always right can be told apart
                y = [max(1 - found[f"{n} queries"][what], _LEAST) for n in streams.LENGTHS]
                style = "-" if what == "sparse" else "--"
                like = f"sparse vector, {title}" if what == "plain" else None
                lines[f"{words}, {title}"] = Line(x=streams.LENGTHS, y=y, style=style, like=like)
        lines = {name: lines[name] for name in sorted(lines, key=lambda n: bool(lines[n].like))}
        drawing.draw_curves(
            path,
            lines,
            x_label="queries, one in a hundred of them odd",
            y_label="wrong answers",
            ticks=streams.LENGTHS,
            log_y=True,
        )

    return Figure(
        "queries",
        "Queries: the share of wrong answers over the number of queries, at epsilon "
        f"{streams.TOTAL[0]:g} for all of them, with {streams.PARTS} parts. Below "
        f"{_LEAST:g} is drawn as {_LEAST:g}: so few errors are not seen in "
        "as many simulated streams.",
        tuple(wanted),
        draw,
    )


_LEAST = 1e-6


def _parts(most: int) -> Figure:
    (wanted,) = tasks_of(PARTS, "mixture", 0.0, most)

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        found = find(wanted).result
        lines = {
            f"{count:,} queries": Line(
                x=streams.KS, y=[found[f"{k} parts"][f"{count} queries"] for k in streams.KS]
            )
            for count in streams.COUNTS
        }
        drawing.draw_curves(path, lines, x_label="parts", y_label="right answers", ticks=streams.KS)

    return Figure(
        "parts",
        "Parts: right answers over the number of parts, each query paid for out of epsilon "
        f"{streams.TOTAL[0]:g} and delta {streams.TOTAL[1]:g}.",
        (wanted,),
        draw,
    )


def _curves(name: str, most: int) -> Figure:
    wanted = [
        task
        for row in targets.DETECTION.rows
        for task in tasks_of(name, str(row.method), row.epsilon, most)[:1]
    ]

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        curves = {}
        for task in wanted:
            run = find(task)
            privacy = "no privacy" if task.epsilon == math.inf else f"epsilon {task.epsilon:g}"
            label = drawing.subscripted(f"{_NAMES[task.method]}, {privacy}")
            false, true = run.arrays["roc"]
            curves[label] = Roc(false, true, run.result["auroc"])
        draw_roc(path, curves, title=TITLES[name])

    what = "attacks" if name == sets.NETWORK else "frauds"
    return Figure(
        f"roc-{name}",
        f"{TITLES[name]}: {what} found over normal rows called odd, by models of normal rows.",
        tuple(wanted),
        draw,
    )


def _thresholds(most: int) -> Figure:
    epsilon = targets.THRESHOLD_EPSILON
    wanted = [t for name in fits.CALIBRATED for t in tasks_of(name, "flow", epsilon, most)]

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        lines = {"as asked": Line(x=fits.RATES, y=fits.RATES, style=":")}
        for name in fits.CALIBRATED:
            runs = [find(t).result for t in tasks_of(name, "flow", epsilon, most)]
            means = [
                sum(run[f"samples {rate:g}"]["alarms"] for run in runs) / len(runs)
                for rate in fits.RATES
            ]
            lines[TITLES[name]] = Line(x=fits.RATES, y=means)
        drawing.draw_curves(
            path,
            lines,
            x_label="false-alarm rate asked for",
            y_label="on rows that no fit has seen",
            ticks=fits.RATES,
            log_y=True,
        )

    return Figure(
        "thresholds",
        "Thresholds: false alarms on held-out rows over the rate that was asked for, thresholds from "
        "samples of the models at epsilon 4.",
        tuple(wanted),
        draw,
    )


def all_figures(most: int) -> tuple[Figure, ...]:
    """Every figure, on so many splits."""
    return (
        _figure_8(most),
        _stream(most),
        _parts(most),
        _curves(sets.NETWORK, most),
        _curves(sets.CARDS, most),
        _thresholds(most),
    )
