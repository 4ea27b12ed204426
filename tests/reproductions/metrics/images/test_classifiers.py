"""The paper's three classifiers: what they are, that they learn, and what they refuse."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reproductions.metrics.images.networks import CNN, MLP
from reproductions.metrics.images.pixels import pixels
from reproductions.metrics.images.training import Recipe, accuracies

from reproductions.metrics.images import compare_image_classifiers, networks, training
from tests.reproductions.metrics.images.pictures import digits, stripes

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


def compare(train, test, num_classes=2, seed=0, **options):
    return compare_image_classifiers(*train, *test, num_classes, seed, **options)


def test_all_three_learn_digits():
    images, labels = digits()
    train, test = (images[:1400], labels[:1400]), (images[1400:], labels[1400:])
    found = compare(train, test, 10, epochs={"CNN": 40})
    assert found.accuracies.keys() == {"LR", "MLP", "CNN"}
    assert min(found.accuracies.values()) > 0.85
    assert (found.num_train, found.num_test) == (1400, 397)
    assert json.loads(json.dumps(found.to_json()))["accuracies"] == found.accuracies


def test_eight_bits_are_256_levels_of_a_float():
    images = np.arange(256).astype(np.uint8).reshape(4, 1, 8, 8)
    whole, parts = pixels(whole=images, parts=images / 255)
    assert whole == pytest.approx(parts)
    assert (whole.dtype, whole.max()) == (np.float32, 1)


def arrays(num_images):
    images, labels = stripes(num_images)
    return jnp.asarray(images, jnp.float32), jnp.asarray(labels, jnp.int32)


def train(seed, images, labels):
    start_key, train_key = jax.random.split(jax.random.key(seed))
    start = MLP.init((1, 8, 8), 2, start_key)
    return training._train(Recipe(MLP, 0.01, 1), start, images, labels, train_key)


def test_a_seed_gives_the_same_run_again_and_another_seed_another():
    # counts of right answers rarely tell runs apart, so the weights are compared
    data = arrays(60)
    first, again, other = (train(seed, *data)["out"] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_the_networks_are_those_of_the_paper(key):
    mlp, cnn = (jax.eval_shape(partial(n.init, (1, 28, 28), 10), key) for n in (MLP, CNN))
    sizes = [sum(w.size for w in weights.values()) for weights in (mlp, cnn)]
    convolutions = 32 * 9 + 32 + 64 * 32 * 9 + 64
    assert sizes == [784 * 100 + 100 + 100 * 10 + 10, convolutions + 64 * 7 * 7 * 10 + 10]
    assert cnn["conv1"].shape == (9 * 32, 64)


@pytest.mark.parametrize("size", [(6, 6), (7, 4), (1, 3)])
def test_the_convolution_is_that_of_jax(key, size):
    first, second = jax.random.split(key)
    images = jax.random.normal(first, (2, *size, 3))
    kernel = jax.random.normal(second, (27, 5))
    expected = jax.lax.conv_general_dilated(
        images,
        kernel.reshape(3, 3, 3, 5),
        window_strides=(2, 2),
        padding=((1, 1), (1, 1)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    found = networks._strided_conv(images, kernel)
    assert np.asarray(found) == pytest.approx(np.asarray(expected), abs=1e-4)


def test_nothing_is_dropped_in_tests(key):
    init_key, image_key, drop_key = jax.random.split(key, 3)
    weights = CNN.init((1, 6, 6), 3, init_key)
    images = jax.random.uniform(image_key, (2, 1, 6, 6))
    logits = jax.jit(CNN.logits)
    first, _ = logits(weights, images, None)
    again, _ = logits(weights, images[::-1], None)[::-1]
    assert np.asarray(first) == pytest.approx(np.asarray(again), abs=1e-5)
    dropped, _ = logits(weights, images, drop_key)
    assert (np.abs(dropped - first) > 1e-3).any()


def test_dropout_keeps_half_and_doubles_it(key):
    found = np.asarray(networks._dropout(np.ones((100, 100), np.float32), key))
    assert set(np.unique(found)) == {0.0, 2.0}
    assert found.mean() == pytest.approx(1, abs=0.05)


def test_a_batch_that_is_not_full_counts_its_own_images_only(monkeypatch):
    """Images that fill a batch must not be learned: the result is that of batches cut to size."""
    monkeypatch.setattr(training, "_BATCH_SIZE", 4)
    data = arrays(7)
    found, expected = train(3, *data), _two_steps(3, *data)
    for name, value in expected.items():
        assert np.asarray(found[name]) == pytest.approx(np.asarray(value), abs=1e-6)


def _two_steps(seed, images, labels):
    """Adam with decay over batches of 4 and 3, spelled out."""
    start_key, train_key = jax.random.split(jax.random.key(seed))
    weights = MLP.init((1, 8, 8), 2, start_key)
    epoch_key = jax.random.split(train_key, 1)[0]
    order = jax.random.permutation(jax.random.split(epoch_key)[0], 7)
    first = {name: np.zeros(value.shape) for name, value in weights.items()}
    second = dict(first)

    def loss(weights, rows):
        scores = jax.nn.log_softmax(MLP.logits(weights, images[rows], None))
        return -scores[np.arange(len(rows)), labels[rows]].mean()

    for step, rows in enumerate([order[:4], order[4:]], 1):
        for name, slope in jax.grad(loss)(weights, rows).items():
            slope = slope + 1e-6 * weights[name]
            first[name] = 0.9 * first[name] + 0.1 * slope
            second[name] = 0.999 * second[name] + 0.001 * slope**2
            scale = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
            weights = weights | {name: weights[name] - 0.01 * first[name] / (1 - 0.9**step) / scale}
    return weights


def test_the_last_test_batch_counts_its_own_images_only(monkeypatch):
    images, labels = stripes(50, noise=0.05)
    images = images.astype(np.float32)
    labels = labels.astype(np.int32)
    monkeypatch.setattr(training, "_TEST_BATCH_SIZE", 16)
    data = (images, labels)
    assert accuracies(Recipe(MLP, 0.01, 20), data, data, 2, seeds=[0]) == [1.0]
    wrong = (images, 1 - labels)
    assert accuracies(Recipe(MLP, 0.01, 20), data, wrong, 2, seeds=[0]) == [0.0]


def test_a_class_without_training_images_is_wrong_and_no_error():
    images, labels = stripes(100, noise=0.05)
    found = compare((images, labels), (images, np.full(100, 2)), 3, classifiers=["LR", "MLP"])
    assert set(found.accuracies.values()) == {0.0}


IMAGES, LABELS = stripes(12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_images": IMAGES[:, 0]}, r"train_images must have shape .* got \(12, 8, 8\)"),
        ({"test_images": IMAGES[..., :7]}, "the same .channels, height, width."),
        ({"train_images": IMAGES * 2}, r"pixels in \[0, 1\]"),
        ({"train_images": np.full_like(IMAGES, np.nan)}, r"pixels in \[0, 1\]"),
        ({"train_images": IMAGES.astype(np.int64)}, "8-bit or floating-point"),
        ({"test_images": IMAGES[:0], "test_labels": LABELS[:0]}, "at least 1 images"),
        ({"train_labels": LABELS[:5]}, "12 whole numbers"),
        ({"test_labels": LABELS / 2}, "12 whole numbers"),
        ({"test_labels": LABELS + 1}, r"test_labels must lie in 0 ... 1"),
        ({"train_labels": LABELS - 1}, r"train_labels must lie in 0 ... 1"),
        ({"train_labels": 0 * LABELS}, "at least two classes"),
    ],
)
def test_bad_input_says_what_is_allowed(change, message):
    good = {
        "train_images": IMAGES,
        "train_labels": LABELS,
        "test_images": IMAGES,
        "test_labels": LABELS,
        "num_classes": 2,
        "seed": 0,
    }
    with pytest.raises(ValueError, match=message):
        compare_image_classifiers(**(good | change))


def test_runs_have_seeds_of_their_own_and_are_averaged():
    images, labels = digits()
    data = (images[:300], labels[:300]), (images[300:500], labels[300:500])
    found = compare(*data, 10, seed=3, classifiers=["MLP", "LR"], epochs={"MLP": 1}, runs=2)
    alone = [
        compare(*data, 10, seed=seed, classifiers=["MLP"], epochs={"MLP": 1}) for seed in (6, 7)
    ]
    assert found.by_run["MLP"] == tuple(one.accuracies["MLP"] for one in alone)
    assert found.accuracies["MLP"] == pytest.approx(np.mean(found.by_run["MLP"]))
    assert len(found.by_run["LR"]) == 1
