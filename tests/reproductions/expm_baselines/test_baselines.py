"""Baselines: one interface, prices that are known before, and what their guarantees rest on."""

import math

import numpy as np
import pytest
from reproductions.expm_nf import baselines
from reproductions.expm_nf.baselines import objective, perturbation
from sklearn.linear_model import LogisticRegression

import veilflow as vf
from veilflow.privacy.calibration import training_event
from veilflow.privacy.events import ApproximateDP, NonPrivate, PureDP
from veilflow.privacy.grid_noise import closeness
from veilflow.privacy.guarantees import Sensitive

pytestmark = pytest.mark.slow  # the system has probes; these are its parts

NUM = 600
DELTA = 1e-5
PURE = vf.Budget(2.0, 0)
APPROXIMATE = vf.Budget(2.0, DELTA)
NETWORK = vf.expm.Logistic(num_features=2)
FACTS = {"model": NETWORK, "bounds": (-1, 1)}


def rows_and_labels(seed=0, num=NUM):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (num, 2))
    return rows, (rng.random(num) < 1 / (1 + np.exp(-4 * rows[:, 0]))).astype(int)


def predicted(model, features):
    return model.predict_proba(features).argmax(axis=1)


def series(seed=0, num=64):
    rng = np.random.default_rng(seed)
    mask = rng.integers(0, 2, (num, 4, 2)).astype(float)
    labels = rng.integers(0, 2, num)
    return (mask * (2 * labels - 1)[:, None, None], mask, np.ones_like(mask)), labels


def estimators():
    small = {"steps": 30, "sampling_rate": 0.5, "num_records": NUM, "seed": 1}
    return {
        "dp-sgd": baselines.DpSgdClassifier(budget=APPROXIMATE, **small, **FACTS),
        "output": baselines.OutputPerturbation(budget=PURE, **FACTS),
        "objective": baselines.ObjectivePerturbation(budget=PURE, **FACTS),
        "non-private": baselines.NonPrivateClassifier(**FACTS),
    }


NAMES = tuple(estimators())


@pytest.mark.parametrize("name", NAMES)
def test_each_learns_and_says_what_it_spent(name):
    estimator = estimators()[name]
    model = estimator.fit(*rows_and_labels())
    assert model.ledger == estimator.ledger()
    assert model.guarantee.epsilon <= estimator.budget.epsilon
    fresh, truth = rows_and_labels(seed=1)
    assert (predicted(model, fresh) == truth).mean() > 0.7
    np.testing.assert_allclose(model.predict_proba(fresh).sum(axis=1), 1, atol=1e-6)


def test_ledgers_hold_the_events_that_are_due():
    of = {name: estimator.ledger() for name, estimator in estimators().items()}
    assert of["output"].event.events == (PureDP(2.0),)
    assert of["objective"].event.events == (PureDP(2.0),)
    assert of["non-private"].event.events == (NonPrivate(),)
    slack, event = of["dp-sgd"].event.events
    assert slack == ApproximateDP(0.0, closeness(30 * (NETWORK.dim + 1)))
    plan = estimators()["dp-sgd"].plan()
    assert event == training_event(0.5, plan.noise_multiplier, 30)
    assert of["dp-sgd"].epsilon(delta=DELTA) <= 2.0
    assert of["dp-sgd"].epsilon(delta=DELTA) == pytest.approx(2.0, rel=2e-3)


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
    found = private.fit(features, labels)
    assert (predicted(found, features) == labels).mean() > 0.7
    assert found.guarantee.epsilon <= 50


def test_networks_without_privacy_take_steps():
    features, labels = series()
    plain = baselines.NonPrivateClassifier(
        bounds=(-1, 1),
        model=vf.expm.GruD(num_features=2, hidden=2),
        loss="l2",
        steps=100,
        learning_rate=0.1,
        seed=1,
    )
    model = plain.fit(features, labels)
    assert model.guarantee.epsilon == math.inf
    assert (predicted(model, features) == labels).mean() > 0.75


def test_squared_loss_without_privacy_ends_where_its_gradient_is_zero():
    rows, labels = rows_and_labels()
    made = baselines.NonPrivateClassifier(loss="l2", regularization=3.0, **FACTS)
    theta, x = made.fit(rows, labels).theta, np.c_[rows, np.ones(NUM)]
    chance = 1 / (1 + np.exp(-x @ theta))
    gradient = x.T @ (2 * (chance - labels) * chance * (1 - chance)) + 3.0 * theta
    assert np.abs(gradient).max() < 0.05  # of a sum over 600 records
    assert np.abs(theta).max() > 0.5


@pytest.mark.parametrize("settings", [{"batch_norm": True}, {"dropout": 0.5}])
def test_networks_learn_with_batch_normalization_and_with_dropout(settings):
    network = vf.expm.GruD(num_features=2, hidden=3)
    common = {"model": network, "bounds": (-1, 1), "seed": 1, "steps": 80, "batch_size": 32}
    features, labels = series()
    model = baselines.NonPrivateClassifier(**common, **settings).fit(features, labels)
    plain = baselines.NonPrivateClassifier(**common).fit(features, labels)
    assert (predicted(model, features) == labels).mean() > 0.9
    assert np.abs(model.theta - plain.theta).max() > 1e-3


def test_without_privacy_logistic_regression_is_that_of_everyone():
    rows, labels = rows_and_labels()
    peer = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(rows, labels)
    own = baselines.NonPrivateClassifier(regularization=1.0, **FACTS).fit(rows, labels)
    # the peer does not pull its intercept
    np.testing.assert_allclose(own.theta[:2], peer.coef_[0], rtol=0.01)


def test_noise_without_direction_has_the_length_it_should_and_no_direction():
    draws = np.array([perturbation.spherical(3, scale=2.0) for _ in range(2_000)])
    lengths = np.linalg.norm(draws, axis=1)
    # gamma of shape 3 and scale 2; five standard errors, so one run in a million fails
    assert lengths.mean() == pytest.approx(6, abs=5 * math.sqrt(12 / 2_000))
    assert np.abs((draws / lengths[:, None]).mean(axis=0)).max() < 5 / math.sqrt(3 * 2_000)


def test_output_noise_is_as_large_as_sensitivity_and_budget_say(monkeypatch):
    scales = []
    monkeypatch.setattr(
        "reproductions.expm_nf.baselines.output.spherical",
        lambda dim, *, scale: scales.append(scale) or np.zeros(dim),
    )
    estimator = baselines.OutputPerturbation(budget=PURE, regularization=5.0, **FACTS)
    estimator.fit(*rows_and_labels())
    # rows of length up to sqrt(2 + 1), over the pull, over epsilon
    assert scales == [pytest.approx(math.sqrt(3) / 5 / 2, rel=1e-6)]
    assert scales[0] >= math.sqrt(3) / 5 / 2


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_tilt_and_determinants_together_cost_epsilon(epsilon):
    estimator = baselines.ObjectivePerturbation(budget=vf.Budget(epsilon, 0), **FACTS)
    norm, pull = math.sqrt(3), estimator.pull()
    spent = estimator.beta() * norm + math.log1p(norm**2 / 4 / pull)
    assert spent == pytest.approx(epsilon)
    assert estimator.beta() > 0


def test_the_density_of_a_tilted_minimum_moves_by_at_most_epsilon():
    # what the proof multiplies, computed for hostile neighbors at many minima
    epsilon, pull, norm = 1.0, 2.0, math.sqrt(3)
    estimator = baselines.ObjectivePerturbation(
        budget=vf.Budget(epsilon, 0), regularization=pull, **FACTS
    )
    beta, rng = estimator.beta(), np.random.default_rng(0)
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
    ledgers = {name: estimator.ledger() for name, estimator in estimators().items()}
    of = {name: list(map(str, ledger.assumptions)) for name, ledger in ledgers.items()}
    assert perturbation.DOUBLE_ASSUMPTION.sentence in of["output"]
    assert objective.EXACT_ASSUMPTION.sentence in of["objective"]
    assert any("Threefry" in text for text in of["dp-sgd"])
    assert any("seed" in text for text in of["dp-sgd"])
    assert all(any("bounds" in text for text in each) for each in of.values())


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("DpSgdClassifier", {"budget": PURE, "num_records": 9}, "delta above 0"),
        ("DpSgdClassifier", {"budget": APPROXIMATE}, "declared number of records"),
        ("DpSgdClassifier", {"budget": APPROXIMATE, "loss": "hinge", "num_records": 9}, "loss"),
        ("NonPrivateClassifier", {"budget": PURE}, "leave out budget"),
        ("OutputPerturbation", {"budget": PURE, "bounds": (0, 1)}, "around 0"),
        (
            "OutputPerturbation",
            {"budget": PURE, "model": vf.expm.Mlp(num_features=2)},
            "logistic regression",
        ),
        (
            "ObjectivePerturbation",
            {"budget": PURE, "model": vf.expm.Logistic(num_features=2, num_classes=3)},
            "two classes",
        ),
        ("ObjectivePerturbation", {"budget": vf.Budget(math.inf, 0)}, "epsilon must be finite"),
    ],
)
def test_settings_that_cannot_be_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        getattr(baselines, kind)(**{**FACTS, **settings})


def test_too_little_regularization_is_refused_before_a_record_is_opened():
    estimator = baselines.ObjectivePerturbation(budget=PURE, regularization=1e-3, **FACTS)
    with pytest.raises(ValueError, match="too small for epsilon=2"):
        estimator.ledger()


@pytest.mark.parametrize("name", NAMES)
def test_no_records_are_fitted_like_one(name):
    none = estimators()[name].fit(np.empty((0, 2)), np.empty(0, int))
    one = estimators()[name].fit(*(part[:1] for part in rows_and_labels()))
    assert none.guarantee == one.guarantee
    assert np.isfinite(none.theta).all()


@pytest.mark.parametrize("name", NAMES[:3])
def test_what_costs_more_than_the_budget_is_refused_before_a_record_is_opened(name, monkeypatch):
    estimator = estimators()[name]
    honest = type(estimator)._spent
    dearer = lambda self: honest(self).spend(PureDP(50.0), purpose="more")  # noqa: E731
    monkeypatch.setattr(type(estimator), "_spent", dearer)
    monkeypatch.setattr(Sensitive, "open", lambda self: pytest.fail("a record was opened"))
    with pytest.raises(vf.BudgetError, match="all releases together"):
        estimator.fit(*rows_and_labels())
