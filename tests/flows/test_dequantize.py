"""Noise of codes has the density it says; rows and points of space go back and forth."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import quick
from tests.flows.test_bijections import shaken
from veilflow.flows import Continuous, Listed, UniformDequantizer, Variables, VariationalDequantizer
from veilflow.flows.variables import BELOW_ONE
from veilflow.nn.frozen import trainable_part
from veilflow.nn.tap import is_layer

SIZES = (3, 5, 2)
CODES = jnp.array([2, 0, 1])


def variational(shake: float = 0.5, **options) -> VariationalDequantizer:
    made = VariationalDequantizer.create(SIZES, key=jax.random.key(4), hidden=(8,), **options)
    return shaken(made, shake)


def draws(dequantizer, number: int) -> tuple[np.ndarray, np.ndarray]:
    keys = jax.random.split(jax.random.key(9), number)
    draw = quick.jit(jax.vmap(lambda key: dequantizer.noise_and_log_prob(CODES, key)))
    return jax.tree.map(np.asarray, draw(keys))


@pytest.mark.parametrize("spread", [1.0, 1.702])
def test_the_log_determinant_of_variational_noise_is_that_of_autodiff(spread: float):
    dequantizer = variational(spread=spread)
    normal = jnp.asarray(np.random.default_rng(1).normal(size=(4, 3)), jnp.float32)

    @quick.jit
    @jax.vmap
    def both(normal):
        jacobian = jax.jacfwd(lambda n: dequantizer.noise_and_log_det(CODES, n)[0])(normal)
        return dequantizer.noise_and_log_det(CODES, normal)[1], jnp.linalg.slogdet(jacobian)

    ours, (sign, theirs) = both(normal)
    np.testing.assert_array_equal(sign, np.ones(4))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_variational_noise_has_the_density_it_says():
    noise, log_prob = draws(variational(), 20_000)
    assert noise.min() >= 0
    assert noise.max() < 1
    # with the logit left out, half of the noise would be in (0.5, 0.731)
    assert (noise < 0.3).mean(0).min() > 0.02
    assert (noise > 0.8).mean(0).min() > 0.02
    # the mean of 1/q is the volume in which q has mass; cut off where its variance is infinite
    middle = np.all((noise > 0.05) & (noise < 0.95), axis=1)
    assert np.mean(middle * np.exp(-log_prob)) == pytest.approx(0.9**3, abs=0.03)


def test_variational_noise_depends_on_the_codes_and_on_itself():
    dequantizer, normal = variational(), jnp.array([0.3, -0.2, 0.5])
    moved = quick.jit(lambda codes, n: dequantizer.noise_and_log_det(codes, n)[0])
    here = moved(CODES, normal)
    assert np.all(here[1:] != moved(CODES.at[0].set(0), normal)[1:])
    assert np.all(here[1:] != moved(CODES, normal.at[0].set(1.0))[1:])


def test_noise_starts_nearly_uniform():
    noise, _ = draws(variational(shake=0.0), 20_000)
    for column in noise.T:
        np.testing.assert_allclose(np.histogram(column, 5, (0, 1))[0] / 20_000, 0.2, atol=0.03)
    noise, log_prob = draws(UniformDequantizer(), 20_000)
    np.testing.assert_array_equal(log_prob, 0)
    for column in noise.T:
        np.testing.assert_allclose(np.histogram(column, 5, (0, 1))[0] / 20_000, 0.2, atol=0.03)


def test_far_noise_stays_below_one_with_a_finite_density():
    noise, log_det = eqx.filter_jit(variational().noise_and_log_det)(CODES, jnp.full(3, 40.0))
    assert noise.max() == BELOW_ONE
    assert np.isfinite(log_det)


def test_every_trained_number_of_a_dequantizer_sits_in_a_layer():
    trained, rest = trainable_part(variational())
    loose = [n for n in jax.tree.leaves(trained, is_leaf=is_layer) if not is_layer(n)]
    assert loose == []
    assert jax.tree.leaves(rest) == []
    assert jax.tree.leaves(UniformDequantizer()) == []


MIXED = Variables([Listed(3), Continuous(), Listed(1), Continuous(), Listed(40)])


def test_a_row_is_the_row_of_its_point_whatever_the_noise():
    codes, positions = jnp.array([2, 0, 0, 0, 39]), jnp.array([0.0, 0.25, 0.0, BELOW_ONE, 0.0])
    for noise in (jnp.zeros(3), jnp.full(3, 0.999)):
        point = MIXED.point((codes, positions), noise)
        np.testing.assert_allclose(
            point, [2 + noise[0], 0.25, noise[1], BELOW_ONE, 39 + noise[2]], rtol=1e-6
        )
        again = MIXED.row(point)
        np.testing.assert_array_equal(again[0], codes)
        np.testing.assert_array_equal(again[1], positions)
        assert again[0].dtype == jnp.int32


def test_what_does_not_count_in_a_row_does_not_enter_its_point():
    nan = jnp.nan
    row = jnp.array([2, 99, 0, -5, 7]), jnp.array([nan, 0.25, nan, 0.5, nan])
    np.testing.assert_array_equal(MIXED.point(row, jnp.zeros(3)), [2, 0.25, 0, 0.5, 7])


@pytest.mark.parametrize("far", [1e30, jnp.inf])
def test_points_outside_go_to_the_nearest_row(far: float):
    codes, positions = MIXED.row(jnp.full(5, far))
    np.testing.assert_array_equal(codes, [2, 0, 0, 0, 39])
    np.testing.assert_array_equal(positions, np.float32([0, BELOW_ONE, 0, BELOW_ONE, 0]))
    for part in MIXED.row(jnp.full(5, -far)):
        np.testing.assert_array_equal(part, np.zeros(5))


def test_variables_have_a_share_for_each_unit_of_length():
    equal = MIXED.shares(None)
    assert [len(one) for one in equal] == [3, 1, 1, 1, 40]
    assert all((one == 1).all() for one in equal)
    given = [np.array([0.2, 0.3, 0.5]), np.ones(1), np.arange(1.0, 41.0)]
    shares = MIXED.shares(given)
    np.testing.assert_array_equal(shares[0], given[0])
    np.testing.assert_array_equal(shares[4], given[2])
    with pytest.raises(ValueError, match="one for each of"):
        MIXED.shares(given[:2])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: Listed(0), ValueError, "num_codes must be at least 1, got 0"),
        (lambda: Variables([]), ValueError, "at least one variable"),
        (lambda: Variables([3]), TypeError, r"Listed\(num_codes\) and Continuous\(\) only, got 3"),
        (
            lambda: VariationalDequantizer.create((4,), key=jax.random.key(0)),
            ValueError,
            "two listed variables or more, got 1.*Use UniformDequantizer",
        ),
        (lambda: variational(spread=0.0), ValueError, "spread must be positive"),
    ],
)
def test_a_wrong_argument_is_named(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
