"""A threshold on a released density: three ways to set it, scores, files."""

import dataclasses
import types

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.detect.models import BALL, LEDGER, PLAN, mixture
from tests.models.image import small as images
from tests.models.table import small as tables
from veilflow._core import codec
from veilflow.models import registry
from veilflow.models.detect.likelihood import PUBLIC
from veilflow.models.detect.thresholds import threshold_of
from veilflow.privacy.dataset_ledger import ADAPTIVE
from veilflow.privacy.events import ExponentialMechanism
from veilflow.privacy.policy import Policy, PolicyError
from veilflow.releases.quantile import Quantile
from veilflow.releases.run import Run

OUTSIDE = "ignore:some rows lie outside:UserWarning"


@pytest.fixture(scope="module")
def detector() -> vf.LikelihoodDetector:
    return vf.LikelihoodDetector(mixture(), false_alarm_rate=0.05).from_samples(8_000, seed=1)


@pytest.fixture(scope="module")
def table() -> vf.LikelihoodDetector:
    with tables.quick():
        return vf.LikelihoodDetector(tables.fitted(), false_alarm_rate=0.1).from_samples(
            500, seed=1
        )


def threshold_alone(paid: vf.LikelihoodDetector):
    """Of the threshold alone, as if the model had cost nothing."""
    return dataclasses.replace(paid.plan, releases=paid.plan.releases[1:])


# -- thresholds ------------------------------------------------------------------------------------


def test_samples_of_the_model_are_called_odd_at_the_asked_rate(detector):
    rate = detector.predict(detector.model.sample(20_000, seed=2)).mean()
    assert rate == pytest.approx(0.05, abs=0.012)  # 4 deviations of both draws
    assert detector.ledger == LEDGER
    assert detector.plan == PLAN
    assert detector.guarantee == detector.model.guarantee
    same = vf.LikelihoodDetector(mixture(), false_alarm_rate=0.05).from_samples(8_000, seed=1)
    assert same.threshold == detector.threshold


def test_the_threshold_of_n_scores_is_exceeded_by_a_further_one_at_most_at_the_rate():
    rng = np.random.default_rng(0)
    scores = rng.exponential(size=(4000, 19))
    further = rng.exponential(size=4000)
    above = [x > threshold_of(row, 0.1, "n") for row, x in zip(scores, further, strict=True)]
    assert np.mean(above) == pytest.approx(0.1, abs=0.02)  # exactly 2 of 20 places
    assert threshold_of(np.arange(19.0), 0.1, "n") == 17.0


def test_scores_that_many_rows_share_do_not_raise_the_false_alarm_rate():
    scores = np.repeat([1.0, 2.0, 3.0], [90, 8, 2])
    assert (scores > threshold_of(scores, 0.05, "n")).mean() <= 0.05
    assert threshold_of(np.ones(100), 0.05, "n") == 1.0


def test_too_few_rows_for_a_rate_are_refused():
    detector = vf.LikelihoodDetector(mixture(), false_alarm_rate=0.01)
    with pytest.raises(ValueError, match=r"needs num_samples to be at least 99, got 98"):
        detector.from_samples(98)
    with pytest.raises(ValueError, match="the number of public rows to be at least 99"):
        detector.from_public(np.zeros((3, 2)))


@pytest.mark.filterwarnings(OUTSIDE)
def test_public_rows_set_a_threshold_and_the_guarantee_says_so():
    rows = np.random.default_rng(0).normal([1, 0], 0.5, size=(500, 2))
    detector = vf.LikelihoodDetector(mixture(), false_alarm_rate=0.1).from_public(rows)
    assert detector.predict(rows).mean() == pytest.approx(0.1, abs=0.01)
    assert detector.ledger.entries == LEDGER.entries
    assert detector.guarantee.epsilon == detector.model.guarantee.epsilon
    assert "declared public" in str(detector.guarantee)
    rows[:100] = 99.0
    with pytest.raises(ValueError, match="no threshold keeps the false-alarm rate"):
        detector.from_public(rows)
    assert detector.plan.conditions == (PUBLIC,)
    with pytest.raises(PolicyError, match="declared public"):
        Policy(conditional=False).check_guarantee(detector.guarantee)
    free = detector.from_samples(100)
    assert (free.plan, free.guarantee) == (PLAN, detector.model.guarantee)


@pytest.mark.filterwarnings(OUTSIDE)
def test_a_private_quantile_is_paid_for_beside_the_model():
    rows = mixture().sample(20_000, seed=4)
    rows[:10] = 99.0
    paid = vf.LikelihoodDetector(mixture(), false_alarm_rate=0.05).from_private(
        rows, budget=vf.Budget(epsilon=1.0, delta=0.0)
    )
    # with 4,096 candidates the rank is off by more than 40 of 20,000 once in 10^5 times
    assert paid.predict(rows).mean() == pytest.approx(0.05, abs=0.005)
    assert paid.plan.releases[:-1] == PLAN.releases
    events = {entry.purpose: entry.event for entry in paid.ledger.entries}
    assert events.pop(Quantile.purpose) == ExponentialMechanism(1.0)
    assert events == {entry.purpose: entry.event for entry in LEDGER.entries}
    assert paid.plan.budget == vf.Budget(PLAN.budget.epsilon + 1.0, PLAN.budget.delta)
    paid.plan.checked()
    alone = mixture().guarantee.epsilon
    assert alone < paid.guarantee.epsilon <= alone + 1.0
    # spent is spent, whatever sets the threshold after it
    assert paid.from_samples(100).ledger == paid.ledger
    twice = paid.from_private(rows, budget=vf.Budget(epsilon=1.0, delta=0.0))
    assert len(twice.ledger.entries) == len(LEDGER.entries) + 2
    assert len({entry.purpose for entry in twice.ledger.entries}) == len(twice.ledger.entries)
    with pytest.raises(ValueError, match="plan must hold all that was released"):
        vf.LikelihoodDetector.executed(paid.model, threshold_alone(paid))
    # what was spent cannot be dropped by a copy with other settings
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        dataclasses.replace(paid, false_alarm_rate=0.1)


@pytest.mark.filterwarnings(OUTSIDE)
def test_a_condition_of_the_model_stays_whatever_sets_the_threshold():
    plan = dataclasses.replace(PLAN, conditions=("the seed rows were declared public",))
    model = dataclasses.replace(mixture(), plan=plan, guarantee=plan.guarantee)
    detector = vf.LikelihoodDetector(model, false_alarm_rate=0.1)
    rows = model.sample(50, seed=1)
    public = detector.from_public(rows)
    assert public.plan.conditions == (*plan.conditions, PUBLIC)
    paid = public.from_private(rows, budget=vf.Budget(1.0, 0.0), progress=False)
    assert public.from_samples(50).plan.conditions == plan.conditions
    assert paid.plan.conditions == (*plan.conditions, ADAPTIVE.text)
    assert all("seed rows" in str(one.guarantee) for one in (public, paid))
    for change in ({"conditions": ()}, {"declared": ()}, {"seeded": True}):
        with pytest.raises(ValueError, match="plan must hold all"):
            vf.LikelihoodDetector.executed(model, dataclasses.replace(paid.plan, **change))


def test_a_threshold_that_a_person_gave_is_a_declared_fact(detector):
    given = vf.LikelihoodDetector(mixture(), threshold=3.0)
    assert any("the threshold" in one.sentence for one in given.guarantee.assumptions)
    assert given.guarantee.epsilon == detector.guarantee.epsilon
    again = registry.from_artifact(given.to_artifact())
    assert again.plan == given.plan
    assert again.threshold == 3.0
    # another threshold does not rest on it
    sampled = given.from_samples(500, seed=1, refit=False)
    assert sampled.plan == PLAN


def test_a_private_threshold_rests_on_a_budget_that_was_fixed_beforehand():
    free = vf.LikelihoodDetector(mixture(), false_alarm_rate=0.05)
    rows = free.model.sample(2_000, seed=3)
    paid = free.from_private(rows, budget=vf.Budget(epsilon=1.0, delta=0.0), progress=False)
    assert ADAPTIVE in paid.guarantee.assumptions
    # what was spent stays spent, on the same condition
    sampled = paid.from_samples(500, seed=1, refit=False)
    assert ADAPTIVE in sampled.guarantee.assumptions
    assert sampled.ledger == paid.ledger


def test_what_a_private_threshold_costs_is_known_before_rows_are_read():
    detector, budget = vf.LikelihoodDetector(mixture()), vf.Budget(0.5, 0.0)
    plan = detector.plan_private(budget)
    (entry,) = plan.ledger.entries
    assert entry.event == ExponentialMechanism(0.5)
    assert plan.guarantee.epsilon == pytest.approx(0.5)
    rows = np.zeros((30, 2))
    made = detector.from_private(rows, budget=budget, plan=plan, progress=False)
    assert made.plan.releases[-1] == plan.releases[0]
    with pytest.raises(vf.PrivacyError, match="not the one of this estimator"):
        detector.from_private(rows, budget=vf.Budget(0.6, 0.0), plan=plan)


def test_a_private_threshold_that_was_drawn_is_not_drawn_again(tmp_path, monkeypatch):
    """An interruption after the release goes on with what was released, whatever is drawn now."""
    rows, budget = mixture().sample(200, seed=4), vf.Budget(1.0, 0.0)
    detector = vf.LikelihoodDetector(mixture(), false_alarm_rate=0.1)

    class Killed(Exception):
        pass

    def killed(*_, **__):
        raise Killed

    drawn = []
    run = Quantile.run

    def noted(self, *args, **known):
        drawn.append(run(self, *args, **known))
        return drawn[-1]

    monkeypatch.setattr(Quantile, "run", noted)
    with monkeypatch.context() as patched:
        patched.setattr(Run, "finish", killed)
        with pytest.raises(Killed):
            detector.from_private(rows, budget=budget, checkpoint=tmp_path / "run")
    again = detector.from_private(rows, budget=budget, checkpoint=tmp_path / "run")
    assert [one.value for one in drawn] == [again.threshold]
    assert not (tmp_path / "run").exists()


def test_a_threshold_is_not_paid_for_with_nothing_or_with_infinity():
    detector = vf.LikelihoodDetector(mixture())
    with pytest.raises(TypeError, match="budget must be a Budget"):
        detector.from_private(np.zeros((3, 2)), budget=1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be finite"):
        detector.from_private(np.zeros((3, 2)), budget=vf.Budget(float("inf"), 1e-6))


def test_without_a_threshold_there_are_scores_but_no_answers():
    detector = vf.LikelihoodDetector(mixture())
    assert np.isfinite(detector.score([[0.0, 0.0]])).all()
    with pytest.raises(ValueError, match="no threshold yet"):
        detector.predict([[0.0, 0.0]])
    assert "no threshold yet" in repr(detector)
    declared = vf.LikelihoodDetector(mixture(), threshold=2.0)
    np.testing.assert_array_equal(declared.predict([[1, 0], [4, -4]]), [False, True])


# -- scores ----------------------------------------------------------------------------------------


def test_scores_are_minus_the_log_density(detector):
    rows = np.array([[1.0, 0.0], [3.0, -3.0]])
    np.testing.assert_array_equal(detector.score(rows), -detector.model.log_prob(rows))
    assert detector.predict(rows).tolist() == [False, True]


@pytest.mark.parametrize("model", [mixture(), mixture(BALL)], ids=["box", "ball"])
def test_rows_outside_the_bounds_are_odd_whatever_the_threshold(model):
    detector = vf.LikelihoodDetector(model, threshold=1e9)
    rows = np.array([[0.0, 0.0], [5.001, 0.0], [1e300, -1e300]])
    with pytest.warns(UserWarning, match="outside the declared bounds"):
        assert detector.score(rows).tolist()[1:] == [np.inf, np.inf]
    with pytest.warns(UserWarning, match="outside the declared bounds"):
        assert detector.predict(rows).tolist() == [False, True, True]
    border = model.domain.clamp(rows)  # on the border is inside, whatever rounding says
    assert not detector.predict(border).any()
    with pytest.raises(ValueError, match=r"missing|finite|numbers"):
        detector.score([[np.nan, 0.0]])


def test_a_table_is_scored_by_its_schema(table):
    rows = tables.frame(200, seed=5)
    np.testing.assert_array_equal(table.score(rows), -table.model.log_prob(rows))
    assert 0 <= table.predict(rows).mean() < 0.5
    rows.loc[3, "gain"] = 5000.0
    rows.loc[4, "age"] = None  # a gap is no number out of range
    with pytest.warns(UserWarning, match="outside the declared bounds"):
        scores = table.score(rows)
    assert np.flatnonzero(np.isinf(scores)).tolist() == [3]


def test_images_are_scored_as_members_of_a_class():
    model = images.drawn()
    with pytest.raises(ValueError, match="label must name the class"):
        vf.LikelihoodDetector(model)
    detector = vf.LikelihoodDetector(model, label="dot", false_alarm_rate=0.2).from_samples(50)
    shown = images.images()
    np.testing.assert_array_equal(detector.score(shown), model.ood_score(shown, "dot"))
    assert detector.predict(shown).dtype == bool
    with pytest.raises(ValueError, match="no columns"):
        detector.explain(shown)
    bare = vf.LikelihoodDetector(images.drawn("unlabeled"), threshold=0.0)
    assert bare.score(images.images(images.BARE)).shape == (images.NUM_IMAGES,)


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="model must be a fitted density, table or image model"):
        vf.LikelihoodDetector(vf.MixtureDensity(budget=vf.Budget(1.0, 1e-6), bounds=(0, 1)))
    with pytest.raises(ValueError, match="label is for image models"):
        vf.LikelihoodDetector(mixture(), label=3)
    with pytest.raises(ValueError, match="false_alarm_rate"):
        vf.LikelihoodDetector(mixture(), false_alarm_rate=0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        vf.LikelihoodDetector(mixture()).threshold = 1.0  # type: ignore[misc]


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["samples", "public", "private", "none"])
def test_a_detector_comes_back_from_its_file(detector, tmp_path, kind):
    rows = np.random.default_rng(0).normal([1, 0], 0.5, size=(500, 2))
    made = {
        "samples": detector,
        "public": detector.from_public(rows),
        "private": detector.from_private(rows, budget=vf.Budget(0.5, 0.0)),
        "none": vf.LikelihoodDetector(mixture(columns=("a", "b"))),
    }[kind]
    made.save(tmp_path / "d.veil")
    found = vf.load(tmp_path / "d.veil")
    assert isinstance(found, vf.LikelihoodDetector)
    for name in ("threshold", "false_alarm_rate", "ledger", "guarantee", "columns", "plan"):
        assert getattr(found, name) == getattr(made, name)
    assert found.model.ledger == made.model.ledger
    assert found.model.guarantee == made.model.guarantee
    np.testing.assert_array_equal(found.score(rows), made.score(rows))


def test_detectors_of_tables_and_images_come_back_too(table, tmp_path):
    table.save(tmp_path / "t.veil")
    rows = tables.frame(50, seed=6)
    np.testing.assert_array_equal(vf.load(tmp_path / "t.veil").score(rows), table.score(rows))
    detector = vf.LikelihoodDetector(images.drawn(), label="dot", threshold=1.0)
    detector.save(tmp_path / "i.veil")
    shown = images.images()
    np.testing.assert_array_equal(vf.load(tmp_path / "i.veil").score(shown), detector.score(shown))


@pytest.mark.parametrize(
    "change",
    [
        {"plan": {}},
        {"threshold": float("nan")},
        {"false_alarm_rate": 2},
        {"model": {"class": "LikelihoodDetector"}},
        {"model": {}},
    ],
    ids=str,
)
def test_a_doctored_file_is_refused(detector, change):
    whole = detector.to_artifact()
    with pytest.raises(vf.ArtifactError):
        registry.from_artifact(dataclasses.replace(whole, manifest={**whole.manifest, **change}))


def test_a_plan_that_leaves_out_what_the_model_cost_is_refused(detector):
    paid = detector.from_private(np.zeros((9, 2)), budget=vf.Budget(0.5, 0.0), progress=False)
    plan, whole = threshold_alone(paid), paid.to_artifact()
    doctored = dataclasses.replace(
        whole,
        manifest={**whole.manifest, "plan": codec.plain(plan)},
        ledger=plan.ledger,
        guarantee=plan.guarantee,
    )
    with pytest.raises(vf.ArtifactError):
        registry.from_artifact(doctored)


# -- explanations ----------------------------------------------------------------------------------


def log_normal(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance))


@pytest.mark.parametrize("correlation", [0.0, 0.8, 0.999])
def test_cells_are_explained_by_their_conditional_density(correlation):
    """Against the conditionals of normals, which are known."""
    model = mixture(correlation=correlation)
    rows = np.array([[1.0, 0.0], [1.5, -0.5], [-2.0, 1.0], [0.0, 0.0]])
    found = vf.LikelihoodDetector(model).explain(rows)
    covariances, weights = model.covariances, model.weights
    for j in (0, 1):
        i = 1 - j
        marginal, conditional = [], []
        for weight, mean, cov in zip(weights, model.means, covariances, strict=True):
            marginal.append(np.log(weight) + log_normal(rows[:, i], mean[i], cov[i, i]))
            slope = cov[i, j] / cov[i, i]
            rest = cov[j, j] - slope * cov[i, j]
            center = mean[j] + slope * (rows[:, i] - mean[i])
            conditional.append(marginal[-1] + log_normal(rows[:, j], center, rest))
        exact = np.logaddexp(*conditional) - np.logaddexp(*marginal) + np.log(10)
        np.testing.assert_allclose(found[:, j], exact, atol=0.02)


def test_the_odd_column_is_the_one_that_is_blamed():
    detector = vf.LikelihoodDetector(mixture(correlation=0.0))
    found = detector.explain([[1.0, 3.5], [-4.5, 0.0]])
    assert found.argmin(axis=1).tolist() == [1, 0]
    assert detector.explain([[1.0, 7.0]])[0].tolist()[1] == -np.inf
    ball = vf.LikelihoodDetector(mixture(BALL, correlation=0.0))
    assert ball.explain([[1.0, 3.5], [-4.5, 0.0]]).argmin(axis=1).tolist() == [1, 0]
    assert not np.isnan(ball.explain([[5.0, 0.0], [30.0, 40.0]])).any()


def test_cells_of_a_table_are_explained_by_sums_over_codes(table):
    """Against scores of the rows themselves with each listed value put in."""
    rows = tables.frame(6, seed=7).drop(index=0)
    found = table.explain(rows)
    assert found.shape == (5, len(table.columns))
    for name, values in (("sex", ["F", "M"]), ("grade", ["a", "b", "c", None])):
        own = table.model.log_prob(rows)
        each = [table.model.log_prob(rows.assign(**{name: value})) for value in values]
        exact = own - np.logaddexp.reduce(each, axis=0) + np.log(len(values))
        np.testing.assert_allclose(found[:, table.columns.index(name)], exact, atol=1e-4)
    rows = pd.concat([rows])
    rows.iloc[2, 1] = 5000.0
    assert table.explain(rows)[2].tolist()[1] == -np.inf


def test_a_table_without_exact_conditionals_is_not_explained(table, monkeypatch):
    monkeypatch.setattr(vf.FittedTableFlow, "density", types.SimpleNamespace(kind="hflow"))
    other = vf.LikelihoodDetector(dataclasses.replace(table.model))
    with pytest.raises(ValueError, match="only the flow of codes has exact conditionals"):
        other.explain(tables.frame(3))
