"""Planar and Sylvester maps: always invertible, the way back exact, taps exact both ways."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import quick
from tests.flows import hostile
from tests.flows.test_bijections import made
from veilflow.flows import AbstractBijection, Planar, Sylvester
from veilflow.flows.bijections import planar as unit
from veilflow.nn.tap import is_layer, with_tap, zero_tap
from veilflow.nn.uses import check_taps_used_once

DIM = 5
BOTH = ["inverse_and_private_log_det", "forward_and_log_det"]

solve = jax.jit(unit.solve)
there_and_back = eqx.filter_jit(  # as for users: it is held to the digits of float32
    lambda bijection, x: jax.vmap(bijection.forward_and_log_det)(
        jax.vmap(bijection.inverse_and_log_det)(x)[0]
    )[0]
)


@quick.jit
def inverse(bijection: AbstractBijection, x: jax.Array, condition: jax.Array | None = None):
    return bijection.inverse_and_log_det(x, condition)


def with_numbers(bijection: AbstractBijection, numbers: np.ndarray) -> AbstractBijection:
    """An unconditional map with all its parameters replaced."""
    where = lambda b: b.parameters.source.shift  # noqa: E731
    return eqx.tree_at(where, bijection, jnp.asarray(numbers, jnp.float32))


def planar(w, u, b: float) -> Planar:
    with quick.weights():
        fresh = Planar.create(len(w), key=jax.random.key(0))
    return with_numbers(fresh, np.concatenate([w, u, [b]]))


@given(c=st.floats(-1e6, 1e6, width=32), t=st.floats(unit.LEAST_SLOPE - 1, 1e6))
def test_the_equation_of_a_unit_is_solved_to_the_last_digits(c: float, t: float):
    t = np.float32(t)
    a = np.float64(solve(jnp.float32(c), jnp.float32(t)))
    np.testing.assert_allclose(a + t * np.tanh(a), c, rtol=1e-6, atol=1e-6)


@quick.jit
def derivatives(c: jax.Array, t: jax.Array) -> tuple:
    by_c = jax.grad(unit.solve)
    return unit.solve(c, t), by_c(c, t), jax.grad(by_c)(c, t), jax.grad(unit.solve, argnums=1)(c, t)


@pytest.mark.parametrize("t", [-0.99, -0.5, 0.0, 3.0, 1e4])
def test_the_solution_has_the_derivatives_of_the_exact_root(t: float):
    with jax.enable_x64(True):
        a, slope, curvature, along_t = map(float, derivatives(jnp.float64(1.3), jnp.float64(t)))
    derivative = 1 + t / np.cosh(a) ** 2
    np.testing.assert_allclose(slope, 1 / derivative, rtol=1e-9)
    second = -2 * t * np.tanh(a) / np.cosh(a) ** 2
    np.testing.assert_allclose(curvature, -second / derivative**3, rtol=1e-9)
    np.testing.assert_allclose(along_t, -np.tanh(a) / derivative, rtol=1e-9)


def test_damping_keeps_every_product_where_the_map_is_invertible():
    product = np.float32([-1e13, -1e6, -5.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 5.0, 1e6, 1e13])
    t = np.asarray(unit.damping(product)) * product
    assert np.all(1 + t >= unit.LEAST_SLOPE * (1 - 1e-4))
    assert np.all(np.diff(t) >= 0)
    assert t[5] == 0
    np.testing.assert_allclose(t[-2:], (1 - unit.LEAST_SLOPE) * product[-2:], rtol=1e-5)


@pytest.mark.parametrize("along", [-100.0, -1.0, 0.5, 10.0])
def test_a_planar_map_comes_back_to_1e_5_even_where_it_hardly_moves(along: float):
    rng = np.random.default_rng(0)
    w, u = rng.normal(size=DIM), rng.normal(size=DIM)
    u = u + (along - w @ u) * w / (w @ w)  # w.u is what was asked for
    x = rng.normal(size=(200, DIM)).astype(np.float32)
    x[:100] = x[:100] - np.outer(x[:100] @ w, w / (w @ w))  # w.x = 0: the steepest place
    np.testing.assert_allclose(there_and_back(planar(w, u, 0.0), x), x, atol=1e-5)


def test_a_planar_map_with_no_direction_is_a_shift():
    z, log_det = inverse(planar(np.zeros(3), np.ones(3), 0.7), jnp.zeros(3))
    np.testing.assert_allclose(z, np.full(3, unit.damping(0.0) * np.tanh(0.7)), rtol=1e-6)
    assert log_det == 0
    hostile.assert_finite(planar(np.zeros(3), np.ones(3), 0.7))
    hostile.assert_finite(planar(np.zeros(3), np.zeros(3), 0.0))


def matrices(bijection: Sylvester) -> tuple[np.ndarray, ...]:
    """Q, R, S and b as dense matrices, from the parameters and the definition."""
    dim, rank, number = bijection.size, bijection.rank, bijection.reflections
    above = rank * (rank - 1) // 2
    sizes = np.cumsum([number * dim, above, above, rank, rank])
    parts = np.split(np.float64(bijection.parameters.source.shift), sizes)
    q = np.eye(dim)
    for v in parts[0].reshape(number, dim):
        q = q @ (np.eye(dim) - 2 * np.outer(v, v) / (v @ v))
    product = parts[3] * parts[4]
    r = np.diag(parts[3] * (1 - unit.LEAST_SLOPE) / (1 + np.log1p(np.exp(-product))))
    s = np.diag(parts[4])
    r[np.triu_indices(rank, 1)], s[np.triu_indices(rank, 1)] = parts[1], parts[2]
    return q[:, :rank], r, s, parts[5]


def test_a_sylvester_map_is_the_one_of_its_matrices():
    bijection = made("sylvester", DIM)
    q, r, s, b = matrices(bijection)
    np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-12)
    x = np.random.default_rng(3).normal(size=(4, DIM)).astype(np.float32)
    z, _ = quick.jit(jax.vmap(bijection.inverse_and_log_det))(x)
    expected = x + np.tanh(x @ q @ s.T + b) @ r.T @ q.T
    np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(there_and_back(bijection, x), x, atol=1e-5)


@pytest.mark.parametrize("direction", BOTH)
def test_a_sylvester_map_forms_no_matrix_of_full_size(direction: str):
    dim = 11
    with quick.weights():
        bijection = Sylvester.create(dim, key=jax.random.key(0), rank=3, reflections=2)
    program = str(jax.make_jaxpr(getattr(bijection, direction))(jnp.zeros(dim)))
    assert "f32[2,11]" in program  # the reflections
    assert "f32[11,11]" not in program


@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-7])
def test_a_reflection_without_direction_is_left_out(length: float):
    bijection = Sylvester.create(3, key=jax.random.key(0), rank=2)
    numbers = np.array(bijection.parameters.source.shift)
    numbers[:3] = length
    hostile.assert_finite(with_numbers(bijection, numbers))
    without = Sylvester.create(3, key=jax.random.key(0), rank=2, reflections=1)
    x = jnp.array([0.3, -1.0, 2.0])
    ours, _ = inverse(with_numbers(bijection, numbers), x)
    theirs, _ = inverse(with_numbers(without, numbers[3:]), x)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("name", ["planar", "sylvester"])
def test_residual_maps_stay_finite_at_hostile_points(name: str):
    hostile.assert_finite(made(name, DIM))


def make(kind: type, condition_dim: int) -> AbstractBijection:
    options = {"rank": 2} if kind is Sylvester else {}
    key = jax.random.key(1)
    return kind.create(DIM, key=key, condition_dim=condition_dim, hidden=(4,), **options)


@pytest.mark.parametrize("kind", [Planar, Sylvester])
@pytest.mark.parametrize("condition_dim", [0, 2])
def test_residual_maps_start_close_to_the_identity(kind: type, condition_dim: int):
    x = jnp.linspace(-2.0, 2.0, DIM)
    z, log_det = inverse(make(kind, condition_dim), x, jnp.ones(condition_dim))
    assert 0 < np.abs(z - x).max() < 0.1
    assert abs(log_det) < 0.1


@pytest.mark.parametrize("kind", [Planar, Sylvester])
@pytest.mark.parametrize("direction", BOTH)
def test_every_tap_is_used_once_in_both_directions(kind: type, direction: str):
    bijection = make(kind, 2)
    layers, structure = jax.tree.flatten(bijection, is_leaf=is_layer)

    def run(taps: tuple) -> tuple:
        laid = [with_tap(layer, tap) for layer, tap in zip(layers, taps, strict=True)]
        return getattr(jax.tree.unflatten(structure, laid), direction)(jnp.ones(DIM), jnp.ones(2))

    check_taps_used_once(run, tuple(zero_tap(layer) for layer in layers))


@pytest.mark.parametrize("kind", [Planar, Sylvester])
def test_a_condition_sets_the_map_where_one_was_declared(kind: type):
    x = jnp.ones(DIM)
    free, bound = make(kind, 0), make(kind, 2)
    np.testing.assert_array_equal(inverse(free, x)[0], inverse(free, x, jnp.ones(3))[0])
    one, other = (inverse(bound, x, jnp.array(c))[0] for c in ([0.0, 1.0], [1.0, 0.0]))
    assert np.abs(one - other).max() > 1e-6
    with pytest.raises(ValueError, match="condition_dim=2, got none"):
        bound.inverse_and_log_det(x)
    with pytest.raises(ValueError, match=r"condition_dim=2, got shape \(3,\)"):
        bound.forward_and_log_det(x, jnp.ones(3))


@pytest.mark.parametrize("kind", [Planar, Sylvester])
def test_a_hostile_condition_leaves_everything_finite(kind: type):
    def loss(bijection, condition):
        z, log_det = bijection.inverse_and_log_det(1e6 * jnp.ones(DIM), condition)
        return 0.5 * jnp.sum(jnp.square(z)) - log_det

    run = jax.jit(jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0)))
    seen = run(make(kind, 2), hostile.points(2))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(seen))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda key: Planar.create(0, key=key), "dim must be at least 1"),
        (lambda key: Planar.create(2, key=key, condition_dim=-1), "condition_dim must be"),
        (
            lambda key: Planar.create(2, key=key, condition_dim=1, hidden=(0,)),
            "hidden must be",
        ),
        (lambda key: Sylvester.create(2, key=key, rank=3), "rank must be at most dim=2"),
        (lambda key: Sylvester.create(2, key=key, rank=0), "rank must be at least 1"),
        (lambda key: Sylvester.create(2, key=key, rank=1, reflections=0), "reflections"),
    ],
)
def test_a_wrong_argument_is_named(wrong: Callable, message: str, key: jax.Array):
    with pytest.raises(ValueError, match=message):
        wrong(key)
