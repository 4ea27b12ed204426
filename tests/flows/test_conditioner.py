"""The masked network: who sees whom, and how it starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import quick
from veilflow.flows import AffineMap, Autoregressive, MaskedMLP
from veilflow.flows.conditioner import groups, hidden_degrees


def made(dim: int, num_params: int, **options) -> MaskedMLP:
    with quick.weights():
        return MaskedMLP.create(dim, num_params, key=jax.random.key(0), **options)


dims, sizes = st.integers(1, 60), st.integers(1, 120)


@given(dim=dims, size=sizes, conditional=st.booleans())
def test_hidden_units_are_sorted_and_spread_evenly_over_the_degrees(dim, size, conditional):
    degrees = hidden_degrees(dim, size, conditional=conditional)
    first = 0 if conditional else 1
    last = max(dim - 1, first)
    assert list(degrees) == sorted(degrees)
    assert len(degrees) == size
    assert degrees[-1] == last  # the last unit sees all that any output may see
    assert degrees[0] >= first
    if size > 1:
        assert degrees[0] == first  # and the first one what the first output may see
    if size >= last - first + 1:
        units = np.bincount(degrees, minlength=last + 1)[first:]
        assert units.max() - units.min() <= 1


@given(dim=dims, size=sizes, conditional=st.booleans())
def test_slice_i_holds_all_units_of_degree_i_and_no_slice_is_longer_than_needed(
    dim, size, conditional
):
    degrees = np.array(hidden_degrees(dim, size, conditional=conditional))
    starts, length = groups(tuple(degrees), dim)
    assert starts.min() >= 0
    assert starts.max() + length <= size
    held = [degrees[start : start + length] for start in starts]
    counts = [np.count_nonzero(degrees == i) for i in range(dim)]
    assert [np.count_nonzero(held[i] == i) for i in range(dim)] == counts
    assert length == max(1, *counts)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [(), (7,), (30, 20), (3, 4)])
def test_parameters_of_a_coordinate_depend_on_earlier_coordinates_only(hidden, activation):
    dim, num_params = 6, 3
    network = made(dim, num_params, hidden=hidden, activation=activation)
    x = np.linspace(-1.0, 2.0, dim, dtype=np.float32)
    jacobian = np.asarray(quick.jit(jax.jacfwd(network))(x))
    assert jacobian.shape == (num_params, dim, dim)
    for p in range(num_params):
        np.testing.assert_array_equal(np.triu(jacobian[p]), 0)
        assert np.any(jacobian[p] != 0)


def test_with_one_coordinate_the_parameters_depend_on_nothing():
    network = quick.jit(made(1, 2))
    np.testing.assert_array_equal(network(jnp.array([-3.0])), network(jnp.array([5.0])))


@pytest.mark.parametrize("dim", [1, 6])
@pytest.mark.parametrize("hidden", [(), (7,), (30, 20), (3, 4)])
def test_a_condition_reaches_every_parameter_and_leaves_the_order_of_coordinates(dim, hidden):
    network = made(dim, 3, hidden=hidden, condition_dim=2)
    x, condition = np.linspace(-1.0, 2.0, dim, dtype=np.float32), np.float32([0.5, -1.0])
    jacobians = quick.jit(jax.jacfwd(network, argnums=(0, 1)))(x, condition)
    by_x, by_condition = map(np.asarray, jacobians)
    assert by_condition.shape == (3, dim, 2)
    assert np.all(by_condition != 0)
    for jacobian in by_x:
        np.testing.assert_array_equal(np.triu(jacobian), 0)
        assert dim == 1 or np.any(jacobian != 0)


@pytest.mark.parametrize(
    ("built_with", "condition", "message"),
    [
        (2, None, r"condition must have shape \(2,\).*got none"),
        (2, np.zeros(3), r"condition must have shape \(2,\).*got shape \(3,\)"),
        (2, np.zeros((5, 2)), r"got shape \(5, 2\).*jax.vmap"),
    ],
)
def test_a_condition_that_does_not_fit_is_refused_in_both_directions(
    built_with, condition, message
):
    network = made(3, 2, condition_dim=built_with)
    bijection = Autoregressive(network, AffineMap())
    for use in (network, bijection.forward_and_log_det, bijection.inverse_and_log_det):
        with pytest.raises(ValueError, match=message):
            use(jnp.zeros(3), condition)


def test_a_network_without_use_for_a_condition_leaves_it_alone():
    network = quick.jit(made(3, 2))
    x = jnp.array([0.3, -1.0, 2.0])
    np.testing.assert_array_equal(network(x, jnp.ones(2)), network(x))


def test_a_fresh_network_says_almost_zero():
    network = MaskedMLP.create(10, 2, key=jax.random.key(0))
    x = 3 * jax.random.normal(jax.random.key(1), (100, 10))
    assert np.abs(quick.jit(jax.vmap(network))(x)).max() < 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"num_params": 0}, "num_params must be at least 1"),
        ({"condition_dim": -1}, "condition_dim must be at least 0"),
        ({"hidden": (8, 0)}, "hidden must be at least 1"),
        ({"activation": "gelu"}, "activation must be one of 'tanh', 'relu'"),
    ],
)
def test_a_wrong_size_or_activation_is_named(arguments: dict, message: str):
    settings = {"dim": 2, "num_params": 2, **arguments}
    with pytest.raises(ValueError, match=message):
        MaskedMLP.create(**settings, key=jax.random.key(0))
