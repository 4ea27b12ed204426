"""The figures of the paper, from finished runs.

Real rows appear as histograms only, never one by one.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

import veilflow as vf
from reproductions import drawing
from reproductions.dp_nf import accounting, data, ensembles, paper, prose, tables
from reproductions.dp_nf.runs import Task
from reproductions.figure import Figure, Find
from reproductions.metrics.figures import Line, canvas, legend, save
from reproductions.metrics.marginals import draw_marginals
from reproductions.metrics.roc import draw_roc
from reproductions.records import Record
from veilflow.evaluation import Roc
from veilflow.privacy.events import Gaussian, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

METHODS = {"DP-NF": "flow", "DP-MoG_3": "mixture-3"}
SHOWN_COLUMNS = (0, 1, 2)
"""The features, among the ten, that Figure 3 shows."""
ROC_EPSILON = 1.0
ANSWER_EPSILON, SHOWN_PARTS = 1.0, 3
"""Epsilon of an answer, and the parts whose own votes are seen, in Figure 6."""
_DRAWN_ANOMALIES = 1_000
_SHOWN_EPSILONS = (2.0, 4.0, 6.0)
"""Those in Figure 4."""
_OURS = ", ours (PLD)"

_LEVEL = "-."

_LIFESCI = paper.BLOCKS[0]
_VARIANTS = {paper.AS_PUBLISHED: "DP-NF", "start alone, rehearsed": "start alone"}
"""Rows that share the color of another in Figure 1."""
_FIGURE_1 = (4.0, 16.0)
"""Log-likelihoods that Figure 1 shows; below are some of the paper's for mixtures."""
_FIGURE_9 = (100 / 21_384, 2.1, 1e-4)
"""Sampling rate, noise multiplier and delta of the paper's Figure 9."""


def _first(name: str, method: str, epsilon: float) -> Task:
    return Task(data=name, method=method, epsilon=epsilon, split=1)


def _lines(records: list[Record], table: str, label: str) -> dict[str, Line]:
    """Lines over epsilon from records: ours by row, level ones without privacy."""
    lines: dict[str, Line] = {}
    epsilons = {tables.column("lifesci", e): e for e in (*_LIFESCI.epsilons, math.inf)}
    chosen = [r for r in records if r.table == table and r.column in epsilons]
    for row in dict.fromkeys(r.row for r in chosen):
        points = [(r, r.ours) for r in chosen if r.row == row and r.ours is not None]
        level = row in _LIFESCI.references
        if points:
            lines[row if level else f"{row}{label}"] = Line(
                x=[epsilons[r.column] for r, _ in points],
                y=[ours for _, ours in points],
                spread=[r.spread or 0.0 for r, _ in points],
                style=_LEVEL if level else "-",
            )
    return lines


def _figure_1(path: Path, find: Find, records: list[Record]) -> None:
    lines = _lines(records, "1", _OURS)
    for variant, of in _VARIANTS.items():
        if f"{variant}{_OURS}" in lines and f"{of}{_OURS}" in lines:
            lines[f"{variant}{_OURS}"] = replace(lines[f"{variant}{_OURS}"], like=f"{of}{_OURS}")
    for row in _LIFESCI.rows:
        for style, (who, printed) in zip(("--", ":"), row.printed.items(), strict=False):
            cells = [cell for cell in printed if cell]
            lines[f"{row.name}, paper ({who})"] = Line(
                x=_LIFESCI.epsilons,
                y=[mean for mean, _ in cells],
                spread=[spread or 0.0 for _, spread in cells],
                style=style,
                like=f"{row.name}{_OURS}",
            )
    drawing.draw_curves(
        path,
        lines,
        x_label="epsilon",
        y_label="test log-likelihood",
        ticks=_LIFESCI.epsilons,
        y_range=_FIGURE_1,
    )


def _figure_2(path: Path, find: Find, records: list[Record]) -> None:
    lines = _lines(records, "figure 2", _OURS)
    reference = find(_first("lifesci", "flow", _LIFESCI.epsilons[0])).result["regression"]
    for name, key in (("real rows", "real"), ("a constant", "constant")):
        lines[f"{name}, first split"] = Line(x=[0], y=[reference[key]], style=_LEVEL)
    drawing.draw_curves(
        path,
        {name: _thousandfold(line) for name, line in lines.items()},
        x_label="epsilon",
        y_label="mean squared error, in thousandths",
        ticks=_LIFESCI.epsilons,
    )


def _thousandfold(line: Line) -> Line:
    spread = [1000 * s for s in line.spread] if line.spread else None
    return replace(line, y=[1000 * y for y in line.y], spread=spread)


def _figure_3(path: Path, find: Find, records: list[Record]) -> None:
    models = {}
    for name, method in METHODS.items():
        found = tables.marginals(find(_first("lifesci", method, 0.6)))
        models[drawing.subscripted(name)] = [found[i] for i in SHOWN_COLUMNS]
    names = [data.FACTS["lifesci"].columns[i] for i in SHOWN_COLUMNS]
    draw_marginals(path, models, columns=names, title="Life Science, epsilon 0.6")


def _figure_4(path: Path, find: Find, records: list[Record]) -> None:
    real = find(_first("lifesci", "flow", _SHOWN_EPSILONS[0])).arrays
    rows = {}
    for name, method in METHODS.items():
        made = [find(_first("lifesci", method, epsilon)).arrays for epsilon in _SHOWN_EPSILONS]
        if not all(np.array_equal(real["view_border"], each["view_border"]) for each in made):
            raise ValueError("its runs show different rectangles, so different code made them")
        rows[name] = [real["view_real"], *(each["view_synthetic"] for each in made)]
    low, high = real["view_border"]
    drawing.draw_densities(
        path,
        rows,
        columns=["real rows", *(f"epsilon {epsilon:g}" for epsilon in _SHOWN_EPSILONS)],
        low=low,
        high=high,
        labels=("widest direction", "second widest"),
        title="Life Science",
    )


def _figure_5(path: Path, find: Find, records: list[Record]) -> None:
    curves = {}
    for task in _ROC_TASKS:
        run = find(task)
        privacy = "no privacy" if task.epsilon == math.inf else f"epsilon {task.epsilon:g}"
        false, true = run.arrays["roc"]
        name = {"flow": "DP-NF"}.get(task.method, task.method.replace("mixture-", "DP-MoG_"))
        if task.epsilon == math.inf:
            name = name.removeprefix("DP-")
        curves[drawing.subscripted(f"{name}, {privacy}")] = Roc(false, true, run.result["auroc"])
    draw_roc(path, curves, title="Life Science, first split")


def _densities(name: str, number: int) -> Figure:
    facts = data.FACTS[name]
    block = next(block for block in paper.BLOCKS if block.data == name)
    mixture = next(r.method for r in block.rows if r.method and r.method.startswith("mixture"))
    shown = {"DP-NF, trained from a normal": "flow-normal", "private grid": "flow"}
    shown[f"DP-MoG_{mixture.partition('-')[2]}"] = mixture

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        rows = {}
        for title, method in shown.items():
            arrays = [find(_first(name, method, epsilon)).arrays for epsilon in block.epsilons]
            rows[title] = [arrays[0]["density_data"], *(found["density"] for found in arrays)]
        assert facts.bounds is not None  # as all the toys have
        low, high = facts.bounds
        drawing.draw_densities(
            path,
            rows,
            columns=["data", *(f"epsilon {epsilon:g}" for epsilon in block.epsilons)],
            low=low,
            high=high,
            labels=facts.columns[:2],
            title=facts.title,
        )

    caption = (
        f"Figure {number}: the {facts.title} set, of which the paper shows the data, and our densities "
        "of it at each epsilon: a flow trained by private steps from a spherical normal behind the "
        "marginals of the columns; a private grid, a smoothed histogram for which no flow is trained; "
        f"and {mixture.partition('-')[2]} normals by private EM."
    )
    tasks = tuple(_first(name, method, e) for method in shown.values() for e in block.epsilons)
    return Figure(f"figure-{number}-{name}", caption, tasks, draw)


def curves_of_accountants() -> dict[str, Line]:
    """Figure 9: epsilon over the number of steps by every accountant."""
    rate, noise, delta = _FIGURE_9
    counts = [int(n) for n in np.geomspace(100, 100_000, 13)]
    step = PoissonSampled(rate, Gaussian(noise))
    found: dict[str, list[float]] = {}
    for count in counts:
        ledger = Ledger().spend(Repeated(count, step), purpose="training")
        for label, epsilon in accounting.claims(ledger, delta=delta).items():
            found.setdefault(label, []).append(epsilon)
        spent = accounting.fixed_size(rate, noise, count, delta=delta)
        found.setdefault("PLD, fixed size (stand-in: Poisson at half the noise)", []).append(spent)
    # it lies on the bound for Poisson batches: the last line, in dots, leaves both to be seen
    found[accounting.GDP_POISSON] = found.pop(accounting.GDP_POISSON)
    styles = {accounting.GDP_POISSON: ":"}
    styles |= dict.fromkeys((accounting.GDP_UNIFORM, accounting.MA_UNIFORM), "--")
    return {
        label: Line(x=counts, y=values, style=styles.get(label, "-"))
        for label, values in found.items()
    }


def _figure_6(path: Path, find: Find, records: list[Record]) -> None:
    facts = data.FACTS["moons"]
    assert facts.bounds is not None  # as all the toys have
    rows = {}
    for name, method in ensembles.METHODS.items():
        arrays = find(_first("moons", method, ANSWER_EPSILON)).arrays
        inside = arrays["inside"]
        rows[name] = [*inside[:SHOWN_PARTS].astype(float), inside.mean(axis=0), arrays["answers"]]
    low, high = facts.bounds
    drawing.draw_densities(
        path,
        rows,
        columns=[
            *(f"vote of part {i}" for i in range(1, SHOWN_PARTS + 1)),
            f"votes of all {ensembles.PARTS}",
            f"answer, epsilon {ANSWER_EPSILON:g}",
        ],
        low=low,
        high=high,
        labels=facts.columns[:2],
        title=facts.title,
        scale="share, or probability, of “in”",
    )


def _figure_8(path: Path, find: Find, records: list[Record]) -> None:
    from reproductions.anomaly_detection import ensembles as asked_about  # it is built on this one

    low, high = asked_about.BOUNDS
    train = vf.datasets.moons(asked_about.RECORDS, noise=asked_about.NOISE, seed=1)
    odd = asked_about.asked(_DRAWN_ANOMALIES, away=asked_about.AWAY, seed=301).anomalies
    figure, ((axis,),) = canvas(1, 1, panel=(5.2, 3.2))
    axis.hist2d(*train.T, bins=90, range=list(zip(low, high, strict=True)), cmap="Purples")
    axis.plot(*odd.T, ".", color="orchid", markersize=2.5, label="anomalies")
    axis.plot([], [], "s", color="rebeccapurple", label="training rows (histogram)")
    axis.set_xlabel("x", fontsize=9)
    axis.set_ylabel("y", fontsize=9)
    legend(figure, columns=2)
    save(figure, path)


def _figure_11(path: Path, find: Find, records: list[Record]) -> None:
    models = {
        drawing.subscripted(name): tables.marginals(find(task)) for name, task in _IN_11.items()
    }
    draw_marginals(
        path,
        models,
        columns=data.FACTS["lifesci"].columns,
        title=f"Life Science, epsilon {tables.SHOWN_IN_11:g}",
        panel=(1.55, 1.6),
    )


def _figure_9(path: Path, find: Find, records: list[Record]) -> None:
    lines = curves_of_accountants()
    drawing.draw_curves(path, lines, x_label="steps", y_label="epsilon", log_y=True)


_IN_11 = {
    "DP-NF,\nour default": _first("lifesci", "flow", tables.SHOWN_IN_11),
    "DP-NF,\npaper's settings": _first("lifesci", "paper", tables.SHOWN_IN_11),
    "DP-MoG_3": _first("lifesci", "mixture-3", tables.SHOWN_IN_11),
}

_ROC_TASKS = (
    _first("lifesci", "flow", ROC_EPSILON),
    _first("lifesci", "mixture-3", ROC_EPSILON),
    *(_first("lifesci", method, math.inf) for method in _LIFESCI.references.values()),
)


def all_figures(splits: int) -> tuple[Figure, ...]:
    """Every figure; those over epsilon need so many splits, the others the first one."""
    over_epsilon = tuple(tables.tasks((_LIFESCI,), splits))
    return (
        Figure(
            "figure-1",
            "Figure 1: test log-likelihood on Life Science over epsilon. The paper's epsilons are "
            "its claims, ours are spent; bars are standard deviations where there are several "
            "splits. What the paper prints for mixtures below 4 is cut off (Table 1 has it).",
            over_epsilon,
            _figure_1,
            by_records=True,
        ),
        Figure(
            "figure-2",
            "Figure 2: mean squared error on real test rows of five nearest neighbors among synthetic "
            "rows, last column from the nine others.",
            over_epsilon,
            _figure_2,
        ),
        Figure(
            "figure-3",
            "Figure 3: histograms of three features of Life Science at epsilon 0.6, real test rows and "
            "synthetic rows, with their total-variation distance (TV).",
            tuple(_first("lifesci", method, 0.6) for method in METHODS.values()),
            _figure_3,
        ),
        Figure(
            "figure-4",
            "Figure 4: density of synthetic rows along the two widest directions of the real ones. The "
            "axes and the real panels are read from rows without noise: this is an evaluation on a "
            "public benchmark, not a release.",
            tuple(_first("lifesci", m, e) for m in METHODS.values() for e in _SHOWN_EPSILONS),
            _figure_4,
        ),
        Figure(
            "figure-5",
            "Figure 5: anomalies found by low likelihood. There are as many as test rows, uniform in "
            "the tails of each column (5th to 30th and 70th to 95th percentile).",
            _ROC_TASKS,
            _figure_5,
        ),
        Figure(
            "figure-6",
            "Figure 6: the framework of ensembles, of which the paper shows a sketch, at work. The "
            "27,000 training rows of Half-Moons (first split) are divided into "
            f"{ensembles.PARTS} parts at random, and each part learns a density without noise: "
            "three normals by EM; a MAF of five blocks of two layers of 100 units, the paper's "
            "network; or the library's default for parts, a spline flow of three blocks of "
            "64 units. The flows take 1,000 steps of Adam on batches of 128. A part votes “in” where "
            "its density is above that of the uniform distribution on the declared box, a "
            "threshold that needs no rows; the paper took the one that was best on labeled rows. "
            "Votes are private and drawn only because the rows are generated. What is released is an "
            "answer, “in” with the probability in the last column: epsilon "
            f"{ANSWER_EPSILON:g} for one query, by the exponential mechanism. " + prose.SEEN[6],
            tuple(_first("moons", m, ANSWER_EPSILON) for m in ensembles.METHODS.values()),
            _figure_6,
        ),
        _densities("moons", 7),
        Figure(
            "figure-8-top",
            "Figure 8 (top): training rows of Half-Moons, noise 0.05, as a histogram, and "
            f"{_DRAWN_ANOMALIES:,} anomalies. Nothing is trained. The paper does not say how its "
            "anomalies were made; these are uniform on the box, at least three deviations of the noise "
            "from either half circle. What ensembles answer about such rows, the bottom of the figure, "
            "is on the page of [anomaly detection](anomaly.md). " + prose.SEEN[8],
            (),
            _figure_8,
        ),
        Figure(
            "figure-9",
            "Figure 9: epsilon over steps at rate 100/21384, noise multiplier 2.1, delta 1e-4. The "
            "dashed lines are the paper's accountants for batches of fixed size, which take half "
            "of the sensitivity such batches have; the stand-in for what they really spend is PLD "
            "for Poisson batches at half the noise. GDP-CLT is an approximation and not a bound.",
            (),
            _figure_9,
        ),
        _densities("pinwheel", 10),
        Figure(
            "figure-11",
            f"Figure 11: histograms of all features of Life Science at epsilon {tables.SHOWN_IN_11:g} "
            "and delta 1.52e-5, real test rows and as many synthetic rows as there are training rows, "
            "with their total-variation distance (TV); first split. From above: the library's default, "
            "a mixture by private EM and a flow of its components' common shape; the paper's MAF with "
            "the settings of its code, on Poisson batches and accounted for by PLD (Table 1 says how); "
            "three normals by private EM. " + prose.SEEN[11],
            tuple(_IN_11.values()),
            _figure_11,
        ),
        _densities("gaussians", 12),
    )
