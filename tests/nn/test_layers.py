"""Closed-form gradients of single records against plain automatic differentiation."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.nn.layer_kinds import IN, KINDS, loss_fn, make
from veilflow import nn
from veilflow.engine.observed import measured, observe_gradients
from veilflow.nn.tap import is_layer, with_tap, zero_tap

RECORDS = 7


@lru_cache
def observed_and_plain(name):
    model = make(name)
    row_key, loss_key = jax.random.split(jax.random.key(0))
    rows = jax.random.normal(row_key, (RECORDS, IN))

    @eqx.filter_jit
    def observe(model, rows):
        keep = jnp.ones(RECORDS, bool)
        return measured(observe_gradients(loss_fn, model, rows, keep, loss_key))

    @eqx.filter_jit
    def plain(model, rows):
        return jax.vmap(lambda row: eqx.filter_grad(loss_fn)(model, row, None))(rows)

    return model, observe(model, rows), plain(model, rows)


def close(ours, theirs, rtol=1e-5):
    theirs = np.asarray(theirs)
    scale = np.abs(theirs).max() + 1e-12
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * scale)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", KINDS)
def test_norms_and_weighted_sums_equal_those_of_vmapped_gradients(name):
    model, observed, plain = observed_and_plain(name)
    leaves = jax.tree.leaves(plain)
    norm = sum(np.sum(np.square(np.float64(g)).reshape(RECORDS, -1), axis=1) for g in leaves)
    close(observed.squared_norm(), norm)

    factor = jnp.linspace(0.1, 1.0, RECORDS)
    ours = observed.weighted_sum(observed.everywhere(factor))
    assert jax.tree.structure(ours) == jax.tree.structure(eqx.filter(model, eqx.is_inexact_array))
    for got, g in zip(jax.tree.leaves(ours), leaves, strict=True):
        close(got, np.tensordot(np.float64(factor), np.float64(g), axes=1))


@pytest.mark.few(6)
@pytest.mark.parametrize("name", KINDS)
def test_materialized_gradients_equal_vmapped_ones(name):
    _, observed, plain = observed_and_plain(name)
    stacks = [len(layer.stack) for layer in observed.layers] + [0] * len(observed.loose)
    ours = [
        jnp.moveaxis(leaf, stack, 0)
        for part, stack in zip(observed.per_record(), stacks, strict=True)
        for leaf in jax.tree.leaves(part)
    ]
    assert len(ours) == len(jax.tree.leaves(plain))
    unmatched = [np.asarray(leaf) for leaf in jax.tree.leaves(plain)]
    for leaf in ours:  # loose parameters come last in ours, wherever they stand in the model
        best = min(
            (i for i, other in enumerate(unmatched) if other.shape == leaf.shape),
            key=lambda i: np.abs(unmatched[i] - leaf).max(),
        )
        close(leaf, unmatched.pop(best))


@pytest.mark.few(6)
@pytest.mark.parametrize("name", KINDS)
def test_unit_norms_equal_those_of_the_materialized_rows(name):
    _, observed, _ = observed_and_plain(name)
    for part, (l1, l2) in zip(observed.per_record(), observed.unit_norms(), strict=True):
        leaves = [np.float64(leaf) for leaf in jax.tree.leaves(part)]
        whole1 = sum(np.abs(leaf).sum() for leaf in leaves)
        whole2 = sum(np.square(leaf).sum() for leaf in leaves)
        close(np.float64(l1).sum(), whole1)
        close(np.float64(l2).sum(), whole2)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["dense", "masked", "convolution", "stacked blocks"])
def test_factors_by_unit_scale_rows(name, key):
    _, observed, _ = observed_and_plain(name)
    factors = tuple(
        jax.random.uniform(jax.random.fold_in(key, i), l1.shape)
        for i, (l1, _) in enumerate(observed.unit_norms())
    )
    ours = jax.tree.leaves(observed.weighted_sum(factors))
    theirs = []
    for layer, part, c in zip(observed.layers, observed.per_record(), factors, strict=True):
        for leaf in jax.tree.leaves(part):
            wide = np.float64(c).reshape(c.shape + (1,) * (leaf.ndim - c.ndim))
            theirs.append(np.sum(np.float64(leaf) * wide, axis=len(layer.stack)))
    for got, want in zip(ours, theirs, strict=True):
        close(got, want)


def test_a_layer_cannot_be_reused_inside_a_reused_module(key):
    once = nn.Reused(nn.Dense.create(IN, IN, key=key), uses=2)
    with pytest.raises(ValueError, match="already inside"):
        nn.Reused(once.module, uses=3)


@pytest.mark.parametrize("name", ["LU", "low rank 1", "low rank 3"])
def test_log_det_of_linear_maps_equals_that_of_their_jacobian(name, key):
    model = make(name)
    jacobian = jax.jacfwd(model)(jax.random.normal(key, (IN,)))
    close(model.log_det(), jnp.linalg.slogdet(jacobian)[1])


def test_taps_do_not_change_what_a_model_computes(key):
    model = make("stacked blocks")
    row = jax.random.normal(key, (IN,))
    tapped = jax.tree.map(
        lambda node: with_tap(node, zero_tap(node)) if is_layer(node) else node,
        model,
        is_leaf=is_layer,
    )
    np.testing.assert_array_equal(model(row), tapped(row))
    close(jax.grad(lambda x: tapped(x).sum())(row), jax.grad(lambda x: model(x).sum())(row))


def test_a_record_does_not_see_its_neighbors(key):
    model = make("stacked blocks")
    row_key, loss_key = jax.random.split(key)
    rows = jax.random.normal(row_key, (RECORDS, IN))

    def norms(rows):
        keep = jnp.ones(RECORDS, bool)
        captured = observe_gradients(loss_fn, model, rows, keep, jax.random.clone(loss_key))
        return measured(captured).squared_norm()

    one, two = norms(rows), norms(rows.at[0].set(1e6))
    np.testing.assert_array_equal(one[1:], two[1:])


class Twice(eqx.Module):
    layer: nn.Dense

    def __call__(self, x):
        return self.layer(jnp.tanh(self.layer(x)))


class TwiceInALoop(Twice):
    def __call__(self, x):
        return jax.lax.scan(lambda x, _: (self.layer(x), None), x, None, length=2)[0]


class TwiceUnderJit(Twice):
    def __call__(self, x):
        return jax.jit(lambda layer, x: layer(jnp.tanh(layer(x))))(self.layer, x)


@pytest.mark.parametrize("kind", [Twice, TwiceInALoop, TwiceUnderJit])
def test_a_layer_called_twice_outside_reused_is_refused(kind, key):
    layer_key, loss_key = jax.random.split(key)
    model = kind(nn.Dense.create(IN, IN, key=layer_key))
    with pytest.raises(ValueError, match="more than once for each record"):
        observe_gradients(loss_fn_once, model, jnp.ones((2, IN)), jnp.ones(2, bool), loss_key)


def loss_fn_once(model, record, key):
    return jnp.sum(model(record))
