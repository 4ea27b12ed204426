"""Baselines: one interface, prices that are known before, and what their guarantees rest on."""

import math
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import veilflow as vf
from veilflow._core.errors import NotPrivateWarning
from veilflow.models.expm.baselines import objective, perturbation
from veilflow.models.expm.network import Logistic
from veilflow.privacy.calibration import training_event
from veilflow.privacy.events import Gaussian, NonPrivate, PureDP
from veilflow.privacy.ledger import Ledger

baselines = vf.expm.baselines
NUM = 600
DELTA = 1e-5
PURE = vf.Budget(2.0, 0)
APPROXIMATE = vf.Budget(2.0, DELTA)
NETWORK = Logistic(num_features=2)


def rows_and_labels(seed=0, num=NUM):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (num, 2))
    return rows, (rng.random(num) < 1 / (1 + np.exp(-4 * rows[:, 0]))).astype(int)


def series(seed=0, num=64):
    rng = np.random.default_rng(seed)
    mask = rng.integers(0, 2, (num, 4, 2)).astype(float)
    labels = rng.integers(0, 2, num)
    return (mask * (2 * labels - 1)[:, None, None], mask, np.ones_like(mask)), labels


def estimators(**settings):
    settings = {"bounds": (-1, 1), **settings}
    small = {"steps": 30, "sampling_rate": 0.5}
    return {
        "dp-sgd": baselines.DpSgdClassifier(
            budget=APPROXIMATE, num_records=NUM, seed=1, **small, **settings
        ),
        "output-perturbation": baselines.OutputPerturbation(budget=PURE, **settings),
        "objective-perturbation": baselines.ObjectivePerturbation(budget=PURE, **settings),
        "non-private": baselines.NonPrivateClassifier(**settings),
    }


NAMES = tuple(estimators())


@pytest.mark.parametrize("name", NAMES)
def test_each_learns_says_what_it_spent_and_goes_through_a_file(name, tmp_path):
    estimator = estimators(classes=("no", "yes"))[name]
    rows, labels = rows_and_labels()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        model = estimator.fit(rows, np.where(labels, "yes", "no"), progress=False)
    assert model.ledger == estimator.ledger(num_features=2)
    assert model.settings["sampler"] == name
    assert name in repr(model)
    assert not model.conditional
    fresh, truth = rows_and_labels(seed=1)
    assert (model.predict(fresh) == np.where(truth, "yes", "no")).mean() > 0.7
    np.testing.assert_allclose(model.predict_proba(fresh).sum(axis=1), 1, atol=1e-6)
    model.save(tmp_path / "m.veil")
    again = vf.load(tmp_path / "m.veil")
    np.testing.assert_array_equal(again.predict_proba(fresh), model.predict_proba(fresh))
    assert again.guarantee == model.guarantee


def test_ledgers_hold_the_events_that_are_due():
    of = {name: estimator.ledger(2) for name, estimator in estimators().items()}
    assert of["output-perturbation"].event.events == (PureDP(2.0),)
    assert of["objective-perturbation"].event.events == (PureDP(2.0),)
    assert of["non-private"].event.events == (NonPrivate(),)
    (event,) = of["dp-sgd"].event.events
    plan = estimators()["dp-sgd"].plan(NETWORK, num_records=NUM)
    assert event == training_event(0.5, plan.noise_multiplier, 30)
    assert of["dp-sgd"].epsilon(delta=DELTA) <= 2.0
    assert of["dp-sgd"].epsilon(delta=DELTA) == pytest.approx(2.0, rel=2e-3)


def test_a_count_is_paid_for_where_none_is_declared():
    estimator = baselines.DpSgdClassifier(budget=APPROXIMATE, bounds=(-1, 1), steps=5)
    ledger = estimator.ledger(2)
    assert [entry.purpose for entry in ledger.entries] == ["number of records", "training"]
    assert ledger.epsilon(delta=DELTA) <= 2.0 * (1 + 1e-9)
    # what was counted decides the divisor alone
    plans = [estimator.plan(NETWORK, num_records=num) for num in (10, 10_000)]
    assert len({plan.event for plan in plans}) == 1
    assert plans[0].expected_batch_size < plans[1].expected_batch_size
    model = estimator.fit(*rows_and_labels(), progress=False)
    assert model.ledger == ledger


def test_series_are_trained_with_privacy():
    features, labels = series()
    private = baselines.DpSgdClassifier(
        budget=vf.Budget(50.0, DELTA),
        model=vf.expm.GruD(num_features=2, hidden=2),
        bounds=(-1, 1),
        num_records=64,
        steps=40,
        learning_rate=0.1,
        loss="l2",
        seed=1,
    )
    found = private.fit(features, labels, progress=False)
    assert (found.predict(features) == labels).mean() > 0.7
    assert found.guarantee.epsilon <= 50


def test_networks_without_privacy_take_steps():
    rows, labels = rows_and_labels()
    network = vf.expm.Mlp(num_features=2, hidden=(3,))
    plain = baselines.NonPrivateClassifier(
        bounds=(-1, 1), model=network, loss="l2", steps=100, learning_rate=0.1, seed=1
    )
    with pytest.warns(NotPrivateWarning):
        model = plain.fit(rows, labels, progress=False)
    assert model.guarantee.epsilon == math.inf
    assert (model.predict(rows) == labels).mean() > 0.75


def test_without_privacy_logistic_regression_is_that_of_everyone():
    rows, labels = rows_and_labels()
    peer = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(rows, labels)
    with pytest.warns(NotPrivateWarning):
        own = baselines.NonPrivateClassifier(bounds=(-1, 1), regularization=1.0).fit(rows, labels)
    # the peer does not pull its intercept
    np.testing.assert_allclose(own.thetas[0, :2], peer.coef_[0], rtol=0.01)


def test_noise_without_direction_has_the_length_it_should_and_no_direction():
    draws = np.array([perturbation.spherical(3, scale=2.0) for _ in range(2_000)])
    lengths = np.linalg.norm(draws, axis=1)
    # gamma of shape 3 and scale 2; five standard errors, so one run in a million fails
    assert lengths.mean() == pytest.approx(6, abs=5 * math.sqrt(12 / 2_000))
    assert np.abs((draws / lengths[:, None]).mean(axis=0)).max() < 5 / math.sqrt(3 * 2_000)


def test_output_noise_is_as_large_as_sensitivity_and_budget_say(monkeypatch):
    scales = []
    monkeypatch.setattr(
        "veilflow.models.expm.baselines.output.spherical",
        lambda dim, *, scale: scales.append(scale) or np.zeros(dim),
    )
    estimator = baselines.OutputPerturbation(budget=PURE, bounds=(-1, 1), regularization=5.0)
    estimator.fit(*rows_and_labels())
    # rows of length up to sqrt(2 + 1), over the pull, over epsilon
    assert scales == [pytest.approx(math.sqrt(3) / 5 / 2, rel=1e-6)]
    assert scales[0] >= math.sqrt(3) / 5 / 2


def test_with_a_delta_output_noise_is_gaussian_and_fits_the_budget():
    estimator = baselines.OutputPerturbation(budget=APPROXIMATE, bounds=(-1, 1))
    (event,) = estimator.ledger(2).event.events
    assert isinstance(event, Gaussian)
    spent = Ledger().spend(event, purpose="x").epsilon(delta=DELTA)
    assert spent == pytest.approx(2.0, rel=2e-3)
    assert spent <= 2.0
    assert np.isfinite(estimator.fit(*rows_and_labels()).thetas).all()


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_tilt_and_determinants_together_cost_epsilon(epsilon):
    estimator = baselines.ObjectivePerturbation(budget=vf.Budget(epsilon, 0), bounds=(-1, 1))
    norm, pull = math.sqrt(3), estimator.pull(NETWORK)
    spent = estimator.beta(NETWORK) * norm + math.log1p(norm**2 / 4 / pull)
    assert spent == pytest.approx(epsilon)
    assert estimator.beta(NETWORK) > 0


def test_the_density_of_a_tilted_minimum_moves_by_at_most_epsilon():
    # what the proof multiplies, computed for hostile neighbors at many minima
    epsilon, pull, norm = 1.0, 2.0, math.sqrt(3)
    estimator = baselines.ObjectivePerturbation(
        budget=vf.Budget(epsilon, 0), bounds=(-1, 1), regularization=pull
    )
    beta, rng = estimator.beta(NETWORK), np.random.default_rng(0)
    rows = np.concatenate([rng.uniform(-1, 1, (20, 2)), np.ones((20, 1))], axis=1)

    def log_density(rows, weights):
        shares = 1 / (1 + np.exp(rows @ weights))
        tilt = (rows * shares[:, None]).sum(axis=0) - pull * weights
        bend = (rows * (shares * (1 - shares))[:, None]).T @ rows + pull * np.eye(3)
        return -beta * np.linalg.norm(tilt) + np.linalg.slogdet(bend)[1]

    largest = 0.0
    for _ in range(300):
        weights = rng.normal(size=3) * rng.choice([0.01, 1, 10])
        joining = norm * np.sign(rng.normal(size=3)) / math.sqrt(3)
        more = np.concatenate([rows, joining[None]])
        largest = max(largest, abs(log_density(more, weights) - log_density(rows, weights)))
    assert largest <= epsilon
    assert largest > 0.3 * epsilon  # the bound is of the right size


def test_assumptions_are_said():
    of = {name: estimator.ledger(2).assumptions for name, estimator in estimators().items()}
    assert perturbation.DOUBLE_ASSUMPTION in of["output-perturbation"]
    assert objective.EXACT_ASSUMPTION in of["objective-perturbation"]
    assert any("Threefry" in text for text in of["dp-sgd"])
    assert any("seed" in text for text in of["dp-sgd"])
    assert all(any("bounds" in text for text in each) for each in of.values())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: baselines.DpSgdClassifier(budget=PURE, bounds=(0, 1)), "delta above 0"),
        (
            lambda: baselines.DpSgdClassifier(budget=vf.Budget(math.inf, DELTA), bounds=(0, 1)),
            "NonPrivateClassifier",
        ),
        (
            lambda: baselines.DpSgdClassifier(budget=APPROXIMATE, bounds=(0, 1), loss="hinge"),
            "loss",
        ),
        (lambda: baselines.NonPrivateClassifier(budget=PURE, bounds=(0, 1)), "leave out budget"),
        (lambda: baselines.OutputPerturbation(budget=PURE), "declare bounds"),
        (
            lambda: baselines.OutputPerturbation(budget=PURE, bounds=(0, 1), model="mlp"),
            "logistic regression of two classes",
        ),
        (
            lambda: baselines.ObjectivePerturbation(budget=PURE, bounds=(0, 1), classes=(0, 1, 2)),
            "logistic regression of two classes",
        ),
        (
            lambda: baselines.ObjectivePerturbation(budget=vf.Budget(math.inf, 0), bounds=(0, 1)),
            "epsilon must be finite",
        ),
        (
            lambda: baselines.ObjectivePerturbation(
                budget=PURE, bounds=(0, 1), regularization=1e-3
            ).ledger(2),
            "too small for epsilon=2",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_budget_must_be_one():
    with pytest.raises(TypeError, match=r"vf\.Budget"):
        baselines.OutputPerturbation(budget=1.0, bounds=(0, 1))  # type: ignore[arg-type]


def test_labels_and_rows_that_do_not_fit_are_refused_before_anything_is_spent():
    estimator = estimators()["output-perturbation"]
    rows, labels = rows_and_labels()
    with pytest.raises(ValueError, match="declared classes"):
        estimator.fit(rows, labels + 1)
    with pytest.raises(ValueError, match="missing"):
        estimator.fit(np.full_like(rows, np.nan), labels)
    with pytest.raises(ValueError, match="no records"):
        estimator.fit(np.empty((0, 2)), np.empty(0))
