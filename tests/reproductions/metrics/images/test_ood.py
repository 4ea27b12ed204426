"""Out-of-distribution areas on scores whose order is known."""

import math

import numpy as np
import pytest

from reproductions.metrics.images import ood_auroc

LABELS = np.array([0, 0, 1, 1, 1])


def test_each_row_is_judged_by_its_own_class():
    scores = [
        [1, 2, 3, 4, 5],  # the model of class 0 finds all others stranger
        [1, 2, 3, 4, 5],  # that of class 1 has it upside down
    ]
    found = ood_auroc(scores, LABELS)
    assert found.by_class == (1.0, 0.0)
    assert found.mean == 0.5
    assert found.to_json() == {"by_class": [1.0, 0.0], "mean": 0.5}


def test_pairs_in_the_right_order_are_counted_and_ties_halved():
    scores = [[0, 2, 1, 2, 3], [5, 5, 5, 5, 5]]
    # class 0: of the pairs 0<1, 0<2, 0<3, 2>1, 2=2, 2<3
    assert ood_auroc(scores, LABELS).by_class == pytest.approx((4.5 / 6, 0.5))


def test_an_increasing_map_of_the_scores_changes_nothing():
    scores = np.random.default_rng(0).standard_normal((2, 5))
    assert ood_auroc(scores, LABELS) == ood_auroc(np.exp(scores) + 7, LABELS)


def test_impossible_images_are_the_strangest():
    scores = [[1, 2, math.inf, math.inf, 3], [math.inf, 9, 1, 2, 3]]
    assert ood_auroc(scores, LABELS).by_class == (1.0, 1.0)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (np.zeros(5), LABELS, r"shape \(classes, images\)"),
        (np.zeros((1, 5)), 0 * LABELS, "at least two classes"),
        (np.full((2, 5), math.nan), LABELS, "NaN"),
        (np.zeros((3, 5)), LABELS, r"no image of \[2\]"),
        (np.zeros((2, 4)), LABELS, "4 whole numbers"),
        (np.zeros((2, 5)), LABELS + 1, "labels must lie in"),
    ],
)
def test_bad_input_says_what_is_allowed(scores, labels, message):
    with pytest.raises(ValueError, match=message):
        ood_auroc(scores, labels)
