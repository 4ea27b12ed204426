"""Precision and recall on sets whose neighbors are known."""

import numpy as np
import pytest

from reproductions.metrics.images import PrecisionRecall, neighbors, precision_recall


def cloud(num_rows, *, at=0.0, dim=3, seed=0):
    return np.random.default_rng(seed).standard_normal((num_rows, dim)) + at


def test_equal_sets_have_both():
    assert precision_recall(cloud(40), cloud(40)) == PrecisionRecall(1.0, 1.0)


def test_sets_far_apart_have_neither():
    assert precision_recall(cloud(40), cloud(40, at=1e3)) == PrecisionRecall(0.0, 0.0)


def test_a_generator_of_one_mode_is_precise_and_forgets_the_other():
    modes = np.concatenate([cloud(300), cloud(300, at=100, seed=1)])
    found = precision_recall(modes, cloud(300, seed=2))
    assert found.precision > 0.9
    assert 0.4 < found.recall < 0.5


def test_a_generator_of_two_modes_is_half_right_about_one():
    modes = np.concatenate([cloud(300), cloud(300, at=100, seed=1)])
    found = precision_recall(cloud(300, seed=2), modes)
    assert 0.4 < found.precision < 0.5
    assert found.recall > 0.9


def test_on_a_line_the_balls_are_intervals():
    real = np.array([[0.0], [1.0], [3.0]])  # with k = 1 the radii are 1, 1 and 2
    fake = np.array([[-1.0], [-1.5], [2.0], [4.9], [5.1]])
    found = precision_recall(real, fake, k=1)
    assert found.precision == 3 / 5
    # radii of fake: .5, .5, 2.9, .2, .2; they hold 0, 1 and 3, all through the ball around 2
    assert found.recall == 1.0
    assert precision_recall(real, fake - 100, k=1).recall == 0.0


def brute_force(real, fake, k):
    def covered(rows, others):
        within = np.linalg.norm(others[:, None] - others[None], axis=2)
        radii = np.sort(within, axis=1)[:, k]
        return (np.linalg.norm(rows[:, None] - others[None], axis=2) <= radii[None]).any(axis=1)

    return PrecisionRecall(covered(fake, real).mean(), covered(real, fake).mean())


@pytest.mark.parametrize("k", [1, 3, 5])
def test_blocks_give_what_all_distances_at_once_give(monkeypatch, k):
    real, fake = cloud(50), cloud(70, at=0.7, seed=1)
    whole = precision_recall(real, fake, k)
    monkeypatch.setattr(neighbors, "_CHUNK_BYTES", 8 * 70 * 7)
    assert precision_recall(real, fake, k) == whole == brute_force(real, fake, k)


def test_copies_far_from_the_origin_are_still_at_distance_0():
    copies = np.repeat(cloud(5, at=1e4), 6, axis=0)
    assert precision_recall(copies, copies[::-1]) == PrecisionRecall(1.0, 1.0)


def test_it_is_plain_json():
    assert PrecisionRecall(0.5, 0.25).to_json() == {"precision": 0.5, "recall": 0.25}


def test_too_few_rows_for_a_neighbor_is_an_error():
    with pytest.raises(ValueError, match="fake_features must have more than k = 3 rows, got 3"):
        precision_recall(cloud(10), cloud(3))
