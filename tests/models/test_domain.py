"""Domains: the public map between rows and flow coordinates is exact, bounded and never a surprise."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from veilflow._core.codec import plain, restored
from veilflow.models import domain as domains
from veilflow.models.domain import Ball, Box, Domain

BORDER = 3**0.5
DOMAINS = {
    "one box for all columns": Box.declared((0, 1)),
    "a box of its own for each column": Box.declared(([-1e6, 0, 5], [1e6, 1e-6, 6])),
    "a huge box": Box.declared((-8e307, 8e307)),
    "a tiny box": Box.declared((0, 1e-290)),
    "a ball": Ball(2.5),
    "a huge ball": Ball(1e308),
    "a tiny ball": Ball(1e-290),
}
each_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS.keys())
anything = hnp.arrays(np.float64, (4, 3), elements=st.floats(allow_nan=False, allow_infinity=False))


@each_domain
@given(rows=anything)
def test_clamped_rows_are_finite_and_have_coordinates_within_the_border(domain, rows):
    clamped = domain.clamp(rows)
    coordinates = domain.encode(clamped)
    assert np.isfinite(clamped).all()
    reach = np.abs(coordinates) if isinstance(domain, Box) else np.linalg.norm(coordinates, axis=1)
    assert (reach <= BORDER * (1 + 1e-9)).all()


@each_domain
@given(rows=anything)
def test_no_clamped_row_is_longer_than_the_declared_radius(domain, rows):
    """What a start takes for the largest length of a row, and so for its sensitivity's sake."""
    coordinates = domain.encode(domain.clamp(rows))
    assert (np.linalg.norm(coordinates, axis=1) <= domain.radius(3) * (1 + 1e-9)).all()
    assert (np.abs(coordinates) <= domain.border * (1 + 1e-9)).all()


@each_domain
def test_the_radius_is_reached(domain):
    far = np.full((1, 3), 1.7e308)
    reach = np.linalg.norm(domain.encode(domain.clamp(far)))
    assert reach == pytest.approx(domain.radius(3), rel=1e-6)


@each_domain
@given(rows=anything)
def test_clamping_twice_is_clamping_once_and_leaves_rows_inside_alone(domain, rows):
    clamped = domain.clamp(rows)
    size = np.abs(clamped).max()
    np.testing.assert_allclose(domain.clamp(clamped), clamped, rtol=1e-12, atol=1e-12 * size)
    inside = domain.clamp(rows) * 0.5 + np.broadcast_to(domain.center, rows.shape) * 0.5
    np.testing.assert_array_equal(domain.clamp(inside), inside)
    assert not domain.outside(inside).any()


@each_domain
def test_decode_undoes_encode(domain):
    coordinates = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    np.testing.assert_allclose(domain.encode(domain.decode(coordinates)), coordinates, atol=1e-8)


@each_domain
def test_coordinates_that_overflow_still_end_on_the_border(domain):
    far = np.array([[1e300, -1e300, 0.0], [np.inf, 1.0, 1.0], [0.0, 0.0, -1.7e308]])
    clamped = domain.clamp(domain.decode(far))
    assert np.isfinite(clamped).all()
    assert np.isfinite(domain.encode(np.array([[1.7e308, -1.7e308, 0.0]]))[0, 2])


@each_domain
def test_log_scale_is_the_log_volume_of_a_unit_cube_of_coordinates(domain):
    corner = domain.decode(np.zeros((1, 3)))
    edges = [
        np.log(np.diff(domain.decode(np.array([-0.5, 0.5])[:, None] * row), axis=0)[0, i])
        for i, row in enumerate(np.eye(3))
    ]
    assert corner.shape == (1, 3)
    assert domain.log_scale(3) == pytest.approx(sum(edges), rel=1e-9)


@each_domain
def test_json_gives_the_same_domain_back(domain):
    assert restored(Domain, json.loads(json.dumps(plain(domain)))) == domain


def test_rows_spread_evenly_over_a_box_have_unit_variance():
    rows = np.linspace(18, 99, 100_001)[:, None]
    coordinates = Box.declared((18, 99)).encode(rows)
    assert abs(coordinates.mean()) < 1e-9
    assert coordinates.var() == pytest.approx(1, rel=1e-4)


def test_a_ball_shrinks_a_row_and_keeps_its_direction():
    np.testing.assert_allclose(Ball(5.0).clamp(np.array([[30.0, 40.0]])), [[3.0, 4.0]])
    np.testing.assert_allclose(
        Ball(1.0).clamp(np.array([[1.5e308, 1.5e308]])), [[0.5**0.5, 0.5**0.5]]
    )


def test_outside_marks_the_rows_that_move():
    rows = np.array([[0.5, 0.5], [0.5, 1.0 + 1e-12], [0.0, 1.0], [-3.0, 0.0]])
    np.testing.assert_array_equal(Box.declared((0, 1)).outside(rows), [False, True, False, True])


def test_bounds_broadcast_against_each_other():
    assert Box.declared((0, [1, 2])) == Box.declared(([0, 0], [1, 2]))
    assert Box.declared(np.array([[0, 0], [1, 2]])) == Box.declared(([0, 0], [1, 2]))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 0), "bounds must rise, got low=1 and high=0 for column 0"),
        ((0, 0), "bounds must rise, got low=0 and high=0"),
        (([0, 5], [1, 5]), "for column 1. A column known to be constant"),
        ((0, np.nan), "must be finite"),
        ((-np.inf, 1), "must be finite"),
        ((None, 1), "must be finite|must be \\(low, high\\)"),
        (([0, None], 1), "must be"),
        ((0,), "must be \\(low, high\\)"),
        ((0, 1, 2), "must be \\(low, high\\)"),
        (3, "must be \\(low, high\\)"),
        ("ab", "must be \\(low, high\\)"),
        (([0, 1], [2, 3, 4]), "must be \\(low, high\\)"),
        ((np.zeros((2, 2)), 1), "must be \\(low, high\\)"),
        (([], []), "at least one column|one pair per column"),
        ((-1.7e308, 1.7e308), "too far apart"),
        ((0, 5e-324), "too close together"),
    ],
)
def test_bounds_that_are_none_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        Box.declared(bounds)


@pytest.mark.parametrize("row_norm", [0, -1, np.inf, np.nan, 1e-310])
def test_a_row_norm_must_be_a_positive_number(row_norm):
    with pytest.raises(ValueError, match="row_norm must be"):
        Ball(row_norm)


def test_rows_of_another_width_than_the_bounds_are_refused():
    Box.declared((0, 1)).check_dim(7)
    Ball(1.0).check_dim(7)
    with pytest.raises(ValueError, match="declared for 2 columns, the rows have 3"):
        Box.declared(([0, 0], [1, 1])).check_dim(3)


def test_exactly_one_of_bounds_and_row_norm_declares_a_domain():
    assert domains.declared(bounds=(0, 1), row_norm=None) == Box.declared((0, 1))
    assert domains.declared(bounds=None, row_norm=2) == Ball(2.0)
    for bounds, row_norm, told in ((None, None, "neither"), ((0, 1), 2.0, "both")):
        with pytest.raises(ValueError, match=f"got {told}"):
            domains.declared(bounds=bounds, row_norm=row_norm)
    with pytest.raises(TypeError, match="row_norm must be a number"):
        domains.declared(bounds=None, row_norm="2")  # type: ignore[arg-type]


def test_a_domain_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown kind of Domain: 'torus'"):
        restored(Domain, {"kind": "torus"})


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "Box", "low": [0.0], "high": [0.0]},
        {"kind": "Box", "low": [0.0], "high": [1.0, 2.0]},
        {"kind": "Box", "low": ["0"], "high": ["1"]},
        {"kind": "Box", "low": [0.0], "high": ["inf"]},
        {"kind": "Box", "low": [], "high": []},
        {"kind": "Ball", "row_norm": 0.0},
        {"kind": "Ball"},
    ],
    ids=str,
)
def test_a_file_cannot_declare_what_a_person_cannot(data):
    with pytest.raises(ValueError):
        restored(Domain, data)
