"""Linear maps are the matrices they say they are, and no constant is trained."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import quick
from tests.flows import hostile
from tests.flows.test_bijections import made
from veilflow._core.errors import PrivacyError
from veilflow.flows import LU, AbstractBijection, FixedLinear, LowRank
from veilflow.nn.frozen import trainable_part
from veilflow.nn.tap import is_layer, with_tap, zero_tap

DIM = 5


def matrix_of(bijection: AbstractBijection) -> tuple[np.ndarray, np.ndarray]:
    """The matrix and the shift of an affine map, data to base, read off the parameters."""
    linear = bijection.linear
    diagonal = np.diag(np.exp(np.float64(linear.diagonal.log_scale)))
    if isinstance(bijection, LU):
        lower = np.tril(np.float64(linear.lower.weight), -1) + np.eye(DIM)
        upper = np.triu(np.float64(linear.upper.weight), 1) + diagonal
        return lower @ upper, np.float64(linear.shift.shift)
    product = np.float64(linear.up.weight) @ np.float64(linear.down.weight)
    return diagonal + product, np.float64(linear.up.bias)


@pytest.mark.parametrize("name", ["LU", "low rank"])
def test_both_directions_are_those_of_the_matrix(name: str):
    bijection = made(name, DIM)
    matrix, shift = matrix_of(bijection)
    x = np.random.default_rng(0).normal(size=(4, DIM)).astype(np.float32)
    z, log_det = quick.jit(jax.vmap(bijection.inverse_and_log_det))(x)
    np.testing.assert_allclose(z, x @ matrix.T + shift, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(log_det, np.full(4, np.linalg.slogdet(matrix)[1]), rtol=1e-5)
    back, _ = quick.jit(jax.vmap(bijection.forward_and_log_det))(x)
    solved = np.linalg.solve(matrix, (x - shift).T).T
    np.testing.assert_allclose(back, solved, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [LU.create, LowRank.create])
def test_linear_maps_start_close_to_the_identity(make: Callable):
    bijection = make(DIM, key=jax.random.key(0))
    x = jnp.linspace(-2.0, 2.0, DIM)
    z, log_det = bijection.inverse_and_log_det(x)
    assert 0 < np.abs(z - x).max() < 0.1
    assert abs(log_det) < 0.1


@pytest.mark.parametrize("name", ["LU", "low rank"])
def test_taps_are_refused_where_parameters_are_read_beside_the_call(name: str):
    tapped = jax.tree.map(
        lambda layer: with_tap(layer, zero_tap(layer)), made(name, DIM), is_leaf=is_layer
    )
    with pytest.raises(PrivacyError, match="data to base"):
        tapped.forward_and_log_det(jnp.zeros(DIM))


def test_the_woodbury_identity_forms_no_matrix_of_full_size():
    dim, rank = 11, 2
    bijection = LowRank.create(dim, key=jax.random.key(0), rank=rank)
    program = jax.make_jaxpr(bijection.forward_and_log_det)(jnp.zeros(dim))
    shapes = {value.aval.shape for eqn in program.jaxpr.eqns for value in eqn.outvars}
    assert (rank, rank) in shapes
    assert (dim, dim) not in shapes


@pytest.mark.parametrize("name", ["LU", "low rank", "fixed linear"])
def test_linear_maps_stay_finite_at_hostile_points(name: str):
    hostile.assert_finite(made(name, DIM))


def test_moments_make_a_map_that_whitens():
    rng = np.random.default_rng(1)
    mean, factor = rng.normal(size=3), np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    whiten = FixedLinear.from_moments(mean, factor @ factor.T)
    x = rng.multivariate_normal(mean, factor @ factor.T, size=20_000).astype(np.float32)
    z, log_det = jax.jit(jax.vmap(whiten.inverse_and_log_det))(x)
    np.testing.assert_allclose(np.mean(z, axis=0), np.zeros(3), atol=0.03)
    np.testing.assert_allclose(np.cov(z.T), np.eye(3), atol=0.05)
    np.testing.assert_allclose(log_det[0], -np.log(np.diag(factor)).sum(), rtol=1e-5)
    assert jax.tree.leaves(trainable_part(whiten)[0]) == []  # nothing for the engine to train
    again = FixedLinear.from_moments(mean, factor @ factor.T)
    assert jax.tree.structure(whiten) == jax.tree.structure(again)  # nothing to compile again


def test_moments_are_factored_in_float64():
    scales = np.array([1e-4, 1e4])
    covariance = np.array([[1, 1 - 1e-9], [1 - 1e-9, 1]]) * np.outer(scales, scales)
    assert np.linalg.eigvalsh(np.float32(covariance)).min() < 0  # float32 has lost it
    whiten = FixedLinear.from_moments([0.0, 0.0], covariance)
    z, _ = whiten.inverse_and_log_det(jnp.array([1e-4, 0.0]))
    factor = np.linalg.cholesky(covariance)
    np.testing.assert_allclose(z, np.linalg.solve(factor, [1e-4, 0.0]), rtol=1e-5)


ONE = np.eye(2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: LU.create(0, key=jax.random.key(0)), "dim must be at least 1"),
        (lambda: LowRank.create(2, key=jax.random.key(0), rank=3), "rank must be at most dim=2"),
        (lambda: LowRank.create(2, key=jax.random.key(0), rank=0), "rank must be at least 1"),
        (lambda: FixedLinear(factor=ONE, shift=[0.0]), r"shapes \(1,\) and \(2, 2\)"),
        (lambda: FixedLinear(factor=np.zeros((0, 0)), shift=[]), "one number per coordinate"),
        (lambda: FixedLinear(factor=ONE + 1, shift=[0, 0]), "lower triangular"),
        (lambda: FixedLinear(factor=-ONE, shift=[0, 0]), "must be positive"),
        (lambda: FixedLinear(factor=1e-40 * ONE, shift=[0, 0]), "must be positive"),
        (lambda: FixedLinear(factor=ONE, shift=[0, np.nan]), "must be finite"),
        (lambda: FixedLinear(factor=1e39 * ONE, shift=[0, 0]), "must be finite"),
        (lambda: FixedLinear.from_moments([0, 0], np.ones((2, 3))), "a square matrix"),
        (lambda: FixedLinear.from_moments([0, 0], [[np.inf, 0], [0, 1]]), "must be finite"),
        (lambda: FixedLinear.from_moments([0, 0], [[1, 0.5], [0, 1]]), "must be symmetric"),
        (lambda: FixedLinear.from_moments([0, 0], [[1, 2], [2, 1]]), "eigenvalue of -1"),
        (lambda: FixedLinear.from_moments([0], ONE), "one number per coordinate"),
    ],
)
def test_a_wrong_argument_is_named(wrong: Callable, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()
