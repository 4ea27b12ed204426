"""Every clipping keeps its promise on hostile gradients, and is exact on good ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import hostile
from tests.nn.layer_kinds import IN, KINDS, make
from tests.nn.layer_kinds import loss_fn as kinds_loss_fn
from veilflow import engine, nn
from veilflow.engine.observed import clipped_total, observe_gradients

CLIPPINGS = {
    "flat": engine.Flat(0.7),
    "flat, tiny": engine.Flat(1e-6),
    "flat, huge": engine.Flat(1e6),
    "automatic": engine.Automatic(0.7),
    "per layer": engine.PerLayer(0.7),
    "per unit": engine.PerUnit(0.7),
    "sparsified": engine.Sparsified(0.7, sparsity=0.5),
    "sparsified, none": engine.Sparsified(0.7, sparsity=0.0),
    "adaptive quantile": engine.AdaptiveQuantile(initial=0.7),
}
MODEL = hostile.make_model()
PARTS = {"first": lambda m: (m.dense, m.loose), "second": lambda m: (m.masked, m.scale)}
OF_ANY_MODEL = dict(CLIPPINGS)
CLIPPINGS["per group"] = engine.PerGroup.of(
    MODEL, lambda m: [part(m) for part in PARTS.values()], (0.3, 0.6)
)
_jitted = {}


def clipped(name, rows, keep):
    if name not in _jitted:
        clipping = CLIPPINGS[name]

        @jax.jit
        def clip(rows, keep):
            loss_key, clip_key = jax.random.split(jax.random.key(0))
            observed = observe_gradients(hostile.loss_fn, MODEL, rows, keep, loss_key)
            clip = lambda o, k: clipping.clip(o, clipping.init(), k)  # noqa: E731
            return clipped_total(clip, observed, clip_key)

        _jitted[name] = clip
    return _jitted[name](jnp.asarray(rows), jnp.asarray(keep))


@pytest.mark.parametrize("name", CLIPPINGS)
@given(rows=hostile.rows, i=st.integers(0, 5))
def test_one_record_alone_stays_within_the_sensitivity(name, rows, i):
    total = clipped(name, rows, np.arange(6) == i)
    assert np.isfinite(hostile.norm(total))
    assert hostile.norm(total) <= CLIPPINGS[name].sensitivity


@pytest.mark.parametrize("name", CLIPPINGS)
@given(rows=hostile.rows, i=st.integers(0, 5))
def test_removing_one_record_moves_the_sum_by_at_most_the_sensitivity(name, rows, i):
    with_record = clipped(name, rows, np.ones(6, bool))
    without = clipped(name, rows, np.arange(6) != i)
    bound = CLIPPINGS[name].sensitivity
    # the two sums are rounded apart: six records at float32 precision
    assert hostile.norm(hostile.subtract(with_record, without)) <= bound * (1 + 1e-5)


@pytest.mark.parametrize("name", CLIPPINGS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38, -3e38, 1e-45, 1e-38, 0.0])
def test_famous_values_stay_within_the_sensitivity(name, value):
    rows = np.zeros((6, hostile.DIM), np.float32)
    rows[0, 1] = value
    rows[1] = value
    for i in range(2):
        total = clipped(name, rows, np.arange(6) == i)
        assert hostile.norm(total) <= CLIPPINGS[name].sensitivity


def test_a_record_with_a_non_finite_gradient_contributes_nothing():
    rows = np.ones((6, hostile.DIM), np.float32)
    rows[2, 0] = np.nan
    assert hostile.norm(clipped("flat", rows, np.arange(6) == 2)) == 0.0
    others = clipped("flat", rows, np.arange(6) != 2)
    everyone = clipped("flat", rows, np.ones(6, bool))
    assert hostile.norm(hostile.subtract(others, everyone)) == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_flat_clipping_of_every_layer_kind_stays_within_the_sensitivity(kind):
    model = make(kind)
    rows = jax.random.normal(jax.random.key(5), (4, IN))

    @jax.jit
    def clip(keep, rows):
        loss_key, clip_key = jax.random.split(jax.random.key(0))
        observed = observe_gradients(kinds_loss_fn, model, rows, keep, loss_key)
        clip = lambda o, k: engine.Flat(0.01).clip(o, (), k)  # noqa: E731
        return clipped_total(clip, observed, clip_key)

    for scale in [1e-8, 1.0, 1e6]:
        for i in range(4):
            assert hostile.norm(clip(jnp.arange(4) == i, scale * rows)) <= 0.01


class Canceling(eqx.Module):
    """Two uses of one layer whose gradients nearly cancel, so that only rounding is left."""

    reused: nn.Reused

    def __call__(self, x):
        inputs = jnp.stack([x, x * (1 + 1e-6)])
        _, y = self.reused.scan(lambda layer, carry, x: (carry, layer(x)), None, inputs)
        return 1e5 * (y[0] - y[1])


CANCELED = {
    "flat": engine.Flat(1e-2),
    "automatic": engine.Automatic(1e-2),
    "per layer": engine.PerLayer(1e-2),
    "per unit": engine.PerUnit(1e-2),
    "sparsified": engine.Sparsified(1e-2),
}


@pytest.mark.parametrize("name", CANCELED)
@pytest.mark.parametrize("size", [2, 16])  # through the gradient itself, through Gram matrices
@pytest.mark.parametrize("masked", [False, True])
def test_uses_that_cancel_stay_within_the_sensitivity(size, masked, name, key):
    layer_key, row_key = jax.random.split(key)
    degrees = tuple(i // (size // 2) for i in range(size))
    layer = (
        nn.MaskedDense.create(degrees, degrees, key=layer_key)
        if masked
        else nn.Dense.create(size, size, key=layer_key)
    )
    model = Canceling(nn.Reused(layer, uses=2))
    rows = 1 + jax.random.uniform(row_key, (32, size))

    @jax.jit
    def clip(row):
        loss_key, clip_key = jax.random.split(jax.random.key(0))
        captured = observe_gradients(
            lambda m, r, k: jnp.sum(m(r)), model, row[None], jnp.ones(1, bool), loss_key
        )
        clip_one = lambda o, k: CANCELED[name].clip(o, (), k)  # noqa: E731
        return clipped_total(clip_one, captured, clip_key)

    for row in rows:
        assert hostile.norm(clip(row)) <= 1e-2


@pytest.mark.parametrize("name", [n for n in OF_ANY_MODEL if n != "flat, tiny"])
@pytest.mark.parametrize("masked", [False, True])
def test_cotangents_whose_squares_underflow_stay_within_the_sensitivity(name, masked, key):
    """A cotangent of 1e-19 beside an input of 1e19 is a gradient of length 1, not 0."""
    degrees = tuple([0] * 64)
    layer = (
        nn.MaskedDense.create(degrees, degrees, key=key)
        if masked
        else nn.Dense.create(64, 64, key=key)
    )
    clipping = CLIPPINGS[name]

    @jax.jit
    def clip(row):
        loss_key, clip_key = jax.random.split(jax.random.key(0))
        captured = observe_gradients(
            lambda m, r, k: 1e-19 * jnp.sum(m(r)), layer, row[None], jnp.ones(1, bool), loss_key
        )
        clip_one = lambda o, k: clipping.clip(o, clipping.init(), k)  # noqa: E731
        return clipped_total(clip_one, captured, clip_key)

    for size in (1e10, 1e17, 1.5e18, 1.5e19):
        assert hostile.norm(clip(jnp.full(64, size / 8))) <= clipping.sensitivity


def test_flat_clipping_equals_that_of_jax_privacy(key):
    import jax_privacy

    row_key, loss_key, clip_key = jax.random.split(key, 3)
    rows = jax.random.normal(row_key, (6, hostile.DIM))
    params, rest = eqx.partition(MODEL, eqx.is_inexact_array)

    def loss(params, row):
        return hostile.loss_fn(eqx.combine(params, rest), row, None)

    theirs = jax_privacy.clipped_grad(loss, l2_clip_norm=0.7, keep_batch_dim=False)(params, rows)
    observed = observe_gradients(hostile.loss_fn, MODEL, rows, jnp.ones(6, bool), loss_key)
    ours = clipped_total(lambda o, k: engine.Flat(0.7).clip(o, (), k), observed, clip_key)
    assert hostile.norm(hostile.subtract(ours, theirs)) <= 1e-5 * hostile.norm(theirs)


def test_an_infinite_clip_recovers_the_plain_gradient(key):
    row_key, loss_key, clip_key = jax.random.split(key, 3)
    rows = jax.random.normal(row_key, (6, hostile.DIM))
    observed = observe_gradients(hostile.loss_fn, MODEL, rows, jnp.ones(6, bool), loss_key)
    ours = clipped_total(lambda o, k: engine.Flat(1e9).clip(o, (), k), observed, clip_key)
    plain = eqx.filter_grad(lambda m: sum(hostile.loss_fn(m, row, None) for row in rows))(MODEL)
    assert hostile.norm(hostile.subtract(ours, plain)) <= 1e-5 * hostile.norm(plain)


def test_automatic_clipping_makes_every_gradient_nearly_as_long_as_the_bound():
    rows = np.full((6, hostile.DIM), 2.0, np.float32)
    one = hostile.norm(clipped("automatic", rows, np.arange(6) == 0))
    assert 0.95 * 0.7 < one <= 0.7


def test_per_layer_bounds_add_up_to_the_whole(key):
    rows = jnp.full((6, hostile.DIM), 3.0)
    total = clipped("per layer", rows, np.arange(6) == 0)
    # every layer's gradient is far above its bound here, so the whole is as long as it may be
    assert hostile.norm(total) == pytest.approx(0.7, rel=1e-4)


def test_sparsified_gradients_have_about_as_many_zeros_as_asked_for():
    rows = np.full((6, hostile.DIM), 0.5, np.float32)
    total = clipped("sparsified", rows, np.arange(6) == 0)
    entries = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(total.dense)])
    assert 0 < np.sum(entries == 0) < entries.size


def test_adaptive_clipping_finds_the_quantile_and_ignores_what_it_is_not_told():
    clipping = engine.AdaptiveQuantile(initial=1.0, quantile=0.5, rate=0.5)
    norms = np.geomspace(1, 100, 1001)
    state = clipping.init()
    for _ in range(60):
        within = 2 * clipping.count_weight * np.sum(np.where(norms <= np.exp(state), 0.5, -0.5))
        gradient, state = clipping.gradient((jnp.ones(2), jnp.float32(within)), state, 1001.0)
    assert float(jnp.exp(state)) == pytest.approx(10, rel=0.1)
    np.testing.assert_allclose(gradient, float(jnp.exp(state)), rtol=0.1)


def test_adaptive_clipping_pays_for_its_counts():
    assert engine.AdaptiveQuantile(count_weight=0.5).sensitivity == pytest.approx(1.25**0.5)


@pytest.mark.parametrize(
    ("make_clipping", "message"),
    [
        (lambda: engine.Flat(0.0), "clip_norm must be positive"),
        (lambda: engine.Flat(float("inf")), "clip_norm must be positive and finite"),
        (lambda: engine.Flat(1e-12), "clip_norm must be between 1e-09 and 1e\\+10"),
        (lambda: engine.AdaptiveQuantile(initial=1e-30), "initial must be between"),
        (lambda: engine.PerLayer(-1.0), "clip_norm must be positive"),
        (lambda: engine.PerUnit(float("nan")), "clip_norm must be a number"),
        (lambda: engine.Automatic(1.0, stability=0.0), "stability must be positive"),
        (lambda: engine.Sparsified(1.0, sparsity=1.0), "sparsity must be"),
        (lambda: engine.AdaptiveQuantile(quantile=1.0), "quantile must be strictly between"),
    ],
)
def test_settings_that_promise_nothing_are_refused(make_clipping, message):
    with pytest.raises(ValueError, match=message):
        make_clipping()


def test_each_group_is_held_to_its_own_bound():
    rows = np.linspace(-3, 3, 6 * hostile.DIM, dtype=np.float32).reshape(6, -1)
    for i in range(6):
        total = clipped("per group", rows, np.arange(6) == i)
        for part, bound in zip(PARTS.values(), (0.3, 0.6), strict=True):
            assert hostile.norm(part(total)) == pytest.approx(bound, rel=1e-4)
    assert CLIPPINGS["per group"].sensitivity == pytest.approx(0.45**0.5)


@pytest.mark.parametrize(
    ("groups", "bounds", "message"),
    [
        (lambda m: [m.dense, m.masked], (1, 1), "exactly one group"),
        (lambda m: [m.dense, m], (1, 1), "exactly one group"),
        (lambda m: [m], (1, 1), "as many bounds"),
        (lambda m: [m, ()], (1, 1), "every group needs parameters"),
        (lambda m: [m], (0.0,), "clip_norm"),
    ],
    ids=["left out", "twice", "too many bounds", "empty", "no bound"],
)
def test_groups_that_cannot_be_are_refused(groups, bounds, message):
    with pytest.raises(ValueError, match=message):
        engine.PerGroup.of(MODEL, groups, bounds)
