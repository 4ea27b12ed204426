"""Corner plots: one file, the same bytes for the same draws."""

import numpy as np
import pytest
from reproductions.metrics.corner import draw_corner


def test_a_corner_of_two_posteriors_is_drawn_and_repeats(tmp_path):
    rng = np.random.default_rng(0)
    draws = {"narrow": rng.normal(size=(400, 2)), "wide": 3 * rng.normal(size=(400, 2))}
    for name in ("a.png", "b.png"):
        draw_corner(tmp_path / name, draws, names=("x", "y"))
    first, second = ((tmp_path / name).read_bytes() for name in ("a.png", "b.png"))
    assert first.startswith(b"\x89PNG")
    assert first == second


def test_draws_of_another_number_of_parameters_are_refused(tmp_path):
    with pytest.raises(ValueError, match="2 columns"):
        draw_corner(tmp_path / "a.png", {"one": np.zeros((10, 3))}, names=("x", "y"))
