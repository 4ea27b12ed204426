"""Figures are written whole, and what they show is what was computed."""

import math

import numpy as np
import pytest
from reproductions.metrics.figures import density_grid
from reproductions.metrics.marginals import compare_marginals, draw_marginals
from reproductions.metrics.roc import draw_roc

from veilflow.evaluation import roc_curve

RNG = np.random.default_rng(0)


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
        draw_roc(tmp_path / name, {"flow": roc_curve([2.0, 3.0], [1.0, 2.0])})
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_marginal_for_every_column_is_needed(tmp_path):
    found = compare_marginals(RNG.random((9, 2)), RNG.random((9, 2)))
    with pytest.raises(ValueError, match="zip"):
        draw_marginals(tmp_path / "x.png", {"m": found}, columns=["only one"])
    assert list(tmp_path.iterdir()) == []
