"""Histograms of columns: one row in one cell of each column, and maps that can be undone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from tests.releases.tape import tape
from veilflow._core.keys import Secret
from veilflow.flows import PiecewiseLinear
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.columns import Columns
from veilflow.releases.release import Tools

BORDER = 3**0.5
DIM, BITS = 3, 5


def made(rows, *, noise=2.0, bits=BITS, seed=0) -> Released[PiecewiseLinear]:
    rows = np.float32(rows)
    release = Columns(dim=rows.shape[1], bits=bits, border=BORDER, noise_multiplier=noise)
    return release.run(Sensitive(rows), Tools(Secret.from_seed(seed))).map(release.result)


def skewed(size: int = 5000) -> np.ndarray:
    """A spike, a long tail, and one that is spread evenly; on the border too."""
    rng = np.random.default_rng(0)
    spike = np.where(rng.uniform(size=size) < 0.5, 0.25, rng.uniform(-1.7, 1.7, size=size))
    tail = np.minimum(rng.exponential(0.2, size=size) - 1.5, BORDER)
    return np.stack([spike, tail, rng.uniform(-BORDER, BORDER, size=size)], axis=1)


@given(
    rows=hnp.arrays(np.float32, (5, 2), elements=st.floats(-2, 2, width=32)),
    bits=st.integers(1, 6),
)
@settings(max_examples=25)
def test_every_row_is_counted_once_in_every_column(rows, bits):
    with pytest.MonkeyPatch.context() as patch:
        seen = tape(patch)
        made(rows, bits=bits, noise=0.0)
    (query,) = seen.queries
    assert query.total.shape == (2, 2**bits)
    np.testing.assert_array_equal(np.sum(query.total, axis=1), len(rows))


# -- the map ---------------------------------------------------------------------------------------


def inverse(bijection: PiecewiseLinear, x) -> np.ndarray:
    return np.asarray(jax.vmap(lambda row: bijection.inverse_and_log_det(row)[0])(jnp.float32(x)))


def forward(bijection: PiecewiseLinear, z) -> np.ndarray:
    return np.asarray(jax.vmap(lambda row: bijection.forward_and_log_det(row)[0])(jnp.float32(z)))


@pytest.fixture(scope="module", params=["rows", "no rows", "one row", "much noise"])
def bijection(request) -> PiecewiseLinear:
    rows = {"no rows": np.zeros((0, DIM)), "one row": skewed(1)}.get(request.param, skewed())
    return made(rows, noise=1e5 if request.param == "much noise" else 2.0).value


def test_the_map_rises(bijection):
    assert (np.diff(np.asarray(bijection.values), axis=1) > 0).all()
    assert (np.asarray(bijection.slopes) > 0).all()
    x = np.linspace(-4, 4, 4001)[:, None] * np.ones(DIM)
    assert (np.diff(inverse(bijection, x), axis=0) > 0).all()


def test_the_map_can_be_undone(bijection):
    x = np.random.default_rng(1).uniform(-5, 5, size=(500, DIM))
    np.testing.assert_allclose(forward(bijection, inverse(bijection, x)), x, atol=1e-3)


def test_beyond_the_border_the_outer_lines_go_on(bijection):
    for border, outer, slope in (
        (BORDER, np.array([1, 10, 1e4]), np.asarray(bijection.slopes)[:, -1]),
        (-BORDER, -np.array([1, 10, 1e4]), np.asarray(bijection.slopes)[:, 0]),
    ):
        edge = inverse(bijection, np.full((1, DIM), border))
        for step in outer:
            found = inverse(bijection, np.full((1, DIM), border + step))
            np.testing.assert_allclose((found - edge)[0], step * slope, rtol=1e-3)


def test_columns_come_out_about_normal():
    rows = np.random.default_rng(2).beta(2.0, 5.0, size=(100_000, 2)) * 2 - 1
    values = inverse(made(rows, noise=10.0, bits=9).value, rows)
    for column in values.T:
        assert stats.kstest(column, "norm").statistic < 0.02
        assert abs(column.std() - 1) < 0.05


def test_the_noise_is_from_the_secret_and_not_shared_by_columns():
    rows = np.repeat(skewed(300)[:, :1], DIM, axis=1)
    one, same, other = (made(rows, seed=seed).value.values for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one[0], one[1])
