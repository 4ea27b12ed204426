"""Every bijection keeps the same contract: a new one is one line in BIJECTIONS and inherits it."""

from collections.abc import Callable
from functools import cache

import equinox as eqx
import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import quick
from tests.flows.registry import BIJECTIONS, RECORD_IN_LOG_DET, block
from veilflow._core.errors import PrivacyError
from veilflow.flows import (
    AbstractBijection,
    ActNorm,
    Affine,
    AffineMap,
    Autoregressive,
    Chain,
    MaskedMLP,
    Permutation,
    Scan,
    reverse,
)
from veilflow.nn.frozen import AbstractFrozen, trainable_part
from veilflow.nn.tap import AbstractLayer, is_layer, with_tap, zero_tap

DIMS = (1, 5)


every = pytest.mark.parametrize("name", BIJECTIONS)
every_dim = pytest.mark.parametrize("dim", DIMS)


def shaken(tree, by: float, seed: int = 7):
    """`tree` with noise on every trained number, so that nothing is at its special first value."""
    noise = np.random.default_rng(seed)
    trained, rest = trainable_part(tree)
    # added by NumPy, which compiles nothing for a new shape
    moved = jax.tree.map(
        lambda a: jnp.asarray(np.asarray(a) + np.asarray(by * noise.normal(size=a.shape), a.dtype)),
        trained,
    )
    return eqx.combine(moved, rest)


# There are more of these than `lru_cache` keeps, and each is a program.
@cache
def made(name: str, dim: int) -> AbstractBijection:
    with quick.weights():
        fresh = BIJECTIONS[name](jax.random.key(7), dim)
    return shaken(fresh, 0.25)


@quick.jit
def both_ways(bijection: AbstractBijection, z: jax.Array) -> tuple:
    """Forward, then inverse, each with its log-det and Jacobian."""

    def forward(z):
        x, log_det = bijection.forward_and_log_det(z)
        return x, (x, log_det)

    def inverse(x):
        z, log_det = bijection.inverse_and_log_det(x)
        return z, (z, log_det)

    forward_jacobian, (x, forward_log_det) = jax.jacfwd(forward, has_aux=True)(z)
    inverse_jacobian, (z_back, inverse_log_det) = jax.jacfwd(inverse, has_aux=True)(x)
    return z_back, forward_log_det, inverse_log_det, forward_jacobian, inverse_jacobian


@cache
def there_and_back(name: str, dim: int) -> Callable[[np.ndarray], tuple]:
    """`both_ways` of a bijection in float64, from z."""
    single = made(name, dim)
    with jax.enable_x64(True):
        bijection = jax.tree.map(lambda a: jnp.asarray(np.float64(a)), single)

    def at(z: np.ndarray) -> tuple:
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, both_ways(bijection, jnp.asarray(z)))

    return at


def close(a, b, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.few(22)
@every
@every_dim
@given(data=st.data())
@settings(max_examples=15)
def test_inverse_undoes_forward_and_log_dets_match_autodiff(name: str, dim: int, data):
    z = data.draw(hnp.arrays(np.float64, dim, elements=st.floats(-4, 4)))
    z_back, forward_log_det, inverse_log_det, *jacobians = there_and_back(name, dim)(z)
    # released arrays are redundant (slopes beside values) and agree to the float32 they are kept in
    exact = 1e-8 if not frozen_arrays(made(name, dim)) else 1e-5
    close(z_back, z, exact)
    close(forward_log_det, np.linalg.slogdet(jacobians[0])[1], exact)
    close(inverse_log_det, np.linalg.slogdet(jacobians[1])[1], exact)
    close(inverse_log_det, -forward_log_det, exact)
    assert forward_log_det.shape == inverse_log_det.shape == ()


def frozen_arrays(bijection: AbstractBijection) -> list:
    return jax.tree.leaves(trainable_part(bijection)[1])


@quick.jit
def of_batch(bijection: AbstractBijection, points: jax.Array) -> dict:
    """All methods on a batch, in the float32 of training, jitted and mapped."""
    return {
        "forward": jax.vmap(bijection.forward_and_log_det)(points),
        "inverse": jax.vmap(bijection.inverse_and_log_det)(points),
        "private": jax.vmap(bijection.inverse_and_private_log_det)(points),
        "public": bijection.public_log_det(),
    }


def batch(dim: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(2).normal(size=(3, dim)), jnp.float32)


@pytest.mark.few(8)
@every
@every_dim
def test_a_jitted_batch_in_float32_holds_what_single_points_give(name: str, dim: int):
    points = batch(dim)
    images, log_dets = of_batch(made(name, dim), points)["forward"]
    assert images.shape == (3, dim)
    assert log_dets.shape == (3,)
    assert images.dtype == log_dets.dtype == jnp.float32
    back, _ = of_batch(made(name, dim), images)["inverse"]
    close(back, points, 1e-3)
    for point, log_det in zip(points, log_dets, strict=True):
        close(log_det, there_and_back(name, dim)(np.float64(point))[1], 1e-3)


@pytest.mark.few(22)
@every
@every_dim
def test_private_and_public_log_det_add_up_to_the_whole(name: str, dim: int):
    seen = of_batch(made(name, dim), batch(dim))
    (z, whole), (same_z, private), public = seen["inverse"], seen["private"], seen["public"]
    assert public.shape == ()
    close(z, same_z, 1e-5)
    close(private + public, whole, 1e-5)
    if not any(isinstance(node, RECORD_IN_LOG_DET) for node in nodes(made(name, dim))):
        # no term looks at the record, so none may be left in the private part
        close(private, np.zeros(3), 1e-6)


def nodes(tree) -> list:
    """All bijections inside a bijection."""
    found = [tree]
    inside = [c for c in vars(tree).values() if isinstance(c, AbstractBijection)]
    inside += getattr(tree, "bijections", ())
    for child in inside:
        found += nodes(child)
    return found


@pytest.mark.few(14)
@every
def test_a_round_trip_through_leaves_gives_the_same_bijection(name: str):
    bijection = made(name, 5)
    leaves, structure = jax.tree.flatten(bijection)
    again = jax.tree.unflatten(structure, [jnp.asarray(np.array(leaf)) for leaf in leaves])
    assert jax.tree.structure(again) == structure
    assert again.dim == 5
    before, after = of_batch(bijection, batch(5)), of_batch(again, batch(5))
    jax.tree.map(np.testing.assert_array_equal, before, after)


@every
def test_every_trained_number_sits_in_a_layer(name: str):
    bijection = made(name, 5)
    trained, rest = trainable_part(bijection)
    loose = [n for n in jax.tree.leaves(trained, is_leaf=is_layer) if not is_layer(n)]
    assert loose == []
    released = [n for n in nodes(bijection) if isinstance(n, AbstractFrozen)]
    assert bool(jax.tree.leaves(rest)) == bool(released)  # nothing else is left out of training


def layers_of(tree) -> list[AbstractLayer]:
    return [n for n in jax.tree.leaves(tree, is_leaf=is_layer) if is_layer(n)]


def per_record(layer: AbstractLayer, tap, depth: int):
    """Each record's gradient, mapped over the axes by which a layer is stacked."""
    if depth == 0:
        return layer.per_record(tap)
    return eqx.filter_vmap(
        lambda layer, tap: per_record(layer, tap, depth - 1),
        in_axes=(eqx.if_array(0), 1),
        out_axes=eqx.if_array(1),
    )(layer, tap)


def gradients_through_taps(model, loss: Callable, points: jax.Array) -> list:
    """For each array of each layer: the gradient of every record, from one pass over the taps."""

    @quick.jit
    def run(model, points: jax.Array) -> list:
        def tapped(taps, x):
            left = iter(taps)
            laid = jax.tree.map(
                lambda node: with_tap(node, next(left)) if is_layer(node) else node,
                model,
                is_leaf=is_layer,
            )
            return loss(laid, x)

        layers = layers_of(model)
        taps = [zero_tap(layer) for layer in layers]
        found = jax.vmap(jax.grad(tapped), in_axes=(None, 0))(taps, points)
        pairs = zip(layers, found, strict=True)
        return [per_record(layer, tap, len(layer.stack)) for layer, tap in pairs]

    return jax.tree.leaves(run(model, points))


def gradients_by_vmap(model, loss: Callable, points: jax.Array) -> list:
    trained, rest = trainable_part(model)
    of_trained = jax.grad(lambda trained, x: loss(eqx.combine(trained, rest), x))
    return jax.tree.leaves(quick.jit(jax.vmap(of_trained, in_axes=(None, 0)))(trained, points))


def assert_same_gradients(ours: list, theirs: list, relative: float) -> None:
    assert [a.shape for a in ours] == [b.shape for b in theirs]
    for a, b in zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True):
        scale = np.abs(b).max() + 1e-6
        np.testing.assert_allclose(a / scale, b / scale, atol=relative)


def of_inverse(bijection: AbstractBijection, x: jax.Array) -> jax.Array:
    z, log_det = bijection.inverse_and_private_log_det(x)
    return 0.5 * jnp.sum(jnp.square(z)) - log_det


@pytest.mark.few(12)
@every
def test_taps_give_each_record_the_gradient_of_the_private_part_or_are_refused(name: str):
    bijection, points = made(name, 5), batch(5)
    if not layers_of(bijection):
        assert not jax.tree.leaves(trainable_part(bijection)[0])
    elif name.startswith("invert"):
        with pytest.raises(PrivacyError, match="data to base"):
            gradients_through_taps(bijection, of_inverse, points)
    else:
        ours = gradients_through_taps(bijection, of_inverse, points)
        assert_same_gradients(ours, gradients_by_vmap(bijection, of_inverse, points), 1e-4)


@pytest.mark.parametrize("dim", [2, 5])
def test_the_jacobian_of_an_autoregressive_map_is_triangular(dim: int):
    bijection = made("autoregressive", dim)
    x = batch(dim)[0]
    jacobian = np.asarray(quick.jit(jax.jacfwd(lambda x: bijection.inverse_and_log_det(x)[0]))(x))
    np.testing.assert_array_equal(np.triu(jacobian, 1), 0)
    assert np.all(np.diag(jacobian) > 0)
    assert np.all(jacobian[np.tril_indices(dim, -1)] != 0)  # and sees all it may see


def test_scan_and_chain_keep_the_same_order():
    blocks = [shaken(block(jax.random.key(6), 3), 0.3, seed) for seed in (1, 2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *blocks)
    chain, scan = Chain(blocks), Scan(stacked, 2)
    z = jnp.array([0.3, -1.0, 2.0])
    ours, theirs = of_batch(scan, z[None]), of_batch(chain, z[None])
    jax.tree.map(lambda a, b: close(a, b, 1e-5), ours, theirs)


def test_bounds_are_reached_from_the_unit_box_and_nothing_of_them_is_trained():
    affine = Affine.from_bounds([0.0, -3e38], [10.0, 3e38])
    low, _ = affine.inverse_and_log_det(jnp.array([0.0, -3e38]))
    high, _ = affine.inverse_and_log_det(jnp.array([10.0, 3e38]))
    close(low, [-1.0, -1.0], 1e-6)
    close(high, [1.0, 1.0], 1e-6)
    assert jax.tree.leaves(affine) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Affine(shift=[0.0], scale=[0.0]), "scale must be positive"),
        (lambda: Affine(shift=[0.0], scale=[1e-42]), "do not fit float32"),
        (lambda: Affine(shift=[1e300], scale=[1.0]), "do not fit float32"),
        (lambda: Affine(shift=[float("nan")], scale=[1.0]), "shift must be a number"),
        (lambda: Affine(shift=[0.0, 1.0], scale=[1.0]), "one number per coordinate"),
        (lambda: Affine(shift=[], scale=[]), "one number per coordinate"),
        (lambda: Affine.from_bounds([1.0], [1.0]), "low must be below high"),
        (lambda: Affine.from_bounds([0.0], [float("inf")]), "high must be finite"),
        (lambda: Affine.from_bounds([0.0, 0.0], [1.0]), "low has 2 bounds"),
        (lambda: Permutation([0, 0]), "each of 0..dim-1 once"),
        (lambda: Permutation([]), "each of 0..dim-1 once"),
        (lambda: reverse(0), "dim must be at least 1"),
        (lambda: Chain([]), "at least one bijection"),
        (lambda: Chain([reverse(2), reverse(3)]), r"\[2, 3\]"),
        (lambda: Scan(ActNorm.create(3), 2), "leading axis of num_blocks=2"),
        (lambda: Scan.create(lambda _: reverse(2), 0, key=jax.random.key(0)), "num_blocks"),
        (
            lambda: Autoregressive(MaskedMLP.create(2, 3, key=jax.random.key(0)), AffineMap()),
            "num_params=2",
        ),
        (
            lambda: AffineMap(log_scale_bound=0.0),
            "log_scale_bound must be positive",
        ),
    ],
)
def test_a_wrong_argument_is_named(wrong: Callable, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()
