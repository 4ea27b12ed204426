"""Rounds find the posterior, and their noise is what the ledger says."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.posterior import line
from veilflow._core.keys import Secret
from veilflow.models.posterior.regressions import Regression
from veilflow.privacy.events import Gaussian, NonPrivate, Together
from veilflow.privacy.guarantees import ClippedSum, Sensitive
from veilflow.releases.release import Tools
from veilflow.releases.rounds import newton
from veilflow.releases.rounds.newton import NewtonRounds
from veilflow.releases.rounds.statistics import BINS, SENSITIVITY
from veilflow.releases.rounds.surrogate import Surrogate, normal_of


def asked(noise, **settings):
    start, scale = settings.pop("start", (0.0, 0.0)), settings.pop("scale", (1.0, 1.0))
    return NewtonRounds(start=start, scale=scale, noise_multiplier=noise, **settings)


def run(release, records, *, seed=1, likelihood=None, prior=None, monitor=None):
    tools = Tools(Secret.from_seed(seed), monitor or (lambda done: None))
    return release.run(
        Sensitive(records),
        tools,
        log_likelihood=likelihood or line.log_likelihood,
        log_prior=prior or line.log_prior,
    )


def surrogate_of(noise, *, number=2000, seed=1, prior=None, **settings):
    release = asked(noise, **settings)
    return release.result(run(release, line.records(number), seed=seed, prior=prior).value)


def test_all_rounds_together_cost_what_one_release_costs():
    release = asked(2.0)
    assert isinstance(release.event, Together)
    noises = [part.noise_multiplier for part in release.event.events if isinstance(part, Gaussian)]
    assert len(noises) == 2 * release.early + release.late
    assert sum(noise**-2 for noise in noises) == pytest.approx(2.0**-2)


def test_the_released_event_is_the_one_that_was_planned():
    release, done = asked(1.0), []
    released = run(release, line.records(200), monitor=done.append)
    assert released.event == release.event
    assert done == list(range(1, release.rounds + 1))
    assert release.event_after(0) == release.event_after(1) == Together(release.event.events[:2])
    early = release.event_after(release.early).events
    assert early == release.event.events[: 2 * release.early]
    free = asked(0.0)
    assert run(free, line.records(200)).event == free.event
    assert set(free.event.events) == {NonPrivate()}
    assert free.num_draws == 0


@pytest.mark.parametrize(("whole", "far", "wide"), [(0.0, 0.15, 1.03), (1.0, 1.0, 1.3)])
def test_rounds_find_the_posterior_of_a_line(whole, far, wide):
    surrogate = surrogate_of(whole).aware()
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
    averaged, alone = (surrogate_of(1.0, average=a) for a in (True, False))
    late = asked(1.0).late
    assert np.trace(alone.noise) == pytest.approx(late * np.trace(averaged.noise), rel=0.2)


@pytest.mark.parametrize("seed", range(8))
def test_where_there_is_more_noise_than_signal_the_posterior_is_wide(seed):
    surrogate = surrogate_of(500.0, number=30, seed=seed)
    assert surrogate.unknown
    mean, covariance = normal_of(surrogate.aware(), line.log_prior)
    assert np.isfinite(mean).all()
    # at least one direction is as wide as the prior and the vague scale leave it
    least = 1 / (line.PRIOR**-2 + (3.0) ** -2)
    assert np.linalg.eigvalsh(covariance).max() > 0.9 * least


def test_noise_alone_moves_nothing():
    surrogate = surrogate_of(500.0, number=30)
    assert surrogate.few
    assert surrogate.unknown == 2
    mean, covariance = normal_of(surrogate.aware(), line.log_prior)
    # the prior, and three times the scale around the start
    np.testing.assert_allclose(mean, 0.0, atol=1e-6)
    np.testing.assert_allclose(covariance, np.eye(2) / (line.PRIOR**-2 + 3.0**-2), rtol=1e-5)


@pytest.mark.parametrize("bins", [(BINS - 1, 1), (1, BINS - 1), (BINS - 1, BINS - 1)])
@pytest.mark.parametrize("seed", [5, 7, 8])
def test_hostile_counts_end_no_fit(monkeypatch, bins, seed):
    def hostile(*args, **settings):
        return ClippedSum(1e6 * np.eye(BINS)[list(bins)], SENSITIVITY)

    monkeypatch.setattr(newton, "length_counts", hostile)
    surrogate = surrogate_of(3.0, number=60, seed=seed)
    assert surrogate.unknown
    mean, covariance = normal_of(surrogate.aware(), line.log_prior)
    assert np.isfinite(mean).all()
    assert (np.linalg.eigvalsh(covariance) > 0).all()


def test_a_prior_that_is_not_finite_everywhere_ends_no_fit():
    def positive(theta):
        return jnp.sum(jnp.sqrt(theta + 0.5))  # not a number where the slope is

    assert np.isfinite(surrogate_of(1.0, prior=positive).mean).all()


def test_few_records_give_a_posterior_that_is_not_too_sure():
    """Errors whose deviation is unknown: cut short, their gradients would say that it is smaller."""
    ends = ((-3.0, -6.0), (3.0, 6.0))
    model = Regression(kind="linear", columns=("x",), target="y", bounds=ends)
    inside, surrogates = [], []
    for seed in range(12):
        x, errors = np.random.default_rng(seed).standard_normal((2, 1500))
        rows = np.stack([x, 0.4 - 0.6 * x + 0.8 * errors], axis=1)
        # the noise of epsilon 1
        release = asked(4.2, start=tuple(model.start), scale=tuple(model.scale))
        functions = {"likelihood": model.log_likelihood, "prior": model.log_prior}
        surrogate = release.result(run(release, model.records(rows), seed=seed, **functions).value)
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

    release = asked(0.5)
    surrogate = release.result(run(release, (x, y, silent), seed=0, likelihood=partly).value)
    mean, _ = normal_of(surrogate.aware(), line.log_prior)
    right = line.posterior(x[~silent], y[~silent])
    assert surrogate.unknown == 0
    assert np.abs((mean - right[0]) / np.sqrt(np.diag(right[1]))).max() < 1.0
