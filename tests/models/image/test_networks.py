"""The published networks: their sizes, their parameters, and what a private step sees of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engine.hostile import norm
from veilflow import engine
from veilflow.engine.observed import (
    clipped_total,
    loose_size,
    measured,
    num_parameters,
    observe_gradients,
)
from veilflow.models.image.architecture import PRESETS, ImageArchitecture
from veilflow.models.image.networks import Decoder, Encoder, latent_flow

SMALL = ImageArchitecture(size=(8, 7), channels=(3, 4), latent=5, blocks=3, hidden=(6, 6), colors=1)


def shapes_of(architecture, **options):
    """The networks without their numbers: those of the largest would take seconds to draw."""
    return eqx.filter_eval_shape(architecture.build, key=jax.random.key(0), **options)


def parameters_that_no_code_reaches(architecture):
    """Of the published flow, whose networks have inputs and outputs for masked coordinates, too."""
    half, first, last = architecture.latent // 2, architecture.hidden[0], architecture.hidden[-1]
    return architecture.blocks * (half * first + 2 * half * (last + 1))


@pytest.mark.parametrize(
    ("name", "autoencoder", "flow"),
    [
        ("28x28x1", 166_069, 471_960),
        ("32x32x3", 1_007_203, 536_976),  # published: 1.54 million together
        ("256x256x3", 4_200_851, 1_383_936),  # 5.58 million
    ],
)
def test_presets_have_as_many_parameters_as_published(name, autoencoder, flow):
    encoder, decoder, ours = shapes_of(PRESETS[name])
    assert num_parameters((encoder, decoder)) == autoencoder
    assert num_parameters(ours) + parameters_that_no_code_reaches(PRESETS[name]) == flow


@pytest.mark.parametrize("name", PRESETS)
def test_a_presets_networks_fit_images_of_its_name(name):
    encoder, decoder, flow = shapes_of(PRESETS[name])
    height, width, colors = (int(part) for part in name.split("x"))
    image = jax.ShapeDtypeStruct((colors, height, width), jnp.float32)
    code = eqx.filter_eval_shape(encoder, image)
    assert code.shape == (flow.dim,)
    assert eqx.filter_eval_shape(decoder, code) == image


@pytest.mark.parametrize("size", [(8, 8), (29, 30), (7, 1), (33, 17)])
def test_a_decoder_gives_back_the_size_that_the_encoder_took(size):
    architecture = ImageArchitecture(size=size, colors=2, channels=(3, 4, 5), latent=6)
    encoder, decoder, _ = shapes_of(architecture)
    image = jax.ShapeDtypeStruct((2, *size), jnp.float32)
    assert eqx.filter_eval_shape(decoder, eqx.filter_eval_shape(encoder, image)) == image


@pytest.mark.parametrize("scalar_map", ["affine", "spline"])
def test_every_parameter_sits_in_a_layer_and_only_those_published_have_a_bias(scalar_map):
    networks = shapes_of(ImageArchitecture(size=(8, 8), scalar_map=scalar_map))
    assert loose_size(networks) == 0
    encoder, decoder, _ = networks
    assert all(layer.bias is None for layer in encoder.convolutions)
    assert all(layer.bias is not None for layer in (*decoder.convolutions, decoder.start))


@pytest.mark.slow
def test_gray_images_go_through_relu_and_colors_through_leaky_relu():
    sizes = {"size": (4, 4), "channels": (3,), "latent": 2, "blocks": 1, "hidden": (4,)}
    for colors in (1, 3):
        architecture = ImageArchitecture(colors=colors, **sizes)
        encoder, decoder, _ = architecture.build(key=jax.random.key(0))
        # all of the kernel negative: behind a ReLU nothing is left of a white image
        encoder = eqx.tree_at(lambda e: e.convolutions[0].weight, encoder, replace_fn=_negative)
        white = jnp.ones((colors, 4, 4))
        assert np.any(encoder(white) != 0) == (colors == 3)
        # nothing after the last layer: outputs of both signs
        output = decoder(jnp.array([1.0, -2.0]))
        assert output.min() < 0 < output.max()


def _negative(weight):
    return -jnp.abs(weight)


def loss_fn(networks, image, key):
    encoder, decoder, flow = networks
    code = encoder(image)
    error = jnp.sum(jnp.square(jax.nn.sigmoid(decoder(code)) - image))
    return 100 * error - flow.private_log_prob(code)


def test_gradients_of_single_images_equal_vmapped_ones():
    networks = SMALL.build(key=jax.random.key(1))
    images = jax.random.uniform(jax.random.key(2), (4, 1, 8, 7))
    arrays, rest = eqx.partition(networks, eqx.is_inexact_array)

    @jax.jit
    def both(arrays, images):
        networks = eqx.combine(arrays, rest)
        captured = observe_gradients(
            loss_fn, networks, images, jnp.ones(4, bool), jax.random.key(0)
        )
        observed = measured(captured)
        gradient = jax.grad(lambda a, image: loss_fn(eqx.combine(a, rest), image, None))
        plain = jax.vmap(gradient, in_axes=(None, 0))(arrays, images)
        factor = jnp.linspace(0.2, 1.0, 4)
        sums = jax.tree.map(lambda g: jnp.tensordot(factor, g, axes=1), plain)
        ours = observed.weighted_sum(observed.everywhere(factor))
        return observed.squared_norm(), plain, ours, sums

    squared, plain, ours, sums = both(arrays, images)
    leaves = [np.float64(leaf).reshape(4, -1) for leaf in jax.tree.leaves(plain)]
    ratio = np.float64(squared) / sum(np.square(g).sum(1) for g in leaves)
    # where the places of a window cancel, what rounding may have taken is added
    assert np.all((ratio > 1 - 1e-6) & (ratio < 1 + 1e-4))
    for one, two in zip(jax.tree.leaves(ours), jax.tree.leaves(sums), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5 * np.abs(two).max())


def test_all_networks_together_stay_within_one_bound():
    networks = SMALL.build(key=jax.random.key(1))
    clippings = {"flat": engine.Flat(0.1), "per layer": engine.PerLayer(0.1)}

    @jax.jit
    def clip(images, keep):
        loss_key, clip_key = jax.random.split(jax.random.key(0))
        captured = observe_gradients(loss_fn, networks, images, keep, loss_key)
        return {
            name: clipped_total(
                lambda o, k, c=clipping: c.clip(o, (), k), captured, jax.random.clone(clip_key)
            )
            for name, clipping in clippings.items()
        }

    images = np.random.default_rng(3).uniform(size=(4, 1, 8, 7)).astype(np.float32)
    for size in (0.0, 1.0, 1e6, 1e18, 1e-40, np.inf):
        with np.errstate(invalid="ignore"):
            shares = clip(images * np.float32(size), jnp.arange(4) == 2)
        for share in shares.values():
            assert norm(share) <= 0.1
            assert size != 1.0 or norm(share) > 0.05


@pytest.mark.few(2)
@pytest.mark.parametrize("scalar_map", ["affine", "spline"])
@pytest.mark.parametrize("dim", [1, 6, 7])
def test_codes_come_back_from_the_flow(dim, scalar_map):
    flow = latent_flow(dim, key=jax.random.key(4), blocks=3, hidden=(8, 8), scalar_map=scalar_map)
    flow = _shaken(flow)
    z = jax.random.normal(jax.random.key(5), (dim,))

    @jax.jit
    def there_and_back(z):
        x, log_det = flow.bijection.forward_and_log_det(z)
        again, inverse_log_det = flow.bijection.inverse_and_log_det(x)
        return again, log_det + inverse_log_det

    again, none = there_and_back(z)
    np.testing.assert_allclose(again, z, atol=1e-3)
    np.testing.assert_allclose(none, 0, atol=1e-3)


def _shaken(flow):
    noise = np.random.default_rng(6)
    moved = lambda x: x + (0.3 * noise.normal(size=x.shape)).astype(np.float32)  # noqa: E731
    return jax.tree.map(lambda x: moved(x) if eqx.is_inexact_array(x) else x, flow)


@pytest.mark.few(1)
@pytest.mark.parametrize("dim", [2, 5, 20])
def test_two_blocks_move_all_coordinates_but_one_and_nine_mix_all_of_them(dim):
    def depends(blocks):
        flow = _shaken(latent_flow(dim, key=jax.random.key(7), blocks=blocks, hidden=(8,)))
        x = jax.random.normal(jax.random.key(8), (dim,))
        return np.asarray(jax.jacfwd(lambda x: flow.bijection.inverse_and_log_det(x)[0])(x)) != 0

    # what is only passed on depends on one coordinate
    assert np.sum(depends(2).sum(1) == 1) <= 1
    assert np.all(depends(9))


def test_no_code_stretches_the_density_without_bound():
    flow = _shaken(latent_flow(6, key=jax.random.key(9), blocks=4, hidden=(8, 8)))
    for size in (1.0, 1e6, 1e30):
        z, log_det = flow.bijection.inverse_and_log_det(jnp.full(6, size))
        # each block maps three coordinates, each by at most e
        assert abs(log_det) <= 4 * 3 * (1 + 1e-5)
        assert size > 1e6 or np.all(np.isfinite(z))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ImageArchitecture(size=(0, 8)), "size must be at least 1"),
        (lambda: ImageArchitecture(size=(8, 8), latent=0), "latent must be at least 1"),
        (lambda: ImageArchitecture(size=(8, 8), scalar_map="cubic"), "scalar_map must be one of"),
        (lambda: _network(Encoder, channels=()), "channels must name at least one"),
        (lambda: _network(Decoder, channels=(3, 0)), "channels must be at least 1"),
        (lambda: _network(Decoder, activation="tanh"), "activation must be one of"),
    ],
)
def test_a_wrong_setting_is_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


def _network(kind, *, channels=(3,), activation="relu"):
    return kind.create(
        size=(8, 8),
        colors=1,
        channels=channels,
        latent=2,
        activation=activation,
        key=jax.random.key(0),
    )


@pytest.mark.parametrize(
    ("told", "moved"),
    [("every", (True, True)), ("first", (True, False)), ("last", (False, True)),
     ("ends", (True, True)), ("none", (False, False))],
)  # fmt: skip
def test_only_the_named_blocks_of_a_flow_see_its_condition(told, moved):
    flow = latent_flow(4, key=jax.random.key(0), blocks=3, hidden=(), condition_dim=2, told=told)
    flow = jax.tree.map(lambda x: x + 0.1, flow)
    one, other = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
    code = jnp.array([0.3, -0.2, 0.5, 0.1])
    chain = flow.bijection.bijections if told != "every" else (flow.bijection,) * 2

    def differ(bijection):
        (a, _), (b, _) = (bijection.inverse_and_log_det(code, c) for c in (one, other))
        return bool(jnp.any(a != b))

    assert (differ(chain[-1]), differ(chain[0])) == moved
    assert bool(flow.log_prob(code, one) != flow.log_prob(code, other)) == any(moved)
    back, _ = flow.bijection.forward_and_log_det(
        flow.bijection.inverse_and_log_det(code, one)[0], one
    )
    np.testing.assert_allclose(back, code, atol=1e-5)
