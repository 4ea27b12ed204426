"""What is drawn for a paper: whole PNG files, on one scale, with what was asked for in them."""

import numpy as np
import pytest
from reproductions.metrics.figures import Line

from reproductions import drawing

LINES = {
    "MoG_3, ours": Line(x=[0.5, 1, 4], y=[1.0, 2.0, 3.0], spread=[0.1, 0.1, 0.1]),
    "MoG_3, paper": Line(x=[0.5, 1, 4], y=[0.5, 1.0, 1.5], style="--", like="MoG_3, ours"),
    "level": Line(x=[0], y=[3.5], style="-."),
}


@pytest.fixture
def drawn(monkeypatch):
    """The figures, before they became files."""
    figures = []
    monkeypatch.setattr(drawing, "save", lambda figure, path, title="": figures.append(figure))
    return figures


def test_curves_show_the_ticks_and_the_range_asked_for(drawn, tmp_path):
    drawing.draw_curves(
        tmp_path / "x.png", LINES, x_label="epsilon", y_label="y", ticks=(0.5, 1, 4), y_range=(0, 4)
    )
    (axis,) = drawn[0].axes
    assert [text.get_text() for text in axis.get_xticklabels()] == ["0.5", "1", "4"]
    assert axis.get_ylim() == (0, 4)
    (names,) = drawn[0].legends
    assert {text.get_text() for text in names.texts} == {
        "MoG$_{3}$, ours",
        "MoG$_{3}$, paper",
        "level",
    }


def test_densities_share_one_color_scale_that_a_single_cell_does_not_set(drawn, tmp_path):
    even, towering = np.ones((40, 40)), np.ones((40, 40))
    towering[0, 0] = 100.0
    drawing.draw_densities(
        tmp_path / "x.png",
        {"a": [even, towering], "b": [0 * even, even]},
        columns=["left", "right"],
        low=(-1, -2),
        high=(1, 2),
        labels=("x", "y"),
        title="",
    )
    images = [image for axis in drawn[0].axes[:4] for image in axis.get_images()]
    assert {image.get_clim() for image in images} == {(0.0, 1.0)}
    assert {tuple(image.get_extent()) for image in images} == {(-1, 1, -2, 2)}
    assert [axis.get_title() for axis in drawn[0].axes[:2]] == ["left", "right"]


@pytest.mark.parametrize("grid", [np.zeros((3, 3)), np.eye(3)], ids=["empty", "some"])
def test_densities_become_a_png(grid, tmp_path):
    path = tmp_path / "x.png"
    look = {"columns": ["c"], "low": (0, 0), "high": (1, 1), "labels": ("x", "y"), "title": "t"}
    drawing.draw_densities(path, {"a": [grid]}, **look)
    assert path.read_bytes().startswith(b"\x89PNG")
