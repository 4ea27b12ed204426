"""Zooming spends what it says, by a schedule that no record has a say in."""

import math

import numpy as np
import pytest

from tests.releases.expm.exact_problem import NUM, RECORDS, SENSITIVE, target
from veilflow._core.keys import Secret
from veilflow.privacy.events import ExponentialMechanism, Together
from veilflow.releases.expm import zoom
from veilflow.releases.expm.zoom import ZoomSampler

SECRET = Secret.from_seed(0)


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_rounds_spend_epsilon_and_no_more(rounds, monkeypatch):
    seen, real = [], zoom.chosen
    monkeypatch.setattr(
        zoom,
        "chosen",
        lambda t, records, thetas, *, epsilon: (
            seen.append(epsilon),
            real(t, records, thetas, epsilon=epsilon),
        )[1],
    )
    sampler = ZoomSampler(num_records=NUM, rounds=rounds, num_candidates=16)
    released = sampler.draw(target(0.7), SENSITIVE, secret=SECRET)
    assert released.event == sampler.settled(target(0.7)).event(0.7)
    assert released.event == Together(tuple(ExponentialMechanism(e) for e in seen))
    assert math.fsum(seen) == pytest.approx(0.7, rel=1e-15)
    assert len(seen) == rounds
    assert ZoomSampler.assumption is None


def test_candidates_come_from_the_prior_and_then_from_around_the_last_choice(monkeypatch):
    clouds = []

    def first(t, records, thetas, *, epsilon):
        clouds.append(thetas)
        return GivenBack(thetas[0])

    class GivenBack:
        def __init__(self, value):
            self.value = value

    monkeypatch.setattr(zoom, "chosen", first)
    t = target(0.7)
    sampler = ZoomSampler(num_records=10_000, rounds=4, num_candidates=4000).settled(t)
    sampler.draw(t, SENSITIVE, secret=SECRET)
    scales = (t.prior.scale, *sampler.scales(t))
    assert scales[-1] == pytest.approx(28 / math.sqrt(0.7 * 10_000))
    centers = [np.zeros(2), *(cloud[0] for cloud in clouds[:-1])]
    for cloud, center, scale in zip(clouds, centers, scales, strict=True):
        assert (cloud.mean(axis=0) - center) / scale == pytest.approx(0, abs=0.1)
        assert cloud.std(axis=0) / scale == pytest.approx(1, abs=0.1)


def test_the_schedule_is_settled_from_public_facts():
    t = target(1.0)
    rounds = [ZoomSampler(num_records=n).settled(t).rounds for n in (100, 10_000, 1_000_000)]
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[-1]
    # not yet counted: planned for a nominal number, and not planned anew when the count is there
    planned = ZoomSampler().settled(t)
    assert planned.num_records is None
    assert planned.knowing(1_000_000).settled(t).event(1.0) == planned.event(1.0)
    assert planned.rounds == rounds[1]


def test_a_schedule_that_is_not_settled_has_no_price():
    with pytest.raises(ValueError, match="not determined"):
        ZoomSampler().event(1.0)
    with pytest.raises(ValueError, match="needs num_records"):
        ZoomSampler().draw(target(1.0), SENSITIVE, secret=SECRET)


def test_a_generous_epsilon_finds_a_good_classifier():
    t = target(30.0)
    found = ZoomSampler(num_records=NUM, num_candidates=256).draw(t, SENSITIVE, secret=SECRET).value
    at_zero = t.losses(np.zeros((1, 2), np.float32), RECORDS)[0]
    assert t.losses(found[None], RECORDS)[0] < 0.5 * at_zero


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"num_candidates": 1}, "num_candidates must be at least 2"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"rounds": 61}, "at most 60"),
        ({"growth": 0.0}, "growth must be positive"),
        ({"num_records": 0}, "num_records must be at least 1"),
    ],
)
def test_bad_settings(settings, match):
    with pytest.raises(ValueError, match=match):
        ZoomSampler(**settings)
