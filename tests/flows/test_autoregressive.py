"""Sampling from autoregressive maps: as a pass for each coordinate would, at the price of one."""

from collections.abc import Callable
from functools import lru_cache

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import quick
from tests.flows.test_bijections import (
    assert_same_gradients,
    gradients_by_vmap,
    gradients_through_taps,
    shaken,
)
from veilflow._core.errors import PrivacyError
from veilflow.flows import (
    AbstractScalarMap,
    AffineMap,
    Autoregressive,
    Chain,
    Invert,
    MaskedMLP,
    Scan,
    reverse,
)


class Kinked(AbstractScalarMap):
    """Five parameters: shift, slopes left and right of zero, scale, shift."""

    @property
    def num_params(self) -> int:
        return 5

    def forward_and_log_det(self, z, params):
        y, (left, right, scale) = z + params[0], jnp.tanh(params[1:4])
        slope = jnp.where(y < 0, left, right) + scale
        return y * jnp.exp(slope) + params[4], slope

    def inverse_and_log_det(self, x, params):
        y, (left, right, scale) = x - params[4], jnp.tanh(params[1:4])
        slope = jnp.where(y < 0, left, right) + scale
        return y * jnp.exp(-slope) - params[0], -slope


Case = tuple[int, tuple[int, ...], AbstractScalarMap, int, str]
CASES: dict[str, Case] = {  # coordinates, hidden sizes, map, numbers in the condition, activation
    "two layers": (6, (16, 11), AffineMap(), 0, "relu"),
    "two layers, condition": (6, (16, 11), Kinked(), 3, "tanh"),
    "no hidden layer": (4, (), AffineMap(), 0, "tanh"),
    "no hidden layer, condition": (4, (), Kinked(), 1, "tanh"),
    "fewer units than coordinates": (9, (4, 3, 5), Kinked(), 0, "relu"),
    "fewer units, condition": (9, (4, 20, 3), AffineMap(), 2, "tanh"),
    "one unit": (5, (1,), AffineMap(), 0, "relu"),
    "one unit, condition": (5, (1, 7), AffineMap(), 2, "relu"),
    "one coordinate": (1, (8, 3), Kinked(), 0, "tanh"),
    "one coordinate, condition": (1, (3, 8), Kinked(), 2, "tanh"),
    "two coordinates": (2, (5,), AffineMap(), 0, "tanh"),
}
every = pytest.mark.parametrize("case", CASES)


@lru_cache
def made(case: str, seed: int = 7) -> Autoregressive:
    dim, hidden, scalar_map, condition_dim, activation = CASES[case]
    with quick.weights(seed):
        network = MaskedMLP.create(
            dim,
            scalar_map.num_params,
            key=jax.random.key(seed),
            hidden=hidden,
            activation=activation,
            condition_dim=condition_dim,
        )
    return shaken(Autoregressive(network, scalar_map), 0.5, seed)


def by_full_passes(bijection: Autoregressive, z: jax.Array, condition: jax.Array | None):
    """The definition: run the whole network for every coordinate and believe one of its answers."""

    def one_coordinate(i, state):
        x, total = state
        params = bijection.conditioner(x, condition)
        x_i, log_det = bijection.scalar_map.forward_and_log_det(z[i], params[:, i])
        return x.at[i].set(x_i), total + log_det

    return jax.lax.fori_loop(0, len(z), one_coordinate, (jnp.zeros_like(z), jnp.zeros((), z.dtype)))


def of_rows(bijection: Autoregressive, rows: jax.Array, conditions: jax.Array) -> tuple:
    def of_row(z, condition):
        condition = condition if condition.size else None
        x, log_det = bijection.forward_and_log_det(z, condition)
        back = bijection.inverse_and_log_det(x, condition)
        return (x, log_det), by_full_passes(bijection, z, condition), back

    return jax.vmap(of_row)(rows, conditions)


@lru_cache
def both_ways(case: str, double: bool) -> Callable[[np.ndarray, np.ndarray], tuple]:
    """A function from rows and conditions to forward, the oracle's forward, and back again."""
    run = quick.jit(of_rows) if double else jax.jit(of_rows)
    single, dtype = made(case), np.float64 if double else np.float32

    def at(rows: np.ndarray, conditions: np.ndarray) -> tuple:
        with jax.enable_x64(double):
            bijection = jax.tree.map(lambda a: jnp.asarray(dtype(a)), single)
            found = run(bijection, jnp.asarray(dtype(rows)), jnp.asarray(dtype(conditions)))
            return jax.tree.map(np.asarray, found)

    return at


def close(a, b, tolerance: float) -> None:
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.few(4)
@every
@given(data=st.data())
@settings(max_examples=10)
def test_sampling_gives_what_a_pass_for_each_coordinate_gives(case: str, data):
    dim, _, _, condition_dim, _ = CASES[case]
    numbers = st.floats(-4, 4)
    rows = data.draw(hnp.arrays(np.float64, (3, dim), elements=numbers))
    conditions = data.draw(hnp.arrays(np.float64, (3, condition_dim), elements=numbers))
    ours, oracle, (back, back_log_det) = both_ways(case, double=True)(rows, conditions)
    close(ours[0], oracle[0], 1e-9)
    close(ours[1], oracle[1], 1e-9)
    close(back, rows, 1e-6)
    close(back_log_det, -ours[1], 1e-6)


@pytest.mark.parametrize("case", ["two layers", "two layers, condition", "fewer units, condition"])
def test_it_does_so_in_float32(case: str):
    dim, _, _, condition_dim, _ = CASES[case]
    noise = np.random.default_rng(5)
    rows, conditions = noise.normal(size=(3, dim)), noise.normal(size=(3, condition_dim))
    ours, oracle, (back, _) = both_ways(case, double=False)(rows, conditions)
    assert ours[0].dtype == ours[1].dtype == np.float32
    assert ours[1].shape == (3,)
    close(ours[0], oracle[0], 1e-5)
    close(ours[1], oracle[1], 1e-5)
    close(back, rows, 1e-3)


@pytest.mark.parametrize("case", ["two layers", "fewer units, condition"])
def test_hostile_rows_stay_finite_and_so_do_their_gradients(case: str):
    dim, _, _, condition_dim, _ = CASES[case]
    rows = np.float32([[1e6] * dim, [-1e6] * dim, np.resize([1e6, -1e6, 0.0], dim)])
    conditions = np.float32(np.resize([1e6, -1e6, 0.0], (3, condition_dim)))
    ours, _, _ = both_ways(case, double=False)(rows, conditions)
    assert np.all(np.isfinite(ours[0]))
    assert np.all(np.isfinite(ours[1]))

    @jax.jit
    def gradient(bijection, z, condition):
        def loss(bijection, z):
            x, log_det = bijection.forward_and_log_det(z, condition if condition.size else None)
            return jnp.sum(jnp.tanh(x)) + log_det

        return jax.grad(loss, argnums=(0, 1))(bijection, z)

    for z, condition in zip(rows, conditions, strict=True):
        for leaf in jax.tree.leaves(gradient(made(case), jnp.asarray(z), jnp.asarray(condition))):
            assert np.all(np.isfinite(leaf))


CONDITIONAL = "two layers, condition"


@lru_cache
def at_a_point() -> dict[str, list[np.ndarray]]:
    """Derivatives of sampling in float64, of ours and of the oracle."""
    z, condition = np.array([0.3, -1.0, 0.7, 2.0, -0.4, 0.1]), np.array([0.5, -0.2, 1.0])

    def loss(forward: Callable) -> Callable:
        def of(bijection, z, condition):
            x, log_det = forward(bijection, z, condition)
            return jnp.sum(jnp.sin(x)) + log_det

        return of

    def forward_of(bijection, z, condition):
        return bijection.forward_and_log_det(z, condition)

    def jacobians(bijection, z, condition):
        return jax.jacfwd(lambda *at: forward_of(bijection, *at)[0], (0, 1))(z, condition)

    single = made(CONDITIONAL)
    with jax.enable_x64(True):
        at = (jax.tree.map(lambda a: jnp.asarray(np.float64(a)), single), z, condition)
        found = {
            "ours": quick.jit(jax.grad(loss(forward_of), argnums=(0, 1, 2)))(*at),
            "oracle": quick.jit(jax.grad(loss(by_full_passes), argnums=(0, 1, 2)))(*at),
            "jacobians": quick.jit(jacobians)(*at),
        }
        return {k: [np.asarray(leaf) for leaf in jax.tree.leaves(v)] for k, v in found.items()}


def test_gradients_of_sampling_are_those_of_the_definition():
    for ours, oracle in zip(at_a_point()["ours"], at_a_point()["oracle"], strict=True):
        close(ours, oracle, 1e-9)
    assert all(np.any(leaf != 0) for leaf in at_a_point()["ours"])


def test_the_jacobian_of_sampling_is_triangular_and_the_condition_moves_every_coordinate():
    by_z, by_condition = at_a_point()["jacobians"]
    np.testing.assert_array_equal(np.triu(by_z, 1), 0)
    assert np.all(np.diag(by_z) > 0)
    assert np.all(by_z[np.tril_indices(len(by_z), -1)] != 0)
    assert np.all(by_condition != 0)


def test_a_scan_hands_the_condition_to_every_block_and_invert_turns_it_around():
    blocks = [Chain((reverse(6), made(CONDITIONAL, seed))) for seed in (1, 2)]
    stacked = Scan(jax.tree.map(lambda *leaves: jnp.stack(leaves), *blocks), 2)
    noise = np.random.default_rng(3)
    z, condition = noise.normal(size=6), noise.normal(size=3)

    @quick.jit
    def run(scan, z, condition):
        x, log_det = scan.forward_and_log_det(z, condition)
        iaf = Invert(scan)  # one pass from base to data, the slow way back
        up, up_log_det = iaf.forward_and_log_det(z, condition)
        return x, log_det, up, up_log_det, *iaf.inverse_and_log_det(up, condition)

    @quick.jit
    def oracle(blocks, z, condition):
        total = jnp.zeros(())
        for block in blocks:
            z, log_det = by_full_passes(block.bijections[-1], z[::-1], condition)
            total = total + log_det
        return z, total

    with jax.enable_x64(True):
        scan, blocks = jax.tree.map(lambda a: jnp.asarray(np.float64(a)), (stacked, blocks))
        x, log_det, _, up_log_det, back, back_log_det = run(scan, z, condition)
        wanted, wanted_log_det = oracle(blocks, z, condition)
        close(x, wanted, 1e-9)
        close(log_det, wanted_log_det, 1e-9)
        close(back, z, 1e-6)
        close(back_log_det, -up_log_det, 1e-6)
        assert np.abs(run(scan, z, condition + 1)[0] - x).max() > 0.1


def of_conditional(bijection, row: jax.Array) -> jax.Array:
    z, log_det = bijection.inverse_and_private_log_det(row[:6], row[6:])
    return 0.5 * jnp.sum(jnp.square(z)) - log_det


def test_taps_give_each_record_its_gradient_under_a_condition_and_are_refused_turned_around():
    rows = jnp.asarray(np.random.default_rng(2).normal(size=(3, 9)), jnp.float32)
    model = made(CONDITIONAL)
    ours = gradients_through_taps(model, of_conditional, rows)
    assert_same_gradients(ours, gradients_by_vmap(model, of_conditional, rows), 1e-4)
    with pytest.raises(PrivacyError, match="data to base"):
        gradients_through_taps(Invert(model), of_conditional, rows)


def cost(program) -> tuple[int, int]:
    """Multiplications in matrix products, loops counted in full, and equations of the program."""
    work, size = 0, 0
    for eqn in program.eqns:
        size += 1
        if eqn.primitive.name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            shape = eqn.invars[0].aval.shape
            inner = int(np.prod([shape[axis] for axis in contracted]))
            work += inner * int(np.prod(eqn.outvars[0].aval.shape))
        for value in eqn.params.values():
            inside = getattr(value, "jaxpr", value)
            if hasattr(inside, "eqns"):
                more, length = cost(inside), eqn.params.get("length", 1)
                work, size = work + length * more[0], size + more[1]
    return work, size


@pytest.mark.parametrize("condition_dim", [0, 3])
def test_sampling_multiplies_as_often_as_one_density_and_its_program_does_not_grow(condition_dim):
    def costs(dim: int) -> list[tuple[int, int]]:
        with quick.weights():
            network = MaskedMLP.create(
                dim, 2, key=jax.random.key(0), hidden=(120, 120), condition_dim=condition_dim
            )
        bijection = Autoregressive(network, AffineMap())
        condition = jnp.zeros(condition_dim) if condition_dim else None
        directions = (bijection.forward_and_log_det, bijection.inverse_and_log_det)
        return [cost(jax.make_jaxpr(f)(jnp.zeros(dim), condition).jaxpr) for f in directions]

    (sampling, size), (density, _) = costs(20)
    assert density > 120 * 120
    assert sampling <= 1.2 * density
    assert costs(40)[0][1] == size
