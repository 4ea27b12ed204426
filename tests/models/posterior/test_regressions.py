"""Regressions from declared bounds: likelihoods in the units of the columns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from veilflow.models.posterior.regressions import Regression

BOUNDS = {
    "linear": ((20.0, -1.0, 60.0), (80.0, 3.0, 200.0)),
    "logistic": ((20.0, -1.0, 0.0), (80.0, 3.0, 1.0)),
    "poisson": ((20.0, -1.0, 0.0), (80.0, 3.0, 30.0)),
}


def regression(kind, **settings):
    given = {"columns": ("age", "dose"), "target": "y", "bounds": BOUNDS[kind]}
    return Regression(kind=kind, **{**given, **settings})


def of_rows(model, theta, rows):
    each = jax.vmap(model.log_likelihood, (None, 0))
    return np.asarray(each(jnp.float32(theta), model.records(rows)), np.float64)


def test_the_likelihood_of_normal_errors():
    model, rows = regression("linear"), np.array([[30.0, 0.5, 110.0], [70.0, 2.0, 150.0]])
    theta = np.array([118.0, 0.4, -3.0, np.log(9.0)])
    mean = 118 + 0.4 * (rows[:, 0] - 50) - 3 * (rows[:, 1] - 1)
    want = stats.norm.logpdf(rows[:, 2], mean, 9.0)
    found = of_rows(model, theta, rows)
    np.testing.assert_allclose(np.diff(found), np.diff(want), rtol=1e-4)
    # and by the deviation, too
    wider = of_rows(model, theta + 0.5 * np.eye(4)[3], rows)
    np.testing.assert_allclose(
        wider - found, stats.norm.logpdf(rows[:, 2], mean, 9 * np.exp(0.5)) - want, rtol=1e-4
    )


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_the_likelihood_of_answers_and_counts(kind):
    model, rows = regression(kind), np.array([[30.0, 0.5, 1.0], [70.0, 2.0, 0.0]])
    thetas = np.array([[0.3, 0.02, -0.4], [0.1, -0.01, 0.2]])

    def want(theta):
        at = theta[0] + theta[1] * (rows[:, 0] - 50) + theta[2] * (rows[:, 1] - 1)
        if kind == "logistic":
            return stats.bernoulli.logpmf(rows[:, 2].astype(int), 1 / (1 + np.exp(-at)))
        return stats.poisson.logpmf(rows[:, 2].astype(int), np.exp(at))

    found = of_rows(model, thetas[1], rows) - of_rows(model, thetas[0], rows)
    np.testing.assert_allclose(found, want(thetas[1]) - want(thetas[0]), rtol=1e-4)


def test_rows_outside_the_bounds_are_moved_to_them():
    x, y = regression("linear").records(np.array([[0.0, 9.0, 1e9], [50.0, 1.0, 130.0]]))
    np.testing.assert_allclose(x, [[-1, 1], [0, 0]])
    np.testing.assert_allclose(y, [1, 0])


def test_priors_are_as_wide_as_bounds_say():
    model = regression("linear", prior_scale=3.0)
    np.testing.assert_allclose(model.scale[:3], [210, 7, 105])
    np.testing.assert_allclose(model.start[:3], [130, 0, 0])
    theta = jnp.float32(model.start + model.scale)
    assert float(model.log_prior(theta)) == pytest.approx(-2.0, rel=1e-4)
    assert regression("poisson").start[0] == pytest.approx(np.log(15))


@pytest.mark.parametrize("ends", [(-6.0, 6.0), (-9.0, 1.0)])
def test_a_linear_target_may_lie_around_zero_or_below(ends):
    bounds = ((20.0, -1.0, ends[0]), (80.0, 3.0, ends[1]))
    assert regression("linear", bounds=bounds).start[0] == sum(ends) / 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "probit"}, "kind must be one of"),
        ({"kind": "linear", "columns": ()}, "at least one column"),
        ({"kind": "linear", "columns": ("age", "intercept")}, "'intercept'"),
        ({"kind": "linear", "columns": ("age", "y")}, "must differ"),
        ({"kind": "linear", "bounds": ((0.0,), (1.0,))}, "one pair each"),
        ({"kind": "linear", "bounds": ((0.0, 0.0, 1.0), (1.0, 1.0, 1.0))}, "'y' must be finite"),
        ({"kind": "logistic", "bounds": BOUNDS["poisson"]}, "0 and 1"),
    ],
)
def test_what_makes_no_regression_is_refused(settings, message):
    given = {"columns": ("age", "dose"), "target": "y", "bounds": BOUNDS["linear"]}
    with pytest.raises(ValueError, match=message):
        Regression(**{**given, **settings})
