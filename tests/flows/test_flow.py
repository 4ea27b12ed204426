"""Flows are densities: they integrate to one, their samples follow them, and nothing blows up."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests import quick
from tests.flows.test_bijections import shaken
from veilflow.flows import ActNorm, Affine, Chain, Flow, StandardNormal, maf, reverse
from veilflow.nn.tap import is_layer, with_tap, zero_tap


def shaken_maf(dim: int, by: float, **options) -> Flow:
    """A flow with noise on every trained number."""
    with quick.weights():
        return shaken(maf(dim, key=jax.random.key(0), **options), by)


@lru_cache
def curved(dim: int) -> Flow:
    """A flow far from the identity, in units of its own."""
    flow = shaken_maf(dim, 0.2, blocks=3, hidden=(16, 16), actnorm=True)
    return Flow(flow.base, Chain([flow.bijection, Affine(shift=[1.0] * dim, scale=[0.5] * dim)]))


@quick.jit
def log_prob(flow: Flow, rows: jax.Array) -> jax.Array:
    return jax.vmap(flow.log_prob)(rows)


@quick.jit
def sample(flow: Flow, keys: jax.Array) -> jax.Array:
    return jax.vmap(flow.sample)(keys)


@lru_cache
def density_on_grid(dim: int, low: float, high: float, num: int) -> tuple[np.ndarray, np.ndarray]:
    axis = np.linspace(low, high, num, dtype=np.float32)
    points = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), -1).reshape(-1, dim)
    density = np.exp(np.float64(log_prob(curved(dim), points)))
    return axis, density.reshape((num,) * dim)


@pytest.mark.parametrize(("dim", "num"), [(1, 4001), (2, 601)])
def test_the_density_integrates_to_one(dim: int, num: int):
    axis, total = density_on_grid(dim, -14.0, 16.0, num)
    for _ in range(dim):
        total = np.trapezoid(total, axis, axis=-1)
    np.testing.assert_allclose(total, 1, atol=2e-3)


@pytest.mark.parametrize("coordinate", [0, 1])
def test_samples_follow_the_density(coordinate: int):
    axis, density = density_on_grid(2, -14.0, 16.0, 601)
    marginal = np.trapezoid(density, axis, axis=1 - coordinate)
    cdf = np.concatenate([[0], np.cumsum((marginal[1:] + marginal[:-1]) / 2 * np.diff(axis))])
    samples = sample(curved(2), jax.random.split(jax.random.key(11), 5_000))
    test = stats.kstest(np.asarray(samples[:, coordinate]), lambda x: np.interp(x, axis, cdf))
    assert test.pvalue > 1e-4  # false alarms: one seed in 10,000; the seed is fixed


def test_a_sample_carries_the_log_prob_the_flow_gives_it():
    flow = curved(2)
    keys = jax.random.split(jax.random.key(12), 200)
    samples, log_probs = quick.jit(jax.vmap(flow.sample_and_log_prob))(keys)
    np.testing.assert_allclose(log_probs, log_prob(flow, samples), atol=1e-3)
    again = sample(flow, jax.random.split(jax.random.key(12), 200))
    np.testing.assert_allclose(samples, again, rtol=1e-4, atol=1e-4)


def test_the_standard_normal_is_the_one_of_scipy():
    z = np.linspace(-5, 5, 12, dtype=np.float32).reshape(4, 3)
    ours = quick.jit(jax.vmap(StandardNormal(3).log_prob))(z)
    np.testing.assert_allclose(ours, stats.norm.logpdf(z).sum(1), rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 10])
def test_a_fresh_maf_is_close_to_a_standard_normal(dim: int):
    flow = maf(dim, key=jax.random.key(0))
    x = np.random.default_rng(1).normal(size=(50, dim)).astype(np.float32)
    normal = stats.norm.logpdf(x).sum(1)
    np.testing.assert_allclose(log_prob(flow, x), normal, atol=0.05 * dim)


@pytest.mark.parametrize("actnorm", [False, True])
def test_all_of_a_log_density_is_private_with_actnorms_or_without(actnorm: bool):
    flow = shaken_maf(4, 0.2, hidden=(8,), actnorm=actnorm)
    x = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    private = quick.jit(jax.vmap(flow.private_log_prob))(x)
    np.testing.assert_allclose(private, log_prob(flow, x), rtol=1e-6)
    assert flow.public_log_prob() == 0


# what overflows, and what that does to its neighbors, may be the compiler's choice
as_for_users = eqx.filter_jit(lambda flow, rows: log_prob(flow, rows))


@pytest.mark.parametrize("hostile", [1e38, -1e38, np.inf, -np.inf, np.nan, 1e-45])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_hostile_row_raises_nothing_and_leaves_other_rows_alone(hostile: float, activation: str):
    flow = shaken_maf(3, 0.1, hidden=(16, 16), activation=activation)
    good = np.array([[0.5, -1.0, 0.2], [1.0, 2.0, -0.5], [0.0, 0.0, 0.0]], np.float32)
    bad = good.copy()
    bad[1, 1] = hostile
    with_bad, without = (np.asarray(as_for_users(flow, rows)) for rows in (bad, good))
    np.testing.assert_array_equal(with_bad[[0, 2]], without[[0, 2]])
    assert not with_bad[1] > 1e3  # -inf, NaN or an ordinary number, but no infinite density


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_large_noise_on_the_weights_does_not_overflow(activation: str):
    flow = shaken_maf(5, 0.5, activation=activation)
    rows = np.random.default_rng(1).normal(size=(20, 5)).astype(np.float32)

    @eqx.filter_jit
    @eqx.filter_grad(has_aux=True)
    def gradient(flow):
        each = log_prob(flow, rows)
        return jnp.sum(each), each

    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient(flow)))


def num_equations(flow: Flow, method: str, argument) -> int:
    return str(jax.make_jaxpr(getattr(flow, method))(argument)).count(" = ")


@pytest.mark.parametrize(("method", "of_key"), [("log_prob", False), ("sample", True)])
def test_the_program_does_not_grow_with_the_number_of_blocks(method: str, of_key: bool):
    argument = jax.random.key(0) if of_key else jnp.zeros(4)
    with quick.weights():
        short, long = (
            num_equations(maf(4, key=jax.random.key(0), blocks=n), method, argument)
            for n in (5, 20)
        )
    assert short == long > 0


def test_blocks_start_with_weights_of_their_own():
    weight = (
        maf(3, key=jax.random.key(0)).bijection.block.bijections[-1].conditioner.layers[0].weight
    )
    assert weight.shape[0] == 5
    assert np.all(np.std(np.asarray(weight), axis=0)[np.asarray(weight[0]) != 0] > 0)


def test_only_layers_are_trained_whatever_surrounds_them():
    flow = curved(2)
    leaves = jax.tree.leaves(flow, is_leaf=is_layer)
    assert leaves
    assert all(is_layer(leaf) for leaf in leaves)


def on_host(tree) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def test_taps_of_a_large_maf_equal_plain_per_record_gradients():
    with quick.weights():
        flow = maf(10, key=jax.random.key(0), blocks=5, hidden=(256, 256), actnorm=True)
    flow = shaken(flow, 0.01)
    points = np.random.default_rng(1).normal(size=(4, 10)).astype(np.float32)
    layers, structure = jax.tree.flatten(flow, is_leaf=is_layer)
    by_block = eqx.filter_vmap(
        lambda layer, tap: layer.per_record(tap),
        in_axes=(eqx.if_array(0), 1),
        out_axes=eqx.if_array(1),
    )

    @quick.jit
    def through_taps(layers, points):
        def tapped(taps, x):
            laid = [with_tap(layer, tap) for layer, tap in zip(layers, taps, strict=True)]
            return -jax.tree.unflatten(structure, laid).private_log_prob(x)

        taps = [zero_tap(layer) for layer in layers]
        found = jax.vmap(jax.grad(tapped), in_axes=(None, 0))(taps, points)
        return [by_block(layer, tap) for layer, tap in zip(layers, found, strict=True)]

    ours = on_host(through_taps(layers, points))
    plain = jax.grad(lambda flow, x: -flow.private_log_prob(x))
    theirs = on_host(quick.jit(jax.vmap(plain, in_axes=(None, 0)))(flow, points))
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        scale = np.abs(b).max()
        assert scale > 0
        np.testing.assert_allclose(a / scale, b / scale, atol=1e-5)
    # the rest of the gradient of log_prob is the same for every record: it is the public part
    whole = on_host(quick.jit(jax.grad(lambda flow: -flow.log_prob(points[0])))(flow))
    public = on_host(quick.jit(jax.grad(lambda flow: -flow.public_log_prob()))(flow))
    for a, b, c in zip(theirs, public, whole, strict=True):
        np.testing.assert_allclose(a[0] + b, c, atol=1e-4 * np.abs(c).max())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: maf(0, key=jax.random.key(0)), "dim must be at least 1"),
        (lambda: maf(2, key=jax.random.key(0), blocks=0), "blocks must be at least 1"),
        (lambda: maf(2, key=jax.random.key(0), hidden=(0,)), "hidden must be at least 1"),
        (lambda: maf(2, key=jax.random.key(0), activation="sin"), "activation must be one of"),
        (lambda: StandardNormal(0), "dim must be at least 1"),
        (lambda: Flow(StandardNormal(2), reverse(3)), "base has 2 dimensions, bijection 3"),
        (lambda: ActNorm.create(0), "dim must be at least 1"),
    ],
)
def test_a_wrong_argument_is_named(wrong, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()
