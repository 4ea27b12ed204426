"""A step of a guide: fewer numbers and no backward pass, and the same clipped sum."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from tests import quick
from veilflow._core.keys import Secret
from veilflow.engine import Flat
from veilflow.engine.observed import clipped_total, measured, observe_gradients
from veilflow.models.posterior.guides import KINDS, FlatGuide, Guide, skeleton
from veilflow.models.posterior.training import record_loss, with_short_sums
from veilflow.nn.frozen import trainable_part

NUM_DRAWS = 16


def log_likelihood(theta, record):
    """Of a subject with four measures that have an error in common: sums over few numbers."""
    w, x = record
    off = x - (theta[0] + jnp.exp(theta[1] * w[0]) + jnp.log(w[1] + jnp.exp(theta[2])))
    return -0.5 * (jnp.sum(off**2) - jnp.sum(off) ** 2 / 5) / 0.3**2


def records(number):
    rng = np.random.default_rng(0)
    w = rng.uniform(0.1, 1.0, (number, 2)).astype(np.float32)
    return jnp.asarray(w), jnp.asarray(rng.normal(2.0, 0.5, (number, 4)).astype(np.float32))


def guide_of(kind):
    covariance = 0.01 * np.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.4], [0.0, -0.4, 1.0]])
    settings = Guide(kind=kind, hidden=(6,), num_bins=3)
    return FlatGuide.at(settings, np.full(3, 0.2), covariance, secret=Secret.from_seed(0))


def plain_gradients(guide, numbers, rows, num_draws):
    """Of the mean over draws for each record, by a backward pass through guide and likelihood."""
    base = guide.base_draws(num_draws)

    def loss(numbers, record):
        thetas = eqx.tree_at(lambda g: g.numbers, guide, numbers).draws_and_log_prob(base)[0]
        return -jnp.mean(jax.vmap(lambda theta: log_likelihood(theta, record))(thetas))

    return jax.vmap(jax.grad(loss), (None, 0))(numbers, rows)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_every_guide_is_that_of_the_bound(kind):
    guide, rows = guide_of(kind), records(3)

    @quick.jit
    def both(guide, rows):
        loss, key = record_loss(log_likelihood, 4), jax.random.key(0)
        seen = measured(observe_gradients(loss, guide, rows, jnp.ones(3, bool), key))
        return seen.per_record()[0], plain_gradients(guide, guide.numbers, rows, 4)

    ours, plain = both(guide, rows)
    np.testing.assert_allclose(ours, plain, rtol=2e-3, atol=1e-4 * float(jnp.abs(plain).max()))


def test_the_clipped_sum_of_a_step_is_that_of_gradients_through_guide_and_likelihood():
    guide, rows, clip = guide_of("iaf"), records(8), 0.5

    @quick.jit
    def old(numbers, rows):
        each = plain_gradients(guide, numbers, rows, NUM_DRAWS)
        norms = jnp.linalg.norm(each, axis=1)
        return jnp.sum(each * jnp.minimum(1.0, clip / norms)[:, None], axis=0), norms

    @quick.jit
    def new(guide, rows):
        loss, key = record_loss(log_likelihood, NUM_DRAWS), jax.random.key(0)
        seen = observe_gradients(loss, guide, rows, jnp.ones(8, bool), key)
        clipping = Flat(clip)
        return clipped_total(lambda o, k: clipping.clip(o, clipping.init(), k), seen, key).numbers

    want, norms = old(guide.numbers, rows)
    assert (norms > clip).any()
    assert (norms < clip).any()
    scale = float(jnp.abs(want).max())
    np.testing.assert_allclose(new(guide, rows), want, atol=1e-5 * scale)


def test_a_record_that_is_not_finite_adds_nothing():
    guide, (w, x) = guide_of("iaf"), records(4)
    x = x.at[2].set(jnp.nan)

    @quick.jit
    def total(guide, rows, keep):
        loss, key = record_loss(log_likelihood, NUM_DRAWS), jax.random.key(0)
        clipping = Flat(1.0)
        seen = observe_gradients(loss, guide, rows, keep, key)
        return clipped_total(lambda o, k: clipping.clip(o, clipping.init(), k), seen, key).numbers

    with_it = total(guide, (w, x), jnp.ones(4, bool))
    without = total(guide, (w, x), jnp.array([True, True, False, True]))
    assert bool(jnp.isfinite(with_it).all())
    np.testing.assert_array_equal(with_it, without)


@pytest.mark.parametrize("kind", ["iaf", "nsf"])
def test_weights_behind_a_mask_are_not_among_the_numbers(kind):
    bones = skeleton(Guide(kind=kind, hidden=(6,), num_bins=3), 3)
    everything = ravel_pytree(trainable_part(bones.guide.build(3, key=jax.random.key(0)))[0])[0]
    assert bones.size < everything.size
    numbers = bones.start(jax.random.key(1))
    built = bones.guide.build(3, key=jax.random.key(1))
    z = jnp.array([0.3, -1.0, 0.7])
    same = bones.bijection(numbers).forward_and_log_det(z)
    for ours, theirs in zip(same, built.forward_and_log_det(z), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    # and all that are among them count
    points = jax.random.normal(jax.random.key(2), (16, 3))

    @quick.jit
    def slopes(numbers):
        of = lambda n: jax.vmap(lambda p: bones.bijection(n).forward_and_log_det(p)[0])(points)  # noqa: E731
        return jax.jacrev(of)(numbers)

    moved = numbers + 0.3 * jax.random.normal(jax.random.key(3), numbers.shape)
    assert bool((jnp.abs(slopes(moved)).max(axis=(0, 1)) > 0).all())


def test_short_sums_are_written_out_and_long_ones_are_left():
    def function(x, y):
        return jnp.sum(x, axis=(0, 2)) * jnp.sum(y), {"norm": jax.nn.softplus(jnp.sum(x**2))}

    x, y = jnp.arange(24.0).reshape(2, 3, 4) / 24, jnp.ones(40)
    traced = str(jax.make_jaxpr(with_short_sums(function))(x, y))
    assert traced.count("reduce_sum") == 1
    found, want = with_short_sums(function)(x, y), function(x, y)
    np.testing.assert_allclose(found[0], want[0], rtol=1e-6)
    np.testing.assert_allclose(found[1]["norm"], want[1]["norm"], rtol=1e-6)


def test_loops_and_branches_go_through():
    def function(x):
        def body(total, part):
            return jax.lax.cond(part > 0.5, lambda t: t + jnp.sum(x), lambda t: t, total), None

        return jax.lax.scan(body, 0.0, x)[0]

    x = jnp.array([0.2, 0.7, 0.9])
    slope = with_short_sums(jax.grad(function))
    np.testing.assert_allclose(slope(x), jax.grad(function)(x), rtol=1e-6)
