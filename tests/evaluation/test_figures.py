"""Figures are written whole, and what they show is what was computed."""

import math

import numpy as np
import pytest

from veilflow.evaluation import (
    Line,
    compare_marginals,
    density_grid,
    draw_lines,
    draw_marginals,
    draw_panels,
    draw_roc,
    roc_curve,
)

RNG = np.random.default_rng(0)
GRID = RNG.random((8, 8))


class Normal:
    def log_prob(self, rows):
        x, y = rows.T
        return -0.5 * (x**2 + (y - 1) ** 2) - math.log(2 * math.pi)


def test_a_grid_of_densities_has_y_first_and_integrates_to_one():
    grid = density_grid(Normal(), low=(-6, -5), high=(6, 7), size=101)
    y, x = np.unravel_index(grid.argmax(), grid.shape)
    assert (x, y) == (50, 50)
    assert grid.sum() * (12 / 100) ** 2 == pytest.approx(1, abs=1e-3)


DRAWN = {
    "panels": lambda path: draw_panels(
        path, [(name, GRID) for name in "abcde"], low=0, high=1, title="t"
    ),
    "empty panel": lambda path: draw_panels(path, [("a", np.zeros((3, 3)))], low=0, high=1),
    "lines": lambda path: draw_lines(
        path,
        {
            "ours": Line(x=[1, 2], y=[3, 4], spread=[0.1, 0.1]),
            "theirs": Line(x=[1, 2], y=[2, 3], style="--", like="ours"),
            "level": Line(x=[1], y=[3.5]),
        },
        x_label="x",
        y_label="y",
        log_x=True,
    ),
    "roc": lambda path: draw_roc(path, {"flow": roc_curve([2.0, 3.0], [1.0, 2.0])}),
    "marginals": lambda path: draw_marginals(
        path,
        {name: compare_marginals(RNG.random((9, 2)), RNG.random((9, 2))) for name in "ab"},
        columns=["u", "v"],
    ),
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN.keys())
def test_a_figure_is_one_whole_png(draw, tmp_path):
    path = tmp_path / "figure.png"
    draw(path)
    assert [p.name for p in tmp_path.iterdir()] == ["figure.png"]
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    for name in ("a.png", "b.png"):
        draw_panels(tmp_path / name, [("x", GRID)], low=0, high=1)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_marginal_for_every_column_is_needed(tmp_path):
    found = compare_marginals(RNG.random((9, 2)), RNG.random((9, 2)))
    with pytest.raises(ValueError, match="zip"):
        draw_marginals(tmp_path / "x.png", {"m": found}, columns=["only one"])
    assert list(tmp_path.iterdir()) == []
