"""Corner plots of the regression, the study of divergences, and the circulation's default beats."""

from pathlib import Path

import numpy as np

from reproductions.dp_nf_vi import circulation, divergences, simulator
from reproductions.dp_nf_vi.data import NAMES
from reproductions.dp_nf_vi.paper_cohort import COHORT_EPSILONS
from reproductions.dp_nf_vi.runs import PATIENTS, REFERENCE, TRAINED, Task
from reproductions.figure import Figure, Find
from reproductions.metrics.corner import draw_corner
from reproductions.metrics.figures import BLUE, VERMILION, canvas, cycle, save
from reproductions.records import Record


def _corner(epsilon: float) -> Figure:
    tasks = {
        "reference, HMC": Task(data="regression", method=REFERENCE, epsilon=float("inf"), split=1),
        "direct": Task(data="regression", method="direct", epsilon=epsilon, split=1),
        "from synthetic data": Task(data="regression", method=TRAINED, epsilon=epsilon, split=1),
    }

    def draw(path: Path, find: Find, records: list[Record]) -> None:
        draws = {name: find(task).arrays["draws"] for name, task in tasks.items()}
        draw_corner(path, draws, names=NAMES, title=f"epsilon {epsilon:g}")

    return Figure(
        f"corner-{epsilon:g}",
        f"Our own: posteriors of the regression at ({epsilon:g}, 1e-5), seed 1. Contours hold half and "
        "nine tenths of the mass of a normal of the same moments.",
        tuple(tasks.values()),
        draw,
    )


def _divergences(path: Path, find: Find, records: list[Record]) -> None:
    divergences.draw(path)


_COMPARTMENTS = (
    "left ventricle",
    "arteries",
    "veins",
    "right ventricle",
    "pulmonary arteries",
    "pulmonary veins",
)
_FLOWS = (
    "into left ventricle",
    "out of left ventricle",
    "through the body",
    "into right ventricle",
    "out of right ventricle",
    "through the lungs",
)


def _beats(path: Path, find: Find, records: list[Record]) -> None:
    history = simulator.simulate(simulator.Circulation())
    figure, axes = canvas(1, 3, panel=(4.0, 3.4))
    parts = (
        ("pressure, mmHg", history.pressure, _COMPARTMENTS),
        ("flow, mL / s", history.flow, _FLOWS),
        ("volume, mL", history.volume, _COMPARTMENTS),
    )
    for axis, (label, values, names) in zip(axes[0], parts, strict=True):
        colors = cycle()
        for name, line in zip(names, np.asarray(values).T, strict=True):
            if label.startswith("volume") and "ventricle" not in name:
                next(colors)
                continue
            axis.plot(history.time, line, color=next(colors), linewidth=1.2, label=name)
        axis.set_xlabel("time, s", fontsize=8)
        axis.set_title(label, fontsize=9)
        axis.legend(fontsize=6, frameon=False, loc="upper right")
        axis.set_ylim(top=1.25 * axis.get_ylim()[1])
    save(figure, path)


def _gaps(path: Path, find: Find, records: list[Record]) -> None:
    patients = simulator.hospital(84, seed=84)
    names = list(simulator.ATTRIBUTES)
    cells = patients[names].to_numpy().T
    ranges = [simulator.ATTRIBUTES[name] for name in names]
    low, high = (np.array([[getattr(a, end)] for a in ranges]) for end in ("low", "high"))
    figure, axes = canvas(1, 1, panel=(7.5, 4.6))
    axis = axes[0][0]
    axis.imshow((cells - low) / np.maximum(high - low, 1e-12), aspect="auto", interpolation="none")
    axis.set_yticks(range(len(names)), names, fontsize=6)
    axis.set_xlabel("patients", fontsize=8)
    axis.set_facecolor("white")
    save(figure, path)


_PATIENTS = "cohort5000"
_TRUTH = Task(data=_PATIENTS, method=PATIENTS, epsilon=float("inf"), split=1)
_FROM_SETS = tuple(
    Task(data=_PATIENTS, method=TRAINED, epsilon=epsilon, split=1) for epsilon in COHORT_EPSILONS
)


def _two_parameters(path: Path, find: Find, records: list[Record]) -> None:
    real = find(_TRUTH).arrays["two"].astype(np.float64)
    mean, inverse = real.mean(axis=0), np.linalg.inv(np.cov(real.T))
    low, high = mean - 12 * real.std(axis=0), mean + 12 * real.std(axis=0)
    x, y = np.meshgrid(*(np.linspace(a, b, 200) for a, b in zip(low, high, strict=True)))
    off = np.stack([x - mean[0], y - mean[1]], axis=-1)
    squares = np.einsum("xyi,ij,xyj->xy", off, inverse, off)
    # of a normal in two dimensions, half and nine tenths of the mass are within these
    levels = [-2 * np.log(1 - mass) for mass in (0.5, 0.9)]
    figure, axes = canvas(1, len(_FROM_SETS), panel=(2.6, 2.6))
    for axis, task in zip(axes[0], _FROM_SETS, strict=True):
        axis.plot(*find(task).arrays["two"].T, ".", markersize=2, alpha=0.4, color=BLUE)
        axis.contour(x, y, squares, levels=levels, colors=VERMILION, linewidths=1)
        axis.set_title(f"epsilon {task.epsilon:g}", fontsize=9)
        axis.set_xlabel(circulation.NAMES[0], fontsize=8)
        axis.tick_params(labelsize=6)
    axes[0][0].set_ylabel(circulation.NAMES[1], fontsize=8)
    save(figure, path)


def all_figures(splits: int) -> tuple[Figure, ...]:
    """Every figure."""
    return (
        Figure(
            "figure-1",
            "Figure 1: cells of 84 simulated patients, each attribute scaled to its range; "
            "white ones are missing. The rows are generated: a picture of real patients would be a "
            "release.",
            (),
            _gaps,
        ),
        Figure(
            "figure-2",
            "Figure 2: two beats of CVSim-6 at its defaults.",
            (),
            _beats,
        ),
        Figure(
            "figure-4",
            "Figure 4: a normal q whose deviation is held too wide, against a normal p. Contours are "
            "of the divergence, for p of correlation 0.5; lines are the best correlation of q, for p "
            "of the correlations and deviations in the legend. Both directions of KL move the "
            "correlation away from that of p, Wasserstein keeps it. Where two correlations are as "
            "close, as their signs are if p has none, the positive one is drawn.",
            (),
            _divergences,
        ),
        Figure(
            "figure-3",
            "Figure 3: posterior draws of the two parameters of Table 5 from one set of 5,000 "
            "synthetic patients of the library's default; contours are of the posterior from the real "
            "ones, half and nine tenths of its mass.",
            (_TRUTH, *_FROM_SETS),
            _two_parameters,
        ),
        *(_corner(epsilon) for epsilon in (5.0, 1.0)),
    )
