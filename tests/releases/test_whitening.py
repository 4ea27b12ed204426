"""Whitening: one row moves a round by sqrt(2) at the most, and the map is near the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from veilflow._core.keys import Secret
from veilflow.flows import FixedLinear
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases import whitening
from veilflow.releases.release import Tools
from veilflow.releases.whitening import Whitening

DIM, RADIUS = 3, 3.0
ROOT = 2**0.5
NOISE = (4.0, 3.0, 2.0)


def correlated(size: int = 2000) -> np.ndarray:
    """Rows inside the radius, nearly all on a line, one column far from the origin."""
    rng = np.random.default_rng(0)
    line = rng.normal(size=(size, 1)) * np.array([0.5, 0.4, -0.3])
    rows = line + 0.05 * rng.normal(size=(size, DIM)) + np.array([0.0, 0.8, -0.2])
    return rows.astype(np.float32)


def whitened(
    rows, *, noise=NOISE, radius=RADIUS, num_records=None, seed=0
) -> Released[FixedLinear]:
    release = Whitening(dim=rows.shape[1], radius=radius, noise_multipliers=noise)
    number = max(len(rows), 1) if num_records is None else num_records
    tools = Tools(Secret.from_seed(seed))
    return release.run(Sensitive(rows), tools, num_records=number).map(release.result)


def map_of(released: Released[FixedLinear]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the map."""
    factor = np.float64(released.value.factor)
    return np.float64(released.value.shift), factor @ factor.T


# -- what it costs ---------------------------------------------------------------------------------


@given(
    rows=hnp.arrays(np.float32, (4, 2), elements=st.floats(-2, 2, width=32)),
    more=hnp.arrays(
        np.float32, 2, elements=st.floats(allow_nan=False, allow_infinity=False, width=32)
    ),
)
@settings(max_examples=30)
def test_no_row_moves_the_sum_of_any_few_rows_by_more(rows, more):
    """Few rows and a made-up earlier round: a factor that is nearly flat."""
    mean, factor = np.array([0.3, -1.0]), np.array([[1e-9, 0.0], [2.0, 1e3]])
    one, two = (
        whitening._moments(Sensitive(x), mean, factor, 0.7)
        for x in (rows, np.concatenate([rows, more[None]]))
    )
    assert np.linalg.norm(two.total - one.total) <= ROOT * (1 + 1e-9)


def test_the_sum_counts_every_direction_once():
    """The upper triangle with sqrt(2) off the diagonal has the norm of the whole matrix."""
    row = np.array([[0.6, 0.64, 0.48]])  # of length 1
    query = whitening._moments(Sensitive(row), np.zeros(3), np.eye(3), 1.0)
    assert query.total.shape == (3 + 6,)
    assert np.linalg.norm(query.total) == pytest.approx(ROOT)
    mean, covariance = whitening._read(query.total, 3, 1.0, 1.0)
    np.testing.assert_allclose(mean, row[0])
    np.testing.assert_allclose(covariance, np.zeros((3, 3)), atol=1e-12)


# -- what it is worth ------------------------------------------------------------------------------


def test_the_map_is_near_the_moments_of_the_rows():
    rows = correlated(200_000)
    mean, covariance = map_of(whitened(rows))
    true = np.cov(np.float64(rows).T)
    np.testing.assert_allclose(mean, rows.mean(axis=0), atol=0.01)
    # directions apart: in whitened coordinates all variances are near one
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    values = np.linalg.eigvalsh(root @ true @ root.T)
    assert values.min() > 0.7
    assert values.max() < 1.4


def test_later_rounds_see_what_the_first_could_not():
    rows = correlated(20_000)
    true = np.cov(np.float64(rows).T)

    def spread(noise):
        covariance = map_of(whitened(rows, noise=noise))[1]
        root = np.linalg.inv(np.linalg.cholesky(covariance))
        values = np.linalg.eigvalsh(root @ true @ root.T)
        return values.max() / values.min()

    assert spread((20.0, 20.0, 20.0)) < spread((20.0,)) / 3


@pytest.mark.parametrize("num_records", [1.0, 1e9])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 2e5])
@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((5, 2), np.float32),
        np.full((5, 2), 1.7, np.float32),
        np.float32([[1.7, 0], [-1.7, 0]]),
        np.float32([[1.7, 1.7], [-1.7, -1.7], [0.3, 0.3]]),
        np.zeros((0, 2), np.float32),
    ],
    ids=["zeros", "one place", "no second column", "columns alike", "no rows"],
)
def test_whatever_the_rows_and_the_count_the_map_is_finite_and_can_be_undone(
    rows, noise, num_records
):
    released = whitened(rows, noise=(noise,) * 3, num_records=num_records)
    mean, covariance = map_of(released)
    assert np.isfinite(mean).all()
    assert np.isfinite(covariance).all()
    assert (np.diag(np.asarray(released.value.factor)) > 0).all()


def test_the_secret_decides_the_noise_and_nothing_else_is_random():
    rows = correlated(500)
    one, same, other = (whitened(rows, seed=seed).value for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.factor, same.factor)
    np.testing.assert_array_equal(one.shift, same.shift)
    assert (np.asarray(one.shift) != np.asarray(other.shift)).all()
