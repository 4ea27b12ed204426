"""Rounds find the posterior, and their noise is what the ledger says."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.posterior import line
from veilflow._core.keys import Secret
from veilflow.models.posterior import rounds
from veilflow.models.posterior.regressions import Regression
from veilflow.models.posterior.rounds import (
    EARLY,
    LATE,
    Noises,
    Surrogate,
    normal_of,
    num_numbers,
    private_rounds,
)
from veilflow.models.posterior.statistics import BINS
from veilflow.privacy.events import Gaussian, NonPrivate, Together
from veilflow.privacy.guarantees import Released, Sensitive


def found(noises, *, number=2000, seed=1, **settings):
    return private_rounds(
        line.log_likelihood,
        line.log_prior,
        Sensitive(line.records(number)),
        start=np.zeros(2),
        scale=np.ones(2),
        noises=noises,
        secret=Secret.from_seed(seed),
        **settings,
    )


def test_all_rounds_together_cost_what_one_release_costs():
    event = Noises.of(2.0).event
    assert isinstance(event, Together)
    noises = [part.noise_multiplier for part in event.events if isinstance(part, Gaussian)]
    assert len(noises) == 2 * EARLY + LATE
    assert sum(noise**-2 for noise in noises) == pytest.approx(2.0**-2)


def test_the_released_event_is_the_one_that_was_settled():
    released, settled = found(Noises.of(1.0)).event, Noises.of(1.0).event
    assert isinstance(released, Together)
    assert isinstance(settled, Together)
    assert sorted(map(str, released.events)) == sorted(map(str, settled.events))
    assert found(Noises(0.0, 0.0, 0.0)).event == NonPrivate()


@pytest.mark.parametrize(("whole", "far", "wide"), [(0.0, 0.15, 1.03), (1.0, 1.0, 1.3)])
def test_rounds_find_the_posterior_of_a_line(whole, far, wide):
    noises = Noises.of(whole) if whole else Noises(0.0, 0.0, 0.0)
    surrogate = found(noises).value.aware()
    mean, covariance = normal_of(surrogate, line.log_prior)
    right = line.posterior(*line.records(2000))
    sd = np.sqrt(np.diag(right[1]))
    assert np.abs((mean - right[0]) / sd).max() < far
    ratio = np.sqrt(np.diag(covariance)) / sd
    assert ratio.min() > 0.9
    assert ratio.max() < wide
    assert abs(surrogate.num_records / 2000 - 1) < 0.1


def test_knowing_the_noise_widens_the_posterior_by_what_it_adds_to_the_mean():
    precision, noise = np.diag([4.0, 1.0]), np.diag([4.0, 3.0])
    plain = Surrogate(np.zeros(2), np.array([1.0, 2.0]), precision, noise, 10.0, 1.0)
    aware = plain.aware()
    inverse = np.linalg.inv(precision)
    np.testing.assert_allclose(np.linalg.inv(aware.precision), inverse + inverse @ noise @ inverse)
    # the place is the same where there is no prior
    np.testing.assert_allclose(
        np.linalg.solve(aware.precision, aware.gradient), np.linalg.solve(precision, plain.gradient)
    )


def test_averaging_late_rounds_lowers_the_noise():
    averaged, alone = (found(Noises.of(1.0), average=a).value for a in (True, False))
    assert np.trace(alone.noise) == pytest.approx(LATE * np.trace(averaged.noise), rel=0.2)


def test_hardened_rounds_draw_other_noise_each_time():
    first, second = (found(Noises.of(1.0), hardened=True).value for _ in range(2))
    assert not np.array_equal(first.mean, second.mean)
    assert num_numbers(2) > 0


@pytest.mark.parametrize("seed", range(8))
def test_where_there_is_more_noise_than_signal_the_posterior_is_wide(seed):
    surrogate = found(Noises.of(500.0), number=30, seed=seed).value
    assert surrogate.unknown
    mean, covariance = normal_of(surrogate.aware(), line.log_prior)
    assert np.isfinite(mean).all()
    # at least one direction is as wide as the prior and the vague scale leave it
    least = 1 / (line.PRIOR**-2 + (3.0) ** -2)
    assert np.linalg.eigvalsh(covariance).max() > 0.9 * least


def test_noise_alone_moves_nothing():
    surrogate = found(Noises.of(500.0), number=30).value
    assert surrogate.few
    assert surrogate.unknown == 2
    mean, covariance = normal_of(surrogate.aware(), line.log_prior)
    # the prior, and three times the scale around the start
    np.testing.assert_allclose(mean, 0.0, atol=1e-6)
    np.testing.assert_allclose(covariance, np.eye(2) / (line.PRIOR**-2 + 3.0**-2), rtol=1e-5)


@pytest.mark.parametrize("bins", [(BINS - 1, 1), (1, BINS - 1), (BINS - 1, BINS - 1)])
@pytest.mark.parametrize("seed", [5, 7, 8])
def test_hostile_counts_end_no_fit(monkeypatch, bins, seed):
    def hostile(self, draws, factor, noise):
        return Released(1e6 * np.eye(BINS)[list(bins)], Gaussian(noise))

    monkeypatch.setattr(rounds._Ask, "lengths", hostile)
    surrogate = found(Noises.of(3.0), number=60, seed=seed).value
    assert surrogate.unknown
    mean, covariance = normal_of(surrogate.aware(), line.log_prior)
    assert np.isfinite(mean).all()
    assert (np.linalg.eigvalsh(covariance) > 0).all()


def test_a_prior_that_is_not_finite_everywhere_ends_no_fit(monkeypatch):
    def positive(theta):
        return jnp.sum(jnp.sqrt(theta + 0.5))  # not a number where the slope is

    monkeypatch.setattr(line, "log_prior", positive)
    assert np.isfinite(found(Noises.of(1.0)).value.mean).all()


def test_few_records_give_a_posterior_that_is_not_too_sure():
    """Errors whose deviation is unknown: cut short, their gradients would say that it is smaller."""
    ends = ((-3.0, -6.0), (3.0, 6.0))
    model = Regression(kind="linear", columns=("x",), target="y", bounds=ends)
    inside, surrogates = [], []
    for seed in range(12):
        x, errors = np.random.default_rng(seed).standard_normal((2, 1500))
        rows = np.stack([x, 0.4 - 0.6 * x + 0.8 * errors], axis=1)
        surrogate = private_rounds(
            model.log_likelihood,
            model.log_prior,
            Sensitive(model.records(rows)),
            start=model.start,
            scale=model.scale,
            noises=Noises.of(4.2),  # as at epsilon 1
            secret=Secret.from_seed(seed),
        ).value
        mean, covariance = normal_of(surrogate.aware(), model.log_prior)
        off = mean - np.array([0.4, -0.6, np.log(0.8)])
        inside.append(np.abs(off) < 1.96 * np.sqrt(np.diag(covariance)))
        surrogates.append(surrogate)
    assert all(one.few for one in surrogates)
    assert np.mean(inside) >= 0.85
    # and it is not by knowing nothing
    assert np.mean([one.unknown == 0 for one in surrogates]) >= 0.5


def test_records_that_say_nothing_do_not_set_the_bounds():
    x, y = line.records(3000)
    silent = np.arange(3000) % 4 > 0

    def partly(theta, record):
        return jnp.where(record[2], 0.0, line.log_likelihood(theta, record[:2]))

    surrogate = private_rounds(
        partly,
        line.log_prior,
        Sensitive((x, y, silent)),
        start=np.zeros(2),
        scale=np.ones(2),
        noises=Noises.of(0.5),
        secret=Secret.from_seed(0),
    ).value
    mean, _ = normal_of(surrogate.aware(), line.log_prior)
    right = line.posterior(x[~silent], y[~silent])
    assert surrogate.unknown == 0
    assert np.abs((mean - right[0]) / np.sqrt(np.diag(right[1]))).max() < 1.0
