"""The flow of mixed rows: probabilities add up, every record's gradient is known, and it learns."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import quick
from tests.engine.hostile import norm
from tests.flows.clipped import check_bounds
from tests.flows.test_bijections import close, layers_of, made, shaken
from veilflow._core.errors import PrivacyError
from veilflow.engine.observed import measured, observe_gradients
from veilflow.flows import (
    LU,
    Autoregressive,
    Chain,
    Continuous,
    HFlow,
    Listed,
    Scan,
    SharedBlocks,
    UniformDequantizer,
    VariationalDequantizer,
    reverse,
)
from veilflow.nn.frozen import trainable_part
from veilflow.nn.tap import is_layer, with_tap, zero_tap

KINDS = (Listed(3), Continuous(), Listed(4), Continuous())

# every two of the options meet
OPTIONS = {
    "conditional, low rank, variational": ("conditional", "low-rank", "variational", "private"),
    "conditional, LU, uniform": ("conditional", "lu", "uniform", "public"),
    "conditional, none, variational": ("conditional", "none", "variational", "public"),
    "separate, low rank, uniform": ("separate", "low-rank", "uniform", "public"),
    "separate, LU, variational": ("separate", "lu", "variational", "private"),
    "separate, none, uniform": ("separate", "none", "uniform", "private"),
}


def flow_of(*args, **options) -> HFlow:
    with quick.weights():
        return started(*args, **options)


def started(
    kinds,
    network="conditional",
    linear="low-rank",
    dequantization="uniform",
    log_det="private",
    **options,
):
    settings = {"bins": 3, "hidden": (6,), "blocks": 2, "block_embedding": 2, **options}
    return HFlow.create(
        kinds,
        key=jax.random.key(3),
        network=network,
        linear=linear,
        dequantization=dequantization,
        log_det=log_det,
        **settings,
    )


@lru_cache
def shaken_flow(name: str) -> HFlow:
    return shaken(flow_of(KINDS, *OPTIONS[name]), 0.2)


def loss_fn(flow: HFlow, row, key):
    return flow.private_loss(*row, key)


def ordinary_rows(number: int = 6):
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, number) for size in (3, 1, 4, 1)], axis=1)
    positions = rng.uniform(size=(number, 4)).astype(np.float32)
    return codes.astype(np.int32), positions


def hostile_rows():
    codes, positions = ordinary_rows()
    positions[:5, 1] = [np.nan, np.inf, -1e38, 1e20, 1e-45]
    top = np.iinfo(np.int32).max
    codes[4:] = [top, 0, -top, 0], [-1, top, 4, -1]
    return codes, positions


@lru_cache
def gradients_of(name: str):
    """A function of rows: squared norms and a sum by taps, and each record's gradient by itself."""
    flow = shaken_flow(name)
    trained, rest = trainable_part(flow)

    @jax.jit  # as in training: rows at the ends of their range go through it
    def by_taps(flow, rows):
        captured = observe_gradients(loss_fn, flow, rows, jnp.ones(6, bool), jax.random.key(0))
        observed = measured(captured)
        total = observed.weighted_sum(observed.everywhere(jnp.ones(6)))
        return observed.squared_norm(), total

    @quick.jit
    def one_by_one(trained, rows):
        keys = jax.random.split(jax.random.key(0), 6)  # as the engine splits it
        of_trained = jax.grad(lambda t, row, key: loss_fn(eqx.combine(t, rest), row, key))
        return jax.vmap(of_trained, in_axes=(None, 0, 0))(trained, rows, keys)

    def run(rows):
        found = *by_taps(flow, rows), one_by_one(trained, rows)
        return jax.tree.map(np.asarray, found)

    return run


def squared(gradients) -> np.ndarray:
    leaves = [np.float64(leaf).reshape(6, -1) for leaf in jax.tree.leaves(gradients)]
    return np.sum([np.sum(leaf**2, axis=1) for leaf in leaves], axis=0)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", OPTIONS)
def test_closed_forms_are_those_of_each_records_gradient(name: str):
    norms, total, gradients = gradients_of(name)(ordinary_rows())
    np.testing.assert_allclose(norms, squared(gradients), rtol=1e-4)
    assert norms.min() > 0.1
    for ours, theirs in zip(jax.tree.leaves(total), jax.tree.leaves(gradients), strict=True):
        summed = np.sum(theirs, axis=0)
        np.testing.assert_allclose(ours, summed, rtol=1e-3, atol=1e-3 * np.abs(summed).max())


@pytest.mark.few(2)
@pytest.mark.parametrize("name", OPTIONS)
def test_hostile_rows_have_the_norm_of_their_gradient_or_are_left_out(name: str):
    norms, total, gradients = gradients_of(name)(hostile_rows())
    kept = np.asarray(norms) > 0
    np.testing.assert_allclose(norms[kept], squared(gradients)[kept], rtol=1e-3)
    assert not kept[0]  # NaN; infinity is the end of the range
    assert kept[1:].all()
    assert kept[5]  # codes that nobody declared are far out, and that is all
    assert np.isfinite(norm(total))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [name for name in OPTIONS if name.endswith("variational")])
def test_every_clipping_keeps_its_bound_on_ordinary_and_on_hostile_rows(name: str):
    check_bounds(shaken_flow(name), loss_fn, [ordinary_rows(), hostile_rows()])


def test_every_trained_number_sits_in_a_layer_and_nothing_else_is_held():
    for name in OPTIONS:
        trained, rest = trainable_part(shaken_flow(name))
        assert all(is_layer(n) for n in jax.tree.leaves(trained, is_leaf=is_layer))
        scores = shaken_flow(name).flow.bijection.bijections[-1]
        assert len(jax.tree.leaves(rest)) == len(jax.tree.leaves(scores)) == 2


def test_one_network_serves_all_blocks_and_is_smaller_than_one_for_each():
    count = lambda flow: sum(x.size for x in jax.tree.leaves(trainable_part(flow)[0]))  # noqa: E731
    one, each = (flow_of(KINDS, network, "none") for network in ("conditional", "separate"))
    embedded = 2 * 2 + 2 * 6  # the embedding, and where the hidden layer sees it
    assert count(one) == count(each) // 2 + embedded
    assert {layer.uses for layer in layers_of(one)} == {2}


def test_shared_blocks_are_a_chain_whose_blocks_are_told_their_number():
    blocks = made("shared blocks", 5)
    network = blocks.network.module

    @quick.jit
    def by_hand(z):
        total = jnp.zeros(())
        for i in reversed(range(3)):
            linear = jax.tree.map(lambda leaf: leaf[i], blocks.linear.block)  # noqa: B023
            z, log_det = linear.inverse_and_log_det(z)
            total += log_det
            spline = Autoregressive(network.masked, blocks.scalar_map)
            z, log_det = spline.inverse_and_log_det(z, network.embedding.weight[:, i])
            total += log_det
            z, _ = reverse(5).inverse_and_log_det(z)
        return z, total

    x = np.random.default_rng(1).normal(size=5).astype(np.float32)
    ours, log_det = quick.jit(lambda x: blocks.inverse_and_log_det(x))(x)
    z, expected = by_hand(x)
    close(ours, z, 1e-5)
    close(log_det, expected, 1e-5)


def test_taps_are_refused_from_base_to_data():
    tapped = jax.tree.map(
        lambda layer: with_tap(layer, zero_tap(layer)), made("shared blocks", 5), is_leaf=is_layer
    )
    with pytest.raises(PrivacyError, match="forward direction of SharedBlocks"):
        tapped.forward_and_log_det(jnp.zeros(5))


def test_options_build_what_they_name():
    assert isinstance(flow_of(KINDS).flow.bijection.bijections[0], SharedBlocks)
    separate = flow_of(KINDS, "separate", "lu", log_det="public").flow.bijection.bijections[0]
    assert isinstance(separate, Scan)
    assert isinstance(separate.block, Chain)
    assert isinstance(separate.block.bijections[-1], LU)
    wide = flow_of(KINDS, rank=2, log_det="public").flow.bijection.bijections[0]
    ranks = wide.linear.block.linear.down.weight
    assert ranks.shape == (2, 2, 4)
    trained = flow_of(KINDS, dequantization="variational").dequantizer
    assert isinstance(trained, VariationalDequantizer)
    few = flow_of((Listed(3), Continuous()), dequantization="variational").dequantizer
    assert isinstance(few, UniformDequantizer)


@pytest.mark.parametrize("linear", ["low-rank", "lu"])
def test_the_log_determinant_of_linear_maps_is_in_the_records_loss_or_in_the_public_one(linear):
    private, public = (flow_of(KINDS, linear=linear, log_det=of) for of in ("private", "public"))
    row = jax.tree.map(lambda a: a[0], ordinary_rows())

    @quick.jit
    def losses(flow):
        return flow.private_loss(*row, jax.random.key(1)), flow.public_loss()

    clipped, constant = losses(private)
    of_record, free = losses(public)
    close(clipped + constant, of_record + free, 1e-5)
    assert (
        abs(free - constant) > 1e-6 if linear == "low-rank" else free == constant
    )  # LU starts at 0
    gradient = quick.jit(jax.grad(lambda flow: flow.public_loss()))
    assert norm(gradient(private)) == 0
    assert norm(gradient(public)) == pytest.approx((2 * 4) ** 0.5, rel=0.1)  # -1 for each scale


CELLS = np.stack(np.meshgrid(range(3), range(3), indexing="ij"), axis=-1).reshape(-1, 2)


def inside(dequantization: str) -> HFlow:
    """A flow that bends."""
    kinds, shares = (Listed(3), Listed(3)), (np.array([0.5, 0.3, 0.2]), np.ones(3))
    fresh = started(kinds, dequantization=dequantization, log_det="public", shares=shares)
    return HFlow(shaken(fresh.dequantizer, 0.1), shaken(fresh.flow, 0.25), fresh.variables)


def test_a_fresh_flow_has_the_given_shares_and_nothing_depends_on_anything():
    shares = np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.1, 0.2])
    flow = started((Listed(3), Listed(3)), shares=shares, linear="none")
    score = lambda codes, key: flow.log_prob(codes, jnp.zeros(2), key, num_draws=500)  # noqa: E731
    keys = jax.random.split(jax.random.key(0), 9)
    found = np.exp(quick.jit(jax.vmap(score))(jnp.asarray(CELLS), keys))
    expected = shares[0][CELLS[:, 0]] * shares[1][CELLS[:, 1]]
    np.testing.assert_allclose(found, expected, rtol=0.05)


@pytest.mark.parametrize("dequantization", ["uniform", "variational"])
def test_probabilities_of_all_rows_add_up_to_one_and_are_those_of_samples(dequantization: str):
    flow = inside(dequantization)
    positions = jnp.zeros(2)

    @quick.jit
    def run(flow):
        score_key, sample_key, bound_key = jax.random.split(jax.random.key(8), 3)
        score = lambda codes, key: flow.log_prob(codes, positions, key, num_draws=20_000)  # noqa: E731
        log_probs = jax.vmap(score)(jnp.asarray(CELLS), jax.random.split(score_key, 9))
        codes, _ = jax.vmap(flow.sample)(jax.random.split(sample_key, 20_000))
        bound = lambda codes, key: -flow.private_loss(codes, positions, key)  # noqa: E731
        bounds = jax.vmap(jax.vmap(bound, (None, 0)))(
            jnp.asarray(CELLS), jax.random.split(bound_key, (9, 500))
        )
        return log_probs, codes, bounds - flow.public_loss()

    log_probs, codes, bounds = map(np.asarray, run(flow))
    shares = np.exp(log_probs)
    assert 0.97 < shares.sum() < 1.02  # 20,000 draws a row leave about 0.5 % of error
    counted = np.array([np.mean(np.all(np.asarray(codes) == cell, axis=1)) for cell in CELLS])
    np.testing.assert_allclose(shares, counted, atol=0.015)
    assert shares.max() / shares.min() > 3  # rows that are all alike would prove little
    # Jensen: the mean of the bound is below what it bounds, up to the error of 500 draws
    error = 3 * bounds.std(axis=1) / 500**0.5
    assert np.all(bounds.mean(axis=1) <= log_probs + error + 0.02)
    assert np.mean(log_probs - bounds.mean(axis=1)) > 0.005


def test_without_listed_variables_the_loss_is_the_exact_density():
    flow = shaken(flow_of((Continuous(), Continuous())), 0.2)
    row = jnp.zeros(2, int), jnp.array([0.2, 0.7])

    @quick.jit
    def run(flow):
        keys = jax.random.split(jax.random.key(1), 3)
        loss = flow.private_loss(*row, keys[0]) + flow.public_loss()
        return (
            loss,
            flow.private_loss(*row, keys[1]) + flow.public_loss(),
            flow.log_prob(*row, keys[2]),
            flow.flow.log_prob(row[1]),
        )

    one, other, log_prob, exact = run(flow)
    close([one, other, -log_prob], np.full(3, -exact), 1e-5)


def toy(number: int):
    """A code, and a position whose place it decides."""
    rng = np.random.default_rng(5)
    codes = rng.choice(3, size=number, p=[0.6, 0.3, 0.1])
    positions = np.array([0.15, 0.5, 0.85])[codes] + 0.04 * rng.normal(size=number)
    zeros = np.zeros(number)
    return (
        jnp.asarray(np.stack([codes, zeros], 1), jnp.int32),
        jnp.asarray(np.stack([zeros, positions.clip(0, 0.999)], 1), jnp.float32),
    )


@pytest.mark.slow
def test_a_short_training_learns_a_mixed_table():
    flow = started((Listed(3), Continuous()), bins=8, hidden=(16,))
    codes, positions = toy(512)
    optimizer = optax.adam(2e-2)
    trained_first, fixed = trainable_part(flow)

    @quick.jit
    def run(flow, key):
        def loss(trained, key):
            flow = eqx.combine(trained, fixed)
            keys = jax.random.split(key, 512)
            return (
                jnp.mean(jax.vmap(flow.private_loss)(codes, positions, keys)) + flow.public_loss()
            )

        def step(carry, key):
            flow, state = carry
            value, gradient = jax.value_and_grad(loss)(flow, key)
            updates, state = optimizer.update(gradient, state)
            return (optax.apply_updates(flow, updates), state), value

        train_key, score_key, sample_key = jax.random.split(key, 3)
        carry = trained_first, optimizer.init(trained_first)
        (trained, _), _ = jax.lax.scan(step, carry, jax.random.split(train_key, 150))
        trained = eqx.combine(trained, fixed)

        def score(flow, key):
            keys = jax.random.split(key, 128)
            some = codes[:128], positions[:128]
            return jnp.mean(jax.vmap(lambda *a: flow.log_prob(*a, num_draws=8))(*some, keys))

        before, after = score(flow, score_key), score(trained, jax.random.clone(score_key))
        return before, after, jax.vmap(trained.sample)(jax.random.split(sample_key, 2000))

    before, after, (drawn, where) = run(flow, jax.random.key(2))
    # what there is to learn: the entropies of a code and of a normal of deviation 0.04
    best = np.sum(np.log([0.6, 0.3, 0.1]) * [0.6, 0.3, 0.1]) - np.log(
        0.04 * np.sqrt(2 * np.pi * np.e)
    )
    assert before < -1
    assert best - 0.6 < after < best + 0.2
    share = np.bincount(drawn[:, 0], minlength=3) / 2000
    np.testing.assert_allclose(share, [0.6, 0.3, 0.1], atol=0.1)
    for code, middle in enumerate((0.15, 0.5, 0.85)):
        assert np.median(where[drawn[:, 0] == code, 1]) == pytest.approx(middle, abs=0.05)
    np.testing.assert_array_equal(where[:, 0], 0)
    np.testing.assert_array_equal(drawn[:, 1], 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"linear": "full"}, "linear must be one of 'low-rank', 'lu', 'none', got 'full'"),
        ({"log_det": "none"}, "log_det must be one of 'private', 'public', got 'none'"),
        ({"network": "both"}, "network must be one of 'conditional', 'separate'"),
        ({"dequantization": "none"}, "dequantization must be one of 'uniform', 'variational'"),
        ({"blocks": 0}, "^blocks must be at least 1"),
        ({"bins": 1}, "num_bins must be at least 2"),
        ({"bound": 0.0}, "bound must be positive"),
        ({"rank": 5}, "rank must be at most dim=4, got 5"),
        ({"block_embedding": 0}, "block_embedding must be at least 1"),
        ({"activation": "gelu"}, "activation must be one of 'tanh', 'relu'"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        flow_of(KINDS, **options)


def test_a_number_of_draws_below_one_is_refused():
    with pytest.raises(ValueError, match="num_draws must be at least 1, got 0"):
        flow_of(KINDS).log_prob(jnp.zeros(4, int), jnp.zeros(4), jax.random.key(0), num_draws=0)
