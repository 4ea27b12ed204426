"""Couplings and elementwise maps: who passes, who is moved by whom, and at what price."""

from collections.abc import Callable
from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import quick
from tests.flows.test_bijections import shaken
from veilflow._core.errors import PrivacyError
from veilflow.flows import MLP, AffineMap, Coupling, Elementwise, LogisticMixtureMap, SplineMap
from veilflow.nn import Shift
from veilflow.nn.tap import with_tap, zero_tap

X = jnp.array([0.5, -1.0, 2.0, 0.25, -0.75])


@lru_cache
def coupling(dim: int, condition_dim: int = 0) -> Coupling:
    with quick.weights():
        made = Coupling.create(
            dim, AffineMap(), key=jax.random.key(0), hidden=(8, 8), condition_dim=condition_dim
        )
    return shaken(made, 0.5)


@quick.jit
def inverse(bijection, x, condition=None):
    return bijection.inverse_and_log_det(x, condition)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_half_of_the_coordinates_pass_and_set_how_the_others_are_mapped(dim: int):
    passing, bijection = dim // 2, coupling(dim)
    of_x = quick.jit(jax.jacfwd(lambda x: bijection.inverse_and_log_det(x)[0]))
    jacobian = np.asarray(of_x(X[:dim]))
    np.testing.assert_array_equal(inverse(bijection, X[:dim])[0][:passing], X[:passing])
    np.testing.assert_array_equal(jacobian[:passing], np.eye(dim)[:passing])
    assert np.all(jacobian[passing:, :passing] != 0)
    among_others = np.asarray(jacobian[passing:, passing:])
    np.testing.assert_array_equal(among_others, np.diag(np.diag(among_others)))
    assert np.all(np.diag(among_others) > 0)


def test_with_one_coordinate_only_trained_numbers_and_the_condition_set_the_map():
    alone, given = coupling(1), coupling(1, condition_dim=2)
    slope = [inverse(alone, jnp.array([x]))[1] for x in (-3.0, 5.0)]
    assert slope[0] == slope[1] != 0
    of_condition = [inverse(given, X[:1], jnp.array(c))[0] for c in ([0.0, 1.0], [1.0, 0.0])]
    assert of_condition[0] != of_condition[1]


def products(method: Callable, dim: int) -> int:
    return str(jax.make_jaxpr(method)(X[:dim])).count("dot_general")


def test_sampling_costs_as_many_matrix_products_as_the_density():
    bijection = coupling(4)
    density = products(bijection.inverse_and_private_log_det, 4)
    assert products(bijection.forward_and_log_det, 4) == density == len(bijection.network.layers)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Coupling.create(3, SplineMap(), key=jax.random.key(0)),
        lambda: Elementwise.create(3, SplineMap(), key=jax.random.key(0)),
    ],
)
def test_taps_are_refused_from_base_to_data(make: Callable):
    with quick.weights():
        bijection = make()
    is_shift = isinstance(bijection, Elementwise)
    where = (lambda b: b.params) if is_shift else (lambda b: b.network.layers[0])
    layer = where(bijection)
    tapped = eqx.tree_at(where, bijection, with_tap(layer, zero_tap(layer)))
    with pytest.raises(PrivacyError, match="data to base"):
        tapped.forward_and_log_det(X[:3])


def test_the_tap_of_an_elementwise_map_reports_the_gradient_of_its_parameters():
    bijection = shaken(Elementwise.create(4, LogisticMixtureMap(), key=jax.random.key(0)), 0.5)

    def loss(params: Shift) -> jax.Array:
        z, log_det = Elementwise(params, LogisticMixtureMap()).inverse_and_private_log_det(X[:4])
        return jnp.sum(jnp.square(z)) - log_det

    layer = bijection.params
    tap = quick.jit(jax.grad(lambda tap: loss(with_tap(layer, tap))))(zero_tap(layer))
    gradient = quick.jit(jax.grad(loss))(layer).shift
    np.testing.assert_allclose(tap.d, gradient, rtol=1e-5)
    assert np.all(gradient != 0)
    assert tap.a.size == 0  # nothing else is needed, and nothing else is reported


def test_fresh_maps_are_close_to_the_identity_and_parts_of_a_mixture_differ():
    mixture = Elementwise.create(5, LogisticMixtureMap(), key=jax.random.key(0))
    for fresh in (mixture, Coupling.create(5, SplineMap(), key=jax.random.key(1))):
        z, log_det = inverse(fresh, X)
        np.testing.assert_allclose(z, X, atol=0.05)
        np.testing.assert_allclose(log_det, 0, atol=0.05)
    means = mixture.params.shift.reshape(3, 4, 5)[1]
    assert np.all(np.std(np.asarray(means), axis=0) > 0)


def test_a_network_without_condition_leaves_it_alone_and_one_with_asks_for_it():
    x, condition = X[:2], jnp.array([1.0, 2.0, 3.0])
    with_none = inverse(coupling(2), x)[0]
    np.testing.assert_array_equal(inverse(coupling(2), x, condition)[0], with_none)
    asking = coupling(2, condition_dim=3)
    seen = inverse(asking, x, condition)[0], inverse(asking, x, 2 * condition)[0]
    assert seen[0][1] != seen[1][1]
    with pytest.raises(ValueError, match=r"condition must have shape \(3,\).*got none"):
        asking.inverse_and_log_det(x)
    with pytest.raises(ValueError, match=r"got shape \(2,\)"):
        asking.inverse_and_log_det(x, x)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [(), (7, 5)])
def test_a_network_sees_all_inputs_and_starts_almost_at_zero(hidden: tuple, activation):
    network = MLP.create(
        3, 4, key=jax.random.key(3), hidden=hidden, activation=activation, condition_dim=2
    )
    assert (network.in_size, network.out_size) == (3, 4)
    out = quick.jit(network)(X[:3], X[3:])
    assert out.shape == (4,)
    assert np.abs(out).max() < 0.05
    jacobians = quick.jit(jax.jacfwd(network, argnums=(0, 1)))(X[:3], X[3:])
    assert all(np.all(np.any(np.asarray(by) != 0, axis=0)) for by in jacobians)


def network(in_size: int = 1, out_size: int = 2, **options) -> MLP:
    return MLP.create(in_size, out_size, key=jax.random.key(0), hidden=(4,), **options)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: network(in_size=-1), "in_size must be at least 0"),
        (lambda: network(out_size=0), "out_size must be at least 1"),
        (lambda: network(condition_dim=-1), "condition_dim must be at least 0"),
        (lambda: network(activation="gelu"), "activation must be one of 'tanh', 'relu'"),
        (lambda: Coupling(network(in_size=2), AffineMap(), 2), "fewer than 2 coordinates"),
        (lambda: Coupling(network(out_size=3), AffineMap(), 2), "1 in and 3 out"),
        (lambda: Coupling.create(0, AffineMap(), key=jax.random.key(0)), "dim must be at least 1"),
        (lambda: Elementwise(Shift(shift=jnp.zeros(3)), AffineMap()), "2 numbers per coordinate"),
        (
            lambda: Elementwise.create(2, AffineMap(), key=jax.random.key(0), spread=-1.0),
            "spread must be at least 0",
        ),
    ],
)
def test_a_wrong_argument_is_named(wrong: Callable, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()
