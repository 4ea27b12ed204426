"""The finite exponential mechanism over a grid, or over a list."""

import numpy as np
import pytest

from tests.releases.expm.exact_problem import RECORDS, SENSITIVE, target
from veilflow._core.keys import Secret
from veilflow.privacy.events import ExponentialMechanism
from veilflow.privacy.unit import Adjacency
from veilflow.releases.expm import grid as grids
from veilflow.releases.expm.grid import GridSampler
from veilflow.releases.expm.prior import LaplacePrior

SECRET = Secret.from_seed(0)


def test_frequencies_are_those_of_the_exponential_mechanism():
    """Three candidates, 3,000 choices; a false alarm once in a million runs."""
    listed = np.array([[0.0, 0.0], [3.0, 0.0], [-1.0, 0.5]], np.float32)
    t = target(0.3)
    sampler = GridSampler(candidates=listed)
    weights = np.exp(-0.3 * t.losses(listed, RECORDS))
    shares = weights / weights.sum()
    assert shares.min() > 0.001
    found = [sampler.draw(t, SENSITIVE, secret=SECRET).value for _ in range(3000)]
    counts = np.array([(np.array(found) == row).all(axis=1).sum() for row in listed])
    assert counts.sum() == 3000
    deviations = np.abs(counts / 3000 - shares) / np.sqrt(shares * (1 - shares) / 3000)
    assert deviations.max() < 5


def test_points_have_equal_prior_mass():
    points = GridSampler(per_axis=5).points(target(1.0, prior=LaplacePrior(1.0)))
    assert points.shape == (25, 2)
    side = np.unique(points[:, 0])
    np.testing.assert_allclose(side[2], 0, atol=1e-7)
    np.testing.assert_allclose(side[4], -np.log(2 * 0.1), rtol=1e-6)


@pytest.mark.parametrize(("factor", "scale"), [(1, 1 / 0.5), (2, 2 / 0.5)])
def test_the_choice_is_made_at_the_scale_of_the_adjacency(factor, scale, monkeypatch):
    from veilflow.privacy.mechanisms import _opendp

    seen = []
    monkeypatch.setattr(
        _opendp, "noisy_argmax", lambda scores, *, scale: (seen.append(scale), 0)[1]
    )
    t = target(0.5, factor=factor)
    released = GridSampler(per_axis=3).draw(t, SENSITIVE, secret=SECRET)
    assert released.event == ExponentialMechanism(0.5)
    assert seen == [scale]
    assert t.adjacency is (Adjacency.ADD_REMOVE if factor == 1 else Adjacency.REPLACE_ONE)


def test_the_scores_that_are_chosen_by_are_exact(monkeypatch):
    from veilflow.privacy.mechanisms import _opendp

    seen = []
    monkeypatch.setattr(
        _opendp, "noisy_argmax", lambda scores, *, scale: (seen.append(scores), 0)[1]
    )
    t = target(0.5)
    points = GridSampler(per_axis=3).points(t)
    grids.chosen(t, SENSITIVE, points, epsilon=0.5)
    assert seen[0] == (-t.losses(points, RECORDS)).tolist()


def test_too_many_points_are_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"2000 points along each of 2.*so 1024 along each"):
        GridSampler(per_axis=2000).points(target(1.0))


@pytest.mark.parametrize(
    ("candidates", "match"),
    [
        (np.zeros(3), "one row for each"),
        (np.full((2, 2), np.nan), "finite"),
        (np.zeros((0, 2)), "one row for each"),
    ],
)
def test_bad_lists(candidates, match):
    with pytest.raises(ValueError, match=match):
        GridSampler(candidates=candidates)


def test_a_list_for_another_network_is_refused():
    with pytest.raises(ValueError, match="have 3 numbers, but the network has 2"):
        GridSampler(candidates=np.zeros((4, 3))).points(target(1.0))
