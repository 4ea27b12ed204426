"""Generated images in color: the same each time, of kinds that can be told apart; and a fit."""

import numpy as np
import pytest
from benchmarks.generated_faces import faces
from benchmarks.generated_images import scenes
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

import veilflow as vf


@pytest.mark.parametrize("size", [16, 32])
def test_faces_are_the_same_for_a_seed_and_differ_from_each_other(size):
    pixels, kinds = faces(30, size=size, seed=1)
    assert pixels.shape == (30, 3, size, size)
    assert pixels.dtype == np.uint8
    assert set(kinds) == {0, 1}
    again, same = faces(30, size=size, seed=1)
    np.testing.assert_array_equal(pixels, again)
    np.testing.assert_array_equal(kinds, same)
    assert len({image.tobytes() for image in pixels}) == 30
    assert not np.array_equal(pixels, faces(30, size=size, seed=2)[0])


def test_kinds_can_be_told_apart_and_colors_matter():
    pixels, kinds = faces(600, size=16, seed=3)
    rows = pixels.reshape(600, -1) / 255.0
    found = LogisticRegression(C=0.01, max_iter=300).fit(rows[:400], kinds[:400])
    assert 0.7 < found.score(rows[400:], kinds[400:]) < 1.0
    assert pixels.astype(float).std(axis=1).mean() > 10


def test_the_first_of_many_faces_are_those_of_fewer():
    many, few = faces(410, size=4, seed=5), faces(400, size=4, seed=5)
    np.testing.assert_array_equal(many[0][:400], few[0])
    np.testing.assert_array_equal(many[1][:400], few[1])


def test_scenes_are_of_ten_classes_that_can_be_told_apart_but_not_by_color_alone():
    pixels, labels = scenes(1500, seed=1)
    assert pixels.shape == (1500, 3, 32, 32)
    assert set(labels) == set(range(10))
    np.testing.assert_array_equal(scenes(40, seed=2)[0], scenes(40, seed=2)[0])
    rows = pixels.reshape(1500, 3, 8, 4, 8, 4).mean(axis=(3, 5)).reshape(1500, -1) / 255.0
    color = pixels[:, :, 12:20, 12:20].mean(axis=(2, 3)) / 255.0

    def share(x):
        found = LinearDiscriminantAnalysis().fit(x[:1000], labels[:1000])
        return found.score(x[1000:], labels[1000:])

    assert 0.2 < share(color) < 0.6
    assert 0.25 < share(rows) < 0.9


def test_a_model_of_faces_in_color_is_fitted_and_drawn_from():
    pixels, kinds = faces(60, size=16, seed=4)
    networks = {
        "channels": (4,),
        "latent": 4,
        "blocks": 1,
        "hidden": (),
        "decoder_sees_class": True,
    }
    estimator = vf.ImageFlow(
        spec=vf.ImageSpec(height=16, width=16, channels=3, classes=(0, 1)),
        budget=vf.Budget(epsilon=8.0, delta=1e-3),
        num_records=60,
        flow=vf.ImageArchitecture(size=(16, 16), colors=3, **networks),
        training=vf.Training(steps=2, sampling_rate=0.5),
        seed=1,
    )
    drawn = estimator.fit(pixels, kinds, progress=False).sample(4, seed=1)
    assert drawn.pixels.shape == (4, 3, 16, 16)
    assert list(drawn.labels) == [0, 1, 0, 1]
    assert len({image.tobytes() for image in drawn.pixels}) == 4
