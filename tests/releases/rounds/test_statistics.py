"""What a record says is cut to a bound, whatever it holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engine.compiled import operations
from tests.models.posterior.line import log_likelihood, records
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.rounds.statistics import (
    BINS,
    SENSITIVITY,
    _clipped,
    bin_tops,
    clipped_statistics,
    from_units,
    length_counts,
    num_statistics,
    sum_in_units,
    unpacked,
)

HOSTILE = [
    (0.0, 0.0),
    (1.0, 1e30),
    (-1e18, 1e18),
    (1e19, -3.0),
    (1e38, 1e38),
    (np.inf, 0.0),
    (0.5, np.nan),
    (1e-30, 1e-30),
]
DRAWS = np.array([[0.5, -1.0], [0.9, -1.2]])
FACTOR = np.array([[0.3, 0.0], [0.1, 0.2]])


def asked(x, y, bounds=(0.7, 0.2)):
    return clipped_statistics(
        log_likelihood, Sensitive((x, y)), draws=DRAWS, factor=FACTOR, bounds=bounds
    )


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_record_moves_the_sum_by_more_than_the_sensitivity(hostile):
    x, y = records(20)
    more = np.append(x, np.float32(hostile[0])), np.append(y, np.float32(hostile[1]))
    for bounds in ((0.7, 0.2), (1e-6, 1e6), (50.0, 1e-9)):
        before, after = asked(x, y, bounds), asked(*more, bounds)
        assert after.clip_norm == SENSITIVITY
        moved = np.linalg.norm(after.total - before.total)
        assert np.isfinite(moved)
        assert moved <= SENSITIVITY * (1 + 1e-6)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_record_counts_once_among_gradients_and_once_among_curvatures(hostile):
    x, y = records(20)
    more = np.append(x, np.float32(hostile[0])), np.append(y, np.float32(hostile[1]))
    counts = [
        length_counts(log_likelihood, Sensitive(r), draws=DRAWS, factor=FACTOR).total
        for r in ((x, y), more)
    ]
    assert counts[0].shape == (2, BINS)
    np.testing.assert_array_equal((counts[1] - counts[0]).sum(axis=1), [1.0, 1.0])
    assert np.linalg.norm(counts[1] - counts[0]) <= SENSITIVITY + 1e-12


def test_without_clipping_the_sum_is_gradient_and_curvature_of_the_log_likelihood():
    x, y = records(700)  # more than one chunk
    bounds = (1e4, 1e4)
    gradient, curvature = unpacked(asked(x, y, bounds).total, 2, bounds)
    design = np.stack([np.ones_like(x), x], axis=1).astype(np.float64)
    errors = y - design @ DRAWS.mean(axis=0)
    np.testing.assert_allclose(gradient, FACTOR.T @ design.T @ errors / 0.25, rtol=1e-4)
    np.testing.assert_allclose(curvature, FACTOR.T @ design.T @ design @ FACTOR / 0.25, rtol=1e-4)
    assert len(asked(x, y).total) == num_statistics(2)


def test_a_length_is_counted_in_the_bin_whose_top_is_the_next_above_it():
    def gradient_of(length):
        return lambda theta, record: length * theta[0] * jnp.ones_like(record)

    for length in (0.3, 1.0, 700.0):
        counts = length_counts(
            gradient_of(length),
            Sensitive(np.zeros(1, np.float32)),
            draws=np.zeros((1, 1)),
            factor=np.eye(1),
        ).total
        top = bin_tops()[counts[0].argmax()]
        assert length <= top * (1 + 1e-5)
        assert top < 1.5 * length


def steep(theta, x):
    """Its derivatives round far apart wherever a compiler computes them twice."""
    return jnp.sum(jnp.sin(1e4 * jnp.tanh(theta) * x))


@pytest.fixture
def optimized():
    """Programs as users get them: what fusion rounds is what these tests are about."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
    yield
    jax.config.update("jax_disable_most_optimizations", before)
    jax.clear_caches()


@pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="elsewhere the barrier is the compiler's"
)
@pytest.mark.parametrize("dim", [1, 3])
def test_no_statistic_is_computed_beside_the_length_that_it_is_cut_by(dim, optimized):
    rows, here = jnp.ones((8, dim)), jnp.ones(8, bool)
    settings = jnp.ones((1, dim)), jnp.eye(dim), jnp.ones(2)
    found = operations(lambda *args: _clipped(steep, *args), rows, here, *settings)
    assert {"sine", "cosine"} & set(found["outside"])
    assert not {"sine", "cosine"} & set(found["loop"])
    # lengths are sums of squares, whose roots are in the loop, or are as long as their one number
    assert "sqrt" not in found["outside"]
    assert "divide" in found["loop"]


@pytest.mark.parametrize("likelihood", [steep, lambda t, x: jnp.sum(jnp.exp(x) * jnp.tan(t * x))])
def test_what_a_hostile_record_adds_is_no_longer_than_is_claimed(likelihood, optimized):
    rng = np.random.default_rng(0)
    for size in 10.0 ** rng.uniform(-3, 6, 40):
        row = (size * rng.normal(size=(1, 3))).astype(np.float32)
        draws, bounds = rng.normal(size=(2, 3)), (1e-3, 1e-3)
        found = clipped_statistics(
            likelihood, Sensitive(row), draws=draws, factor=np.eye(3), bounds=bounds
        )
        total = np.asarray(found.total, np.float64)
        assert np.linalg.norm(total) <= found.clip_norm == SENSITIVITY
        assert max(np.linalg.norm(total[:3]), np.linalg.norm(total[3:])) <= 1.0


def test_a_sum_does_not_depend_on_the_order_of_the_records():
    rng = np.random.default_rng(5)
    shares = jnp.asarray(
        rng.normal(size=(512, 3)) * 10.0 ** rng.uniform(-6, -1, (512, 1)), jnp.float32
    )
    here = jnp.ones(512, bool)
    total = np.asarray(sum_in_units(shares, here), np.float64)
    for _ in range(3):
        again = sum_in_units(shares[rng.permutation(512)], here)
        np.testing.assert_array_equal(again, total)
    exact = np.asarray(shares, np.float64).sum(axis=0)
    np.testing.assert_allclose(from_units(total), exact, atol=512 * 2.0**-41)
    # one record moves it by its own length, to the last of its bits
    less = np.asarray(sum_in_units(shares[1:], here[1:]), np.float64)
    moved = np.linalg.norm(from_units(total - less))
    assert moved == pytest.approx(
        np.linalg.norm(np.asarray(shares[0], np.float64)), abs=3 * 2.0**-41
    )
