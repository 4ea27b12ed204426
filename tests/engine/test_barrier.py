"""Norms and sums are made from numbers that the compiled program computes once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engine.compiled import operations
from veilflow import nn
from veilflow.engine import Flat
from veilflow.engine.barrier import after_barrier
from veilflow.engine.observed import clipped_total, observe_gradients


class Model(eqx.Module):
    layer: nn.Dense
    loose: jax.Array


MODEL = Model(nn.Dense.create(3, 4, key=jax.random.key(0)), jnp.ones(3))


def steep(model, row, key):
    return jnp.sum(jnp.sin(1e6 * model.layer(row))) + jnp.sin(1e6 * jnp.sum(model.loose * row))


def clipped(rows, keep, key):
    captured = observe_gradients(steep, MODEL, rows, keep, key)
    return clipped_total(lambda o, k: Flat(1.0).clip(o, (), k), captured, key)


@pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="elsewhere the barrier is the compiler's"
)
def test_no_derivative_is_computed_beside_the_norm_that_it_is_cut_by():
    found = operations(clipped, jnp.ones((64, 3)), jnp.ones(64, bool), jax.random.key(0))
    assert found["outside"].count("cosine") == 2  # one for the layer, one for the loose parameter
    assert "cosine" not in found["loop"]
    assert "sqrt" in found["loop"]  # the norm
    assert "sqrt" not in found["outside"]


def test_a_barrier_changes_no_bit_and_gives_zeros_where_nothing_is_needed():
    values = {"a": jnp.asarray([-0.0, jnp.nan, jnp.inf, 1e-42]), "b": jnp.asarray([True, False])}

    @jax.jit
    def through(values, needed):
        return after_barrier(lambda x, index: x, values, needed=needed)

    same, nothing = through(values, jnp.asarray(True)), through(values, jnp.asarray(False))
    for name, value in values.items():
        assert np.asarray(same[name]).tobytes() == np.asarray(value).tobytes()
        assert not np.asarray(nothing[name]).any()
