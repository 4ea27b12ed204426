"""Corner plots of the regression, the study of divergences, and the circulation's default beats."""

from pathlib import Path

import numpy as np

from reproductions.dp_nf_vi import divergences, simulator
from reproductions.dp_nf_vi.data import NAMES
from reproductions.dp_nf_vi.runs import REFERENCE, SYNTHETIC, Task
from reproductions.figure import Figure, Find
from reproductions.metrics.corner import draw_corner
from reproductions.metrics.figures import canvas, cycle, save
from reproductions.records import Record


def _corner(epsilon: float) -> Figure:
    tasks = {
        "reference, HMC": Task(data="regression", method=REFERENCE, epsilon=float("inf"), split=1),
        "direct": Task(data="regression", method="direct", epsilon=epsilon, split=1),
        "from synthetic data": Task(data="regression", method=SYNTHETIC, epsilon=epsilon, split=1),
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


def all_figures(splits: int) -> tuple[Figure, ...]:
    """Every figure."""
    return (
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
        *(_corner(epsilon) for epsilon in (5.0, 1.0)),
    )
