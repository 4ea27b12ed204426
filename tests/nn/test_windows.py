"""Kernel gradients of convolutions, sliced side by side or in a loop, against their definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow import nn
from veilflow.nn import windows
from veilflow.nn.tap import Tap
from veilflow.nn.windows import Windows

RECORDS, USES = 3, 2

# channels of the coarse image and of the fine one, sizes of both, and the window
CASES = {
    "published encoder": (4, 2, (3, 3), (6, 6), Windows((3, 3), 2, (1, 1))),
    "odd image": (2, 3, (4, 3), (7, 5), Windows((3, 3), 2, (1, 1))),
    "Gram matrices": (9, 9, (2, 1), (4, 2), Windows((3, 3), 2, (1, 1))),
    "many channels": (2, 45, (3, 2), (5, 4), Windows((3, 3), 1, (0, 0))),
    "image beyond the last window": (2, 2, (2, 2), (7, 8), Windows((2, 3), 3, (0, 1))),
}


def gradient_by_definition(window, coarse, fine):
    (height, width), (top, left) = window.size, window.before
    fine = np.pad(np.float64(fine), [(0, 0)] * 3 + [(top, 8), (left, 8)])
    total = np.zeros((RECORDS, coarse.shape[2], fine.shape[2], height, width))
    for u, i, j in np.ndindex(USES, *coarse.shape[3:]):
        y, x = i * window.stride, j * window.stride
        seen = fine[:, u, :, y : y + height, x : x + width]
        total += np.einsum("rm,rnkl->rmnkl", np.float64(coarse[:, u, :, i, j]), seen)
    return total


@pytest.mark.few(4)
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_norms_sums_and_gradients_equal_their_definition(name, loop, monkeypatch):
    m, n, coarse_size, fine_size, window = CASES[name]
    monkeypatch.setattr(windows, "_LARGE", 0 if loop else 10**9)
    random = np.random.default_rng(0)
    coarse = random.normal(size=(RECORDS, USES, m, *coarse_size)).astype(np.float32)
    fine = random.normal(size=(RECORDS, USES, n, *fine_size)).astype(np.float32)

    @jax.jit
    def ask(coarse, fine):
        methods = (window.per_record, window.weighted_sum, window.squared_norm)
        return [method(coarse, fine) for method in methods]

    assert (" scan[" in str(jax.make_jaxpr(ask)(coarse, fine))) == loop
    truth = gradient_by_definition(window, coarse, fine)
    ours, summed, squared = ask(coarse, fine)
    np.testing.assert_allclose(ours, truth, atol=1e-5)
    np.testing.assert_allclose(summed, truth.sum(0), atol=1e-5)
    np.testing.assert_allclose(squared, np.square(truth).reshape(RECORDS, -1).sum(1), rtol=5e-5)


def test_windows_of_a_large_image_are_never_all_there_at_once():
    """They would be nine times the image: 36 MiB a record here."""
    layer = nn.Conv2d.create(16, 8, 3, image_size=(256, 256), key=jax.random.key(0), bias=False)
    taps = [jax.ShapeDtypeStruct((2, *shape), jnp.float32) for shape in layer.tap_shapes()]
    image = taps[0].size * 4
    factors = jax.ShapeDtypeStruct((2,), jnp.float32)
    norms = jax.jit(lambda a, d: layer.squared_norm(Tap(a, d))).lower(*taps)
    sums = jax.jit(lambda a, d, c: layer.weighted_sum(Tap(a, d), c).weight).lower(*taps, factors)
    for lowered in (norms, sums):
        assert lowered.compile().memory_analysis().temp_size_in_bytes < 5 * image


@pytest.mark.parametrize("size", [28, 33])
def test_the_published_encoders_convolution_equals_vmapped_gradients(size):
    """3 x 3, stride 2, padding 1, no bias; an odd size is rounded up."""
    layer = nn.Conv2d.create(
        1, 4, 3, image_size=(size, size), key=jax.random.key(1), stride=2,
        padding=((1, 1), (1, 1)), bias=False,
    )  # fmt: skip
    random = np.random.default_rng(1)
    shapes = layer.tap_shapes()
    assert shapes[1] == (4, (size + 1) // 2, (size + 1) // 2)
    a, d = (random.normal(size=(RECORDS, *shape)).astype(np.float32) for shape in shapes)

    @jax.jit
    def ask(a, d):
        def pulled_back(a, d):
            pads = ((1, 1), (1, 1))
            convolve = lambda w: jax.lax.conv_general_dilated(a[None], w, (2, 2), pads)[0]  # noqa: E731
            return jax.vjp(convolve, layer.weight)[1](d)[0]

        tap = Tap(a, d)
        return jax.vmap(pulled_back)(a, d), layer.squared_norm(tap), layer.per_record(tap).weight

    plain, squared, ours = ask(a, d)
    np.testing.assert_allclose(ours, plain, atol=1e-4)
    truth = np.square(np.float64(plain)).reshape(RECORDS, -1).sum(1)
    np.testing.assert_allclose(squared, truth, rtol=1e-4)
    assert np.all(squared > truth * (1 - 1e-6))
