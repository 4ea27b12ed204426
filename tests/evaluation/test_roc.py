"""The ROC curve of a likelihood, with answers that are known beforehand."""

import math

import numpy as np
import pytest

from veilflow.evaluation import roc_curve


@pytest.mark.parametrize(
    ("ordinary", "anomalous", "area"),
    [
        ([3.0, 4.0], [1.0, 2.0], 1.0),
        ([1.0, 2.0], [3.0, 4.0], 0.0),
        ([1.0, 1.0], [1.0], 0.5),
        ([0.0, -math.inf], [-math.inf], 0.75),
        ([2.0, 4.0], [1.0, 3.0], 0.75),
    ],
)
def test_the_area_is_the_chance_that_an_anomaly_scores_lower(ordinary, anomalous, area):
    found = roc_curve(ordinary, anomalous)
    assert found.auroc == pytest.approx(area)
    assert (found.false_positive[0], found.true_positive[0]) == (0, 0)
    assert (found.false_positive[-1], found.true_positive[-1]) == (1, 1)
    under = np.trapezoid(found.true_positive, found.false_positive)
    assert under == pytest.approx(area)


@pytest.mark.parametrize("scores", [[], [math.nan], [[1.0]]])
def test_scores_that_are_none_are_refused(scores):
    with pytest.raises(ValueError, match="anomalous must be log densities"):
        roc_curve([1.0], scores)
