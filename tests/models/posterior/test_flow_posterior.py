"""The estimator: prices before data, posteriors of every guide, files, refusals."""

import copy
import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest

import veilflow as vf
from tests.models.posterior import line
from veilflow._core.keys import Secret
from veilflow.models.posterior import exploration, fitting
from veilflow.models.posterior.guides import KINDS, FlatGuide, Guide
from veilflow.releases.rounds.values import LikelihoodValues

BUDGET = vf.Budget(epsilon=3.0, delta=1e-6)
RECORDS = line.records(2000)
MEAN, COVARIANCE = line.posterior(*RECORDS)
SD = np.sqrt(np.diag(COVARIANCE))


def estimator(**settings):
    given = {
        "log_likelihood": line.log_likelihood,
        "log_prior": line.log_prior,
        "parameters": line.NAMES,
        "budget": BUDGET,
        "seed": 3,
    }
    return vf.FlowPosterior(**{**given, **settings})


@pytest.fixture(scope="module")
def fitted():
    return estimator().fit(RECORDS, progress=False)


def test_a_private_posterior_is_near_the_exact_one(fitted):
    assert np.abs((fitted.mean - MEAN) / SD).max() < 1
    ratio = fitted.sd / SD
    assert ratio.min() > 0.85
    assert ratio.max() < 1.4
    exact = COVARIANCE[0, 1] / SD.prod()
    assert fitted.correlation[0, 1] == pytest.approx(exact, abs=0.15)
    low, high = fitted.interval(0.9).T
    assert ((low < fitted.mean) & (fitted.mean < high)).all()
    np.testing.assert_allclose(high - low, 2 * 1.645 * fitted.sd, rtol=0.1)


def test_the_ledger_is_known_before_the_records_and_spends_the_budget(fitted):
    plan = estimator().plan()
    assert plan == fitted.plan
    assert plan.ledger == fitted.ledger
    assert BUDGET.admits(plan.ledger)
    assert fitted.guarantee.epsilon == pytest.approx(BUDGET.epsilon, rel=2e-3)
    assert any("seed" in str(one) for one in fitted.guarantee.assumptions)
    assert any("likelihood" in str(one) for one in fitted.guarantee.assumptions)


def test_draws_follow_the_density(fitted):
    draws = fitted.sample(4096, seed=1)
    assert draws.shape == (4096, 2)
    np.testing.assert_array_equal(draws, fitted.sample(4096, seed=1))
    normal = 0.5 * np.log(np.linalg.det(2 * np.pi * np.e * fitted.covariance))
    assert -fitted.log_prob(draws).mean() == pytest.approx(normal, abs=0.08)
    with pytest.raises(ValueError, match="2 columns"):
        fitted.log_prob(np.zeros((3, 5)))


def test_a_file_holds_the_posterior_and_its_guarantee(fitted, tmp_path):
    fitted.save(tmp_path / "p.veil")
    loaded = vf.load(tmp_path / "p.veil")
    assert loaded.parameters == line.NAMES
    assert loaded.guarantee == fitted.guarantee
    np.testing.assert_array_equal(loaded.sample(10, seed=2), fitted.sample(10, seed=2))
    assert "intercept" in repr(loaded)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_holds_every_kind_of_guide(kind, tmp_path):
    sizes = Guide(kind=kind, hidden=(3,), blocks=2, num_bins=3)
    secret = Secret.from_seed(0)
    made = estimator(flow=sizes)
    guide = FlatGuide.at(sizes, MEAN, COVARIANCE, secret=secret)
    moved = eqx.tree_at(lambda g: g.numbers, guide, guide.numbers + 0.1)
    plan = made.plan()
    whole = vf.FittedPosterior(
        flow=moved.flow(), parameters=line.NAMES, plan=plan, guarantee=plan.guarantee, facts={}
    )
    whole.save(tmp_path / "p.veil")
    again = vf.load(tmp_path / "p.veil")
    assert again.plan == plan
    points = whole.sample(5, seed=1)
    np.testing.assert_array_equal(again.sample(5, seed=1), points)
    np.testing.assert_array_equal(again.log_prob(points), whole.log_prob(points))


def wider(plan):
    plan["flow"]["hidden"] = [10**6]


def unknown(plan):
    plan["flow"]["kind"] = "glow"


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("schema", lambda schema: schema.update(parameters=["one"])),
        ("schema", lambda schema: schema.update(regression={"kind": "linear"})),
        ("schema", lambda schema: schema.update(regression=[])),
        ("manifest", lambda manifest: wider(manifest["plan"])),
        ("manifest", lambda manifest: unknown(manifest["plan"])),
        ("manifest", lambda manifest: manifest["plan"].update(dim=2)),
        ("arrays", lambda arrays: arrays.popitem()),
    ],
)
def test_a_doctored_file_is_refused(fitted, part, change):
    whole = fitted.to_artifact()
    parts = {name: copy.deepcopy(getattr(whole, name)) for name in ("manifest", "schema", "arrays")}
    change(parts[part])
    with pytest.raises((ValueError, vf.ArtifactError)):
        vf.FittedPosterior.from_artifact(dataclasses.replace(whole, **parts))


class Interrupted(Exception):
    """What stops a fit."""


def test_a_checkpoint_does_not_go_on_with_another_likelihood(tmp_path, monkeypatch):
    path, made = tmp_path / "run", estimator(flow="full-rank")
    with monkeypatch.context() as patched:
        patched.setattr(FlatGuide, "at", lambda *_, **__: (_ for _ in ()).throw(Interrupted))
        with pytest.raises(Interrupted):
            made.fit(RECORDS, progress=False, checkpoint=path)
    steeper = lambda theta, record: 2 * line.log_likelihood(theta, record)  # noqa: E731
    for other in ({"log_likelihood": steeper}, {"log_prior": lambda theta: -theta @ theta}):
        with pytest.raises(vf.PrivacyError, match="other settings"):
            estimator(flow="full-rank", **other).fit(RECORDS, progress=False, checkpoint=path)
    again = made.fit(RECORDS, progress=False, checkpoint=path)
    whole = made.fit(RECORDS, progress=False)
    np.testing.assert_array_equal(again.sample(5, seed=1), whole.sample(5, seed=1))


def test_steps_through_the_engine_keep_what_the_rounds_found():
    guide = Guide(kind="full-rank", num_draws=8)
    made = estimator(training=vf.Training(steps=8), num_records=2000, flow=guide)
    posterior = made.fit(RECORDS, progress=False)
    assert [entry.purpose for entry in posterior.ledger.entries] == [
        "gradients and curvatures",
        "training",
        "distance of grid noise from Gaussian",
    ]
    assert BUDGET.admits(posterior.ledger)
    assert np.abs((posterior.mean - MEAN) / SD).max() < 1.5
    assert (np.abs(np.log(posterior.sd / SD)) < 0.5).all()


def test_a_prior_that_is_not_normal_bends_the_guide():
    made = estimator(
        log_prior=lambda theta: -20.0 * jax.nn.softplus(-(theta[0] - MEAN[0]) / 0.01),
        flow=Guide(kind="realnvp", hidden=(4,), blocks=2),
        budget=vf.Budget(epsilon=50.0, delta=1e-6),
    )
    posterior = made.fit(RECORDS, progress=False)
    draws = posterior.sample(4000, seed=0)[:, 0]
    assert (draws < MEAN[0] - 0.5 * SD[0]).mean() < 0.15
    assert draws.mean() > MEAN[0]


def test_a_mean_field_guide_has_no_correlation():
    posterior = estimator(flow="mean-field").fit(RECORDS, progress=False)
    assert abs(posterior.correlation[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flow": "glow"}, "kind must be one of"),
        ({"flow": 3}, "flow must be"),
        (
            {"flow": Guide(objective="renyi"), "training": vf.Training(steps=5)},
            "steps are for the free energy",
        ),
        ({"precondition": False}, "there must be steps"),
        ({"precondition": False, "training": vf.Training(steps=5)}, "declare num_records"),
        ({"training": vf.Training(learning_rate=0.1)}, "learning_rate is for steps"),
        ({"training": vf.Training(batch_size=9, clip_norm=1.0)}, "needs num_records"),
        ({"training": vf.Training(steps=5, clip_norm=(1.0, 2.0))}, "clip_norm must be one"),
        ({"training": {"steps": 5}}, "training must be"),
        ({"scale": -1.0}, "scale must be positive"),
        ({"start": [0.0, 0.0, 0.0]}, "one for each of 2"),
        ({"log_likelihood": 3}, "log_likelihood must be a function"),
        ({"budget": vf.Budget(epsilon=1.0, delta=0)}, "delta must be positive"),
    ],
)
def test_settings_that_make_no_fit_are_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        estimator(**settings)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (np.float32(3.0), "one common"),
        ((np.zeros(3), np.zeros(4)), "one common"),
        (np.array(["a", "b"]), "numbers"),
    ],
)
def test_records_that_are_none_are_refused(records, message):
    with pytest.raises((TypeError, ValueError), match=message):
        estimator().fit(records, progress=False)


def test_without_privacy_the_guarantee_says_so():
    with pytest.warns(vf.NotPrivateWarning):
        posterior = estimator(
            budget=vf.Budget(epsilon=np.inf, delta=1e-6), training=vf.Training(steps=0)
        ).fit(RECORDS, progress=False)
    assert posterior.guarantee.epsilon == np.inf


@pytest.mark.filterwarnings("ignore:in . of 2 directions")
def test_few_records_for_the_noise_are_warned_of_once(fitted):
    assert fitted.few is False
    few = estimator(flow="full-rank", budget=vf.Budget(epsilon=0.5, delta=1e-6))
    with pytest.warns(vf.FewRecordsWarning, match="few records") as warned:
        posterior = few.fit(line.records(600), progress=False)
    told = [one for one in warned if issubclass(one.category, vf.FewRecordsWarning)]
    assert len(told) == 1
    assert told[0].filename == __file__
    assert posterior.few is True


def test_posteriors_of_several_sets_are_combined_by_the_usual_rule():
    means = [np.array([0.0, 1.0]), np.array([2.0, 1.0])]
    mean, covariance = vf.combine_posteriors(means, [np.eye(2), 3 * np.eye(2)])
    np.testing.assert_allclose(mean, [1.0, 1.0])
    np.testing.assert_allclose(covariance, 2 * np.eye(2) + 1.5 * np.diag([2.0, 0.0]))
    with pytest.raises(ValueError, match="at least two"):
        vf.combine_posteriors(means[:1], [np.eye(2)])


# -- values of the log-likelihood ------------------------------------------------------------------


def square(theta, record):
    """Of observations of the square of a parameter: its sign is not known."""
    return -0.5 * ((record[1] - theta[0] ** 2) / 10) ** 2


def of_values(**settings):
    given = {
        "log_likelihood": square,
        "log_prior": lambda theta: -0.5 * theta[0] ** 2,
        "parameters": 1,
        "start": 0.5,
        "flow": Guide(kind="nsf", hidden=(8,), target="values"),
        "budget": vf.Budget(epsilon=8.0, delta=1e-6),
    }
    return estimator(**{**given, **settings})


@pytest.mark.filterwarnings("ignore:there are few records")
def test_values_find_both_modes_as_planned_and_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(exploration, "_EXPLORING", (8, 64))
    monkeypatch.setattr(exploration, "_FINAL", (8, 64))
    monkeypatch.setattr(fitting, "_STEPS_ON_DRAWS", 300)
    x, _ = RECORDS
    y = 1.0 + 10 * np.random.default_rng(0).standard_normal(len(x)).astype(np.float32)
    made, path = of_values(), tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(FlatGuide, "at", lambda *_, **__: (_ for _ in ()).throw(Interrupted))
        with pytest.raises(Interrupted):
            made.fit((x, y), progress=False, checkpoint=path)
    asked = []
    monkeypatch.setattr(LikelihoodValues, "run", lambda *_, **__: asked.append(1))
    posterior = made.fit((x, y), progress=False, checkpoint=path)
    assert not asked  # everything was released before the crash
    assert posterior.ledger == made.plan().ledger
    # the rounds, five rounds of values, and what noise on a grid costs
    assert len(posterior.ledger.entries) == 7
    assert posterior.guarantee.epsilon == pytest.approx(8.0, rel=2e-3)
    draws = posterior.sample(2000, seed=0)[:, 0]
    assert 0.2 < (draws > 0).mean() < 0.8
    assert np.median(np.abs(draws)) == pytest.approx(np.sqrt(y.mean()), abs=0.25)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training": vf.Training(steps=5)}, "without steps"),
        ({"precondition": False}, "there must be steps"),
        ({"parameters": 13}, "at most 12 parameters"),
    ],
)
def test_values_with_settings_that_are_not_for_them_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        of_values(**settings)
