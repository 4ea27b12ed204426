"""Transposed convolutions: PyTorch's geometry, and gradients of single records."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engine.hostile import norm, subtract
from veilflow import engine, nn
from veilflow.engine.observed import clipped_total, measured, observe_gradients

RECORDS = 5


def transposed(key, in_channels=2, out_channels=3, kernel=3, *, size=(4, 5), **options):
    return nn.ConvTranspose2d.create(
        in_channels, out_channels, kernel, image_size=size, key=key, **options
    )


DOUBLED = {"stride": 2, "padding": 1, "output_padding": 1}
LAYERS = {
    "doubled": lambda key: transposed(key, **DOUBLED),
    "doubled, through Gram matrices": lambda key: transposed(key, 8, 8, size=(2, 2), **DOUBLED),
    "doubled less one, no bias": lambda key: transposed(key, stride=2, padding=1, bias=False),
    "doubled in width": lambda key: transposed(key, stride=2, padding=1, output_padding=(0, 1)),
    "stride 1": lambda key: transposed(key),
    "cropped to less than the input": lambda key: transposed(key, padding=2),
    "even kernel": lambda key: transposed(key, 1, 4, 4, stride=2, padding=1),
    "gaps, no bias": lambda key: transposed(key, 2, 1, 2, stride=3, output_padding=2, bias=False),
    "one pixel": lambda key: transposed(key, 6, 1, size=(1, 1), stride=2),
    "many channels": lambda key: transposed(key, 3, 50, size=(3, 3), **DOUBLED),
}


class Recurrent(eqx.Module):
    """One layer used three times in a row by each record."""

    reused: nn.Reused

    def __call__(self, x):
        return self.reused.scan(lambda layer, x, _: (jnp.tanh(layer(x)), None), x)[0]


class Stacked(eqx.Module):
    """Three layers with parameters of their own, scanned."""

    layer: nn.ConvTranspose2d

    def __call__(self, x):
        arrays, rest = eqx.partition(self.layer, eqx.is_array)
        step = lambda x, part: (jnp.tanh(eqx.combine(part, rest)(x)), None)  # noqa: E731
        return jax.lax.scan(step, x, arrays)[0]


def _same_size(key, **options):
    return transposed(key, 2, 2, size=(4, 5), padding=1, **options)


def _stacked(key):
    made = [_same_size(k) for k in jax.random.split(key, 3)]
    return Stacked(jax.tree.map(lambda *leaves: jnp.stack(leaves), *made))


MODELS = LAYERS | {
    "reused": lambda key: Recurrent(nn.Reused(_same_size(key), uses=3)),
    "reused, through Gram matrices": lambda key: Recurrent(
        nn.Reused(transposed(key, 16, 16, size=(2, 2), padding=1, bias=False), uses=2)
    ),
    "stacked": _stacked,
}


def layer_of(model):
    leaves = jax.tree.leaves(model, is_leaf=lambda n: isinstance(n, nn.ConvTranspose2d))
    return leaves[0]


@lru_cache
def make(name):
    model = MODELS[name](jax.random.key(1))
    # biases start at zero, where mistakes hide
    moved = np.random.default_rng(2)
    model = jax.tree.map(lambda x: x + 0.3 * moved.normal(size=x.shape).astype(np.float32), model)
    shape = layer_of(model).tap_shapes()[0]
    return model, jax.random.normal(jax.random.key(3), (RECORDS, *shape))


def loss_fn(model, image, key):
    output = model(image).ravel()
    return jnp.sum(jnp.sin(output) * jnp.linspace(0.5, 2.0, output.size))


@lru_cache
def answers(name):
    """What a layer says of its gradients, and the gradients; in one program, which compiles once."""
    model, images = make(name)

    @jax.jit
    def ask(images, factors):
        keep = jnp.ones(RECORDS, bool)
        observed = measured(observe_gradients(loss_fn, model, images, keep, jax.random.key(0)))
        ((l1, l2),) = observed.unit_norms()
        return {
            "gradients": jax.vmap(lambda image: jax.grad(loss_fn)(model, image, None))(images),
            "squared norm": observed.squared_norm(),
            "weighted sum": observed.weighted_sum(observed.everywhere(jnp.mean(factors, 1))),
            "per record": observed.per_record(),
            "unit norms": (l1, l2),
            "sum by unit": observed.weighted_sum(
                (jnp.broadcast_to(factors[:, : l1.shape[-1]], l1.shape),)
            ),
        }

    factors = jax.random.uniform(jax.random.key(4), (RECORDS, 64))
    return ask(images, factors), np.float64(factors)


def close(ours, theirs, rtol=1e-5):
    theirs = np.asarray(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


def by_definition(layer, image):
    """Every input pixel adds its multiple of the kernel to the output."""
    weight, image = np.float64(layer.weight), np.float64(image)
    kernel, stride, padding = weight.shape[-1], layer.stride, layer.padding
    more = [
        (n - 1) * stride + kernel + p
        for n, p in zip(image.shape[1:], layer.output_padding, strict=True)
    ]
    output = np.zeros((weight.shape[0], *more))
    for i, j in np.ndindex(*image.shape[1:]):
        window = np.s_[:, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
        output[window] += np.einsum("oikl,i->okl", weight, image[:, i, j])
    output = output[:, padding : more[0] - padding, padding : more[1] - padding]
    return output if layer.bias is None else output + np.float64(layer.bias)[:, None, None]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LAYERS)
def test_the_output_is_what_the_definition_says(name):
    layer, images = make(name)
    output = jax.jit(lambda image: layer(image))(images[0])
    assert output.shape == layer.tap_shapes()[1]
    close(output, by_definition(layer, images[0]))


@pytest.mark.parametrize("name", LAYERS)
def test_the_output_is_pytorchs(name):
    torch = pytest.importorskip("torch", reason="needs the extra [peers]")
    layer, images = make(name)
    out_channels, in_channels, kernel, _ = layer.weight.shape
    theirs = torch.nn.ConvTranspose2d(
        in_channels,
        out_channels,
        kernel,
        stride=layer.stride,
        padding=layer.padding,
        output_padding=layer.output_padding,
        bias=layer.bias is not None,
    )
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(np.asarray(layer.weight).swapaxes(0, 1).copy()))
        if layer.bias is not None:
            theirs.bias.copy_(torch.tensor(np.asarray(layer.bias)))
        output = theirs(torch.tensor(np.asarray(images))).numpy()
    close(jax.jit(jax.vmap(lambda image: layer(image)))(images), output)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", MODELS)
def test_norms_and_weighted_sums_equal_those_of_vmapped_gradients(name):
    told, factors = answers(name)
    leaves = [np.float64(leaf) for leaf in jax.tree.leaves(told["gradients"])]
    close(told["squared norm"], sum(np.square(g).reshape(RECORDS, -1).sum(1) for g in leaves))
    for ours, g in zip(jax.tree.leaves(told["weighted sum"]), leaves, strict=True):
        close(ours, np.tensordot(factors.mean(1), g, axes=1))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_themselves_and_their_units_equal_vmapped_ones(name):
    told, factors = answers(name)
    stack = len(layer_of(make(name)[0]).stack)
    leaves = [np.moveaxis(np.float64(g), 0, stack) for g in jax.tree.leaves(told["gradients"])]
    for ours, theirs in zip(jax.tree.leaves(told["per record"]), leaves, strict=True):
        close(ours, theirs)
    l1, l2 = told["unit norms"]
    by_unit = [g.reshape(*g.shape[: stack + 2], -1) for g in leaves]
    close(l1, sum(np.abs(g).sum(-1) for g in by_unit))
    close(l2, sum(np.square(g).sum(-1) for g in by_unit))
    for ours, g in zip(jax.tree.leaves(told["sum by unit"]), leaves, strict=True):
        wide = factors[:, : l1.shape[-1]].reshape(RECORDS, -1, *(1,) * (g.ndim - stack - 2))
        close(ours, np.sum(g * wide, axis=stack))


CLIPPINGS = {
    "flat": engine.Flat(0.3),
    "flat, tiny": engine.Flat(1e-6),
    "automatic": engine.Automatic(0.3),
    "per layer": engine.PerLayer(0.3),
    "per unit": engine.PerUnit(0.3),
    "sparsified": engine.Sparsified(0.3, sparsity=0.5),
    "adaptive quantile": engine.AdaptiveQuantile(initial=0.3),
}


class There(eqx.Module):
    """Down with a strided convolution, and up again: what an autoencoder does."""

    down: nn.Conv2d
    up: nn.ConvTranspose2d

    def __call__(self, x):
        return self.up(jax.nn.relu(self.down(x)))


def autoencoder():
    down_key, up_key = jax.random.split(jax.random.key(5))
    down = nn.Conv2d.create(
        1, 4, 3, image_size=(6, 6), stride=2, padding=((1, 1), (1, 1)), bias=False, key=down_key
    )
    return There(down, transposed(up_key, 4, 1, size=(3, 3), **DOUBLED))


def error(model, image, key):
    return jnp.sum(jnp.square(model(image) - image))


def clipper(model, loss_fn, clippings):
    """What sums all clippings make of the kept images."""

    @jax.jit
    def clip(images, keep):
        loss_key, clip_key = jax.random.split(jax.random.key(0))
        captured = observe_gradients(loss_fn, model, images, keep, loss_key)
        return {
            name: clipped_total(
                lambda o, k, c=clipping: c.clip(o, c.init(), k),
                captured,
                jax.random.clone(clip_key),
            )
            for name, clipping in clippings.items()
        }

    return clip


def hostile_images():
    noise = np.random.default_rng(6).normal(size=(6, 1, 6, 6)).astype(np.float32)
    spike = np.zeros_like(noise)
    spike[:, :, 2, 3] = 1.0
    sizes = [1.0, 1e3, 1e9, 1e18, 1e19, 3e38, 1e-18, 1e-30, 1e-38, 1e-45, np.nan, np.inf]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        yield np.zeros_like(noise)
        for size in sizes:
            yield noise * np.float32(size)
            yield spike * np.float32(size)
            yield noise + spike * np.float32(size)


def test_no_image_moves_a_clipped_sum_further_than_promised():
    clip = clipper(autoencoder(), error, CLIPPINGS)
    longest = dict.fromkeys(CLIPPINGS, 0.0)
    for images in hostile_images():
        for name, share in clip(images, jnp.arange(6) == 1).items():
            assert norm(share) <= CLIPPINGS[name].sensitivity
            longest[name] = max(longest[name], norm(share))
    # and something is left of them
    assert all(longest[name] > 0.5 * CLIPPINGS[name].sensitivity for name in longest)


@pytest.mark.parametrize("channels", [1, 32])  # through the gradient itself, through Gram matrices
def test_large_images_beside_tiny_cotangents_stay_within_the_bound(channels, key):
    """A cotangent of 1e-19 beside a pixel of 1e18 is a gradient of length 0.1, not 0."""
    layer = transposed(key, channels, channels, size=(3, 3), **DOUBLED)
    clippings = {name: CLIPPINGS[name] for name in ("flat", "per unit", "sparsified")}
    clip = clipper(layer, lambda m, x, k: 1e-19 * jnp.sum(m(x)), clippings)
    for size in (1e10, 1e17, 1e18, 1e19):
        for name, share in clip(jnp.full((1, channels, 3, 3), size), jnp.ones(1, bool)).items():
            assert norm(share) <= clippings[name].sensitivity


@pytest.mark.parametrize("channels", [1, 32])
def test_places_that_cancel_stay_within_the_bound(channels, key):
    """Over a constant image a cotangent like a chess board leaves only rounding of the gradient."""
    layer_key, image_key = jax.random.split(key)
    layer = transposed(layer_key, channels, channels, size=(4, 4), padding=1)
    board = 1e5 * (-1.0) ** jnp.add(*jnp.indices((4, 4)))
    clippings = {name: CLIPPINGS[name] for name in ("flat, tiny", "per unit", "sparsified")}
    clip = clipper(layer, lambda m, x, k: jnp.sum(m(x) * board[None]), clippings)
    noise = jax.random.uniform(image_key, (8, 1, channels, 4, 4))
    for images in 1 + 1e-6 * noise:
        for name, share in clip(images, jnp.ones(1, bool)).items():
            assert norm(share) <= clippings[name].sensitivity


def test_clipped_sums_equal_those_of_vmapped_gradients():
    model = autoencoder()
    images = jax.random.normal(jax.random.key(8), (6, 1, 6, 6))
    plain = jax.vmap(lambda image: jax.grad(error)(model, image, None))(images)
    leaves = [np.float64(leaf).reshape(6, -1) for leaf in jax.tree.leaves(plain)]
    factor = np.minimum(1, 0.3 / np.sqrt(sum(np.square(g).sum(1) for g in leaves)))
    assert factor.max() < 1
    theirs = jax.tree.map(lambda g: np.tensordot(factor, np.float64(g), axes=1), plain)
    ours = clipper(model, error, {"flat": engine.Flat(0.3)})(images, jnp.ones(6, bool))["flat"]
    assert norm(subtract(ours, theirs)) <= 1e-5 * norm(theirs)


def test_an_image_does_not_see_its_neighbors():
    model, images = autoencoder(), jax.random.normal(jax.random.key(9), (6, 1, 6, 6))

    @jax.jit
    def observe(images):
        captured = observe_gradients(error, model, images, jnp.ones(6, bool), jax.random.key(0))
        return jax.tree.leaves(measured(captured).per_record())

    for one, two in zip(observe(images), observe(images.at[0].set(1e6)), strict=True):
        np.testing.assert_array_equal(one[1:], two[1:])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"output_padding": 1}, "output_padding must be below stride=1, got 1"),
        ({"stride": 2, "output_padding": (0, -1)}, "output_padding must be at least 0"),
        ({"padding": 4}, "padding=4 leaves an output"),
        ({"padding": -1}, "padding must be at least 0"),
        ({"stride": 0}, "stride must be at least 1"),
        ({"out_channels": 0}, "out_channels must be at least 1"),
    ],
)
def test_a_wrong_setting_is_named(wrong, message, key):
    with pytest.raises(ValueError, match=message):
        transposed(key, **wrong)
