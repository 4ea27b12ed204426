"""The masked network: who sees whom, and how it starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow.flows import MaskedMLP
from veilflow.flows.conditioner import hidden_degrees


@given(dim=st.integers(1, 60), size=st.integers(1, 120))
def test_hidden_units_are_sorted_and_spread_evenly_over_the_degrees(dim: int, size: int):
    degrees = hidden_degrees(dim, size)
    last = max(dim - 1, 1)
    assert list(degrees) == sorted(degrees)
    assert len(degrees) == size
    assert degrees[-1] == last  # the last unit sees all that any output may see
    assert degrees[0] >= 1
    if size >= last:
        groups = np.bincount(degrees, minlength=last + 1)[1:]
        assert groups.max() - groups.min() <= 1


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [(), (7,), (30, 20), (3, 4)])
def test_parameters_of_a_coordinate_depend_on_earlier_coordinates_only(hidden, activation):
    dim, num_params = 6, 3
    network = MaskedMLP.create(
        dim, num_params, key=jax.random.key(0), hidden=hidden, activation=activation
    )
    x = jnp.linspace(-1.0, 2.0, dim)
    assert network(x).shape == (num_params, dim)
    jacobian = np.asarray(jax.jit(jax.jacfwd(network))(x))
    for p in range(num_params):
        np.testing.assert_array_equal(np.triu(jacobian[p]), 0)
        assert np.any(jacobian[p] != 0)


def test_with_one_coordinate_the_parameters_depend_on_nothing():
    network = MaskedMLP.create(1, 2, key=jax.random.key(0))
    np.testing.assert_array_equal(network(jnp.array([-3.0])), network(jnp.array([5.0])))


def test_a_fresh_network_says_almost_zero():
    network = MaskedMLP.create(10, 2, key=jax.random.key(0))
    x = 3 * jax.random.normal(jax.random.key(1), (100, 10))
    assert np.abs(jax.jit(jax.vmap(network))(x)).max() < 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"num_params": 0}, "num_params must be at least 1"),
        ({"hidden": (8, 0)}, "hidden must be at least 1"),
        ({"activation": "gelu"}, "activation must be one of 'tanh', 'relu'"),
    ],
)
def test_a_wrong_size_or_activation_is_named(arguments: dict, message: str):
    settings = {"dim": 2, "num_params": 2, **arguments}
    with pytest.raises(ValueError, match=message):
        MaskedMLP.create(**settings, key=jax.random.key(0))
