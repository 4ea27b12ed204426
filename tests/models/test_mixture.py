"""The mixture density: what it promises, what it pays for, and what it does with rows of any kind."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import veilflow as vf
from veilflow._core.codec import plain
from veilflow.models import artifact as artifacts
from veilflow.privacy.assumptions import FloatSums, Seeded
from veilflow.privacy.events import ApproximateDP, Gaussian, NonPrivate, Repeated
from veilflow.privacy.grid_noise import closeness
from veilflow.releases import em
from veilflow.releases import mixture as releases
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import SLACK

BUDGET = vf.Budget(epsilon=2.0, delta=1e-6)
SEED = 20_231
NUM_ROWS = 3000
LOW, HIGH = (-4.0, -2.0), (4.0, 3.0)
openly = pytest.mark.filterwarnings("ignore::veilflow.NotPrivateWarning")
BOUNDS_DECLARED = "bounds were declared, not read from the records"
PUBLIC = ("domain", "columns", "plan", "ledger", "guarantee")
CENTERS = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])


def frame(scale: float = 1.0, num_rows: int = NUM_ROWS, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = CENTERS[rng.integers(0, 3, num_rows)] + 0.3 * rng.normal(size=(num_rows, 2))
    return pd.DataFrame(scale * rows, columns=["east", "north"])


def estimator(scale: float = 1.0, **changes) -> vf.MixtureDensity:
    settings = {
        "budget": BUDGET,
        "bounds": (scale * np.array(LOW), scale * np.array(HIGH)),
        "num_components": 3,
        "seed": SEED,
    }
    if "row_norm" in changes:
        settings["bounds"] = None
    return vf.MixtureDensity(**{**settings, **changes})


def mixture_of(model: vf.FittedMixtureDensity) -> ExpectationMaximization:
    return model.plan.release(ExpectationMaximization)


@pytest.fixture(scope="module")
def three() -> vf.FittedMixtureDensity:
    return estimator().fit(frame(), progress=False)


@pytest.fixture(scope="module")
def saved(three: vf.FittedMixtureDensity, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "three.veil"
    three.save(path)
    return path


@pytest.fixture(scope="module")
def open_fit() -> vf.FittedMixtureDensity:
    """Without privacy."""
    with pytest.warns(vf.NotPrivateWarning, match="the result is not private"):
        return estimator(budget=vf.Budget(np.inf, 1e-6)).fit(frame(), progress=False)


# -- the guarantee and its ledger ------------------------------------------------------------------


def test_the_guarantee_is_within_the_budget_and_recomputes_from_the_ledger(three):
    assert 0.995 * BUDGET.epsilon < three.guarantee.epsilon <= BUDGET.epsilon
    assert three.guarantee.delta == BUDGET.delta
    again = vf.Ledger.from_json(json.loads(json.dumps(three.ledger.to_json())))
    assert again.epsilon(delta=BUDGET.delta) == pytest.approx(three.guarantee.epsilon, rel=1e-9)
    for other in ("rdp", "zcdp"):
        assert again.epsilon(delta=BUDGET.delta, accountant=other) >= three.guarantee.epsilon


def test_the_ledger_is_what_the_settings_say(three):
    noises = mixture_of(three).noise_multipliers(mixture_of(three).num_components)
    assert len(noises) == 24
    entry, slack = three.ledger.entries
    assert (entry.purpose, entry.event) == ("mixture", mixture_of(three).event)
    assert slack.purpose == SLACK
    base = (24 / sum(noise**-2 for noise in noises)) ** 0.5
    assert mixture_of(three).noise_multiplier == pytest.approx(base)
    one = estimator(num_components=1, steps=5).fit(frame(), progress=False)
    noise = mixture_of(one).noise_multiplier
    assert one.ledger.entries[0].event == Repeated(5, Gaussian(noise))
    assert one.plan == estimator(num_components=1, steps=5).plan()


def test_the_ledger_counts_every_release(monkeypatch):
    """As many Gaussian mechanisms as events, each with the noise its event says."""
    seen = []
    release = releases.gaussian_once

    def counted(query, **settings):
        seen.append((query.clip_norm, settings["noise_multiplier"]))
        return release(query, **settings)

    monkeypatch.setattr(releases, "gaussian_once", counted)
    model = estimator(steps=9).fit(frame(), progress=False)
    assert seen == [
        (1.0, noise)
        for noise in mixture_of(model).noise_multipliers(mixture_of(model).num_components)
    ]
    assert len(seen) == 9


def test_a_chosen_seed_is_confessed_and_a_fresh_secret_is_not(three):
    every = (BOUNDS_DECLARED, FloatSums().sentence, Seeded().sentence)
    assert tuple(map(str, three.guarantee.assumptions)) == every
    assert "uses it for no other fit" in Seeded().sentence
    fresh = estimator(seed=None, steps=2).fit(frame(), progress=False)
    assert tuple(map(str, fresh.guarantee.assumptions)) == every[:-1]


def test_the_number_of_records_is_released_with_the_components_or_declared(three):
    assert three.plan.num_records is None
    assert abs(three.facts["num_records"] - NUM_ROWS) < 200  # noise of deviation 25, 24 releases
    declared = estimator(num_records=NUM_ROWS, steps=2).fit(frame(), progress=False)
    assert declared.facts == {"num_records": NUM_ROWS}
    assert declared.plan.num_records == NUM_ROWS
    sentence = "bounds and the number of records were declared, not read from the records"
    assert sentence in map(str, declared.guarantee.assumptions)
    assert declared.ledger.entries == estimator(steps=2).fit(frame(), progress=False).ledger.entries


def test_a_fit_pays_for_the_distance_of_its_noise_from_gaussian(three):
    mixture, slack = three.ledger.entries
    assert slack.event == ApproximateDP(0.0, closeness(mixture_of(three).num_draws))
    assert mixture.purpose == "mixture"
    assert three.guarantee.epsilon <= BUDGET.epsilon


@openly
def test_without_a_budget_there_is_no_noise_and_the_ledger_says_so(open_fit, tmp_path):
    assert open_fit.guarantee.epsilon == np.inf
    assert [entry.event for entry in open_fit.ledger.entries] == [NonPrivate()]
    assert mixture_of(open_fit).noise_multiplier == 0
    again = estimator(budget=vf.Budget(np.inf, 1e-6), seed=1).fit(frame(), progress=False)
    np.testing.assert_array_equal(again.means, open_fit.means)
    open_fit.save(tmp_path / "m.veil")
    assert vf.load(tmp_path / "m.veil").guarantee.epsilon == np.inf


def test_more_than_the_budget_is_refused_before_a_row_is_used():
    with pytest.raises(vf.BudgetError, match=r"no noise_multiplier fits"):
        estimator(budget=vf.Budget(1e-9, 1e-15)).fit(frame(), progress=False)


def test_a_delta_that_admits_publishing_a_row_warns_with_and_without_a_declared_count():
    weak = vf.Budget(1.0, 0.01)
    for num_records in (NUM_ROWS, None):
        with pytest.warns(UserWarning, match=r"delta=0.01 is not below 1/[23]\d\d\d"):
            estimator(budget=weak, num_records=num_records, steps=2).fit(frame(), progress=False)


# -- neighbors -------------------------------------------------------------------------------------

EXTREME = {
    "huge": [1.7e308, -1.7e308],
    "corner": [4.0, 3.0],
    "other corner": [-4.0, -2.0],
    "duplicate": frame().to_numpy()[0],
    "tiny": [5e-324, 0.0],
    "far in one": [1e200, 0.0],
}


@pytest.mark.parametrize("name", EXTREME)
def test_one_extreme_row_moves_no_release_by_more_than_its_sensitivity(name, monkeypatch):
    """At every question that a fit asks, in the coordinates and with the components it has then."""
    asked = []
    local_sums = em.local_sums

    def watched(rows, mixture, question):
        asked.append((rows, mixture, question))
        return local_sums(rows, mixture, question)

    monkeypatch.setattr(em, "local_sums", watched)
    rows = frame(num_rows=500).to_numpy()
    estimator().fit(rows, progress=False)
    questions = asked[:]
    estimator().fit(np.vstack([rows, EXTREME[name]]), progress=False)
    extreme = asked[-1][0][-1:]
    assert len(questions) == 24
    assert {len(mixture.weights) for _, mixture, _ in questions} == {1, 2, 3, 4, 6}
    for same, mixture, question in questions:
        added = local_sums(np.vstack([same, extreme]), mixture, question)
        assert np.linalg.norm(added - local_sums(same, mixture, question)) <= 1 + 1e-9
        assert np.linalg.norm(local_sums(extreme, mixture, question)) <= 1


def test_one_extreme_row_more_changes_nothing_but_what_the_noise_covers():
    """The same seed: whatever differs came from the rows, and that is the released mixture alone."""
    rows = frame().to_numpy()
    one, two = (
        estimator(num_records=NUM_ROWS).fit(x, progress=False)
        for x in (rows, np.vstack([rows, [[1e308, -1e-310]]]))
    )
    for name in (*PUBLIC, "facts"):
        assert getattr(one, name) == getattr(two, name), name
    assert np.abs(one.means - two.means).max() < 0.1
    assert np.isfinite(two.log_prob(rows)).all()


def test_the_price_of_a_fit_is_settled_without_the_rows():
    few, many = (
        estimator(steps=3).fit(frame(num_rows=size), progress=False) for size in (40, 4000)
    )
    assert few.plan == many.plan == estimator(steps=3).plan(2)


# -- what it finds ---------------------------------------------------------------------------------


def test_it_finds_the_components(three):
    order = np.lexsort(np.round(three.means.T, 0))
    expected = CENTERS[np.lexsort(np.round(CENTERS.T, 0))]
    np.testing.assert_allclose(three.means[order], expected, atol=0.1)
    np.testing.assert_allclose(three.weights, 1 / 3, atol=0.05)
    for covariance in three.covariances:
        np.testing.assert_allclose(covariance, 0.09 * np.eye(2), atol=0.05)


def test_the_eight_gaussians_are_told_apart_at_epsilon_one_and_a_half():
    rows = vf.datasets.gaussians(27_000, seed=0, standardize=True)
    model = vf.MixtureDensity(
        budget=vf.Budget(1.5, 2e-5), bounds=(-2.5, 2.5), num_components=8, seed=0
    ).fit(rows, progress=False)
    test = vf.datasets.gaussians(5000, seed=1, standardize=True)
    assert model.log_prob(test).mean() > -1.05  # the generator itself has -0.99 on average


def test_privacy_costs_likelihood_and_a_larger_budget_less(open_fit):
    test = frame(seed=1)
    found = [
        estimator(budget=vf.Budget(epsilon, 1e-6), steps=12)
        .fit(frame(), progress=False)
        .log_prob(test)
        .mean()
        for epsilon in (0.02, 0.2, 2.0)
    ]
    assert found == sorted(found)
    assert found[-1] <= open_fit.log_prob(test).mean() + 0.01


def test_rows_in_a_ball_far_smaller_than_declared_are_found():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5)) * 0.02
    rows = 0.2 + rng.normal(size=(20_000, 5)) @ root
    model = estimator(row_norm=1.0, num_components=1).fit(rows, progress=False)
    expected = multivariate_normal(np.full(5, 0.2), root.T @ root).logpdf(rows).mean()
    assert model.log_prob(rows).mean() > expected - 0.1


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((1, 2)),
        np.full((500, 2), 0.25),
        np.full((50, 2), 3.999),
        np.column_stack([np.zeros(500), np.arange(500) % 2]),
    ],
    ids=["one row", "repeated", "border", "discrete"],
)
@openly
@pytest.mark.parametrize("epsilon", [0.1, np.inf])
def test_rows_of_little_variety_give_a_finite_density(rows, epsilon):
    model = estimator(budget=vf.Budget(epsilon, 1e-6)).fit(rows, progress=False)
    assert np.isfinite(model.log_prob(rows)).all()
    assert np.isfinite(model.sample(100, seed=0)).all()
    assert (model.means >= LOW).all()
    assert (model.means <= HIGH).all()


# -- samples and densities -------------------------------------------------------------------------


def test_samples_have_the_shape_the_bounds_and_the_seed_asked_for(three):
    rows = three.sample(5000, seed=1)
    assert rows.shape == (5000, 2)
    assert (rows >= LOW).all()
    assert (rows <= HIGH).all()
    np.testing.assert_array_equal(rows, three.sample(5000, seed=1))
    assert np.abs(three.sample(3) - three.sample(3)).max() > 0
    assert three.sample(0).shape == (0, 2)
    nearest = np.linalg.norm(rows[:, None] - CENTERS, axis=2).argmin(axis=1)
    np.testing.assert_allclose(np.bincount(nearest) / 5000, 1 / 3, atol=0.06)


def test_the_density_is_that_of_the_weights_means_and_covariances(three):
    rows = three.sample(200, seed=0)
    parts = zip(three.weights, three.means, three.covariances, strict=True)
    density = sum(w * multivariate_normal(m, c).pdf(rows) for w, m, c in parts)
    np.testing.assert_allclose(three.log_prob(rows), np.log(density), rtol=1e-4, atol=1e-4)


def test_the_density_integrates_to_one(three):
    side = np.linspace(-12, 12, 801)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    assert np.exp(three.log_prob(grid)).sum() * (side[1] - side[0]) ** 2 == pytest.approx(
        1, abs=1e-3
    )


def test_another_unit_of_the_same_rows_shifts_the_log_density_by_the_log_of_the_scale(three):
    centimeters = estimator(scale=100.0).fit(frame(scale=100.0), progress=False)
    rows = frame(seed=2)
    np.testing.assert_allclose(
        centimeters.log_prob(100 * rows), three.log_prob(rows) - 2 * np.log(100), atol=1e-3
    )
    np.testing.assert_allclose(centimeters.means, 100 * three.means, atol=0.01)
    np.testing.assert_allclose(
        centimeters.covariances, 1e4 * three.covariances, rtol=1e-3, atol=0.1
    )


def test_the_density_far_away_is_zero_and_never_nan(three):
    far = np.array([[1e6, 0], [1e38, -1e38], [1.7e308, -1.7e308], [0, 5e-324]])
    found = three.log_prob(far)
    assert not np.isnan(found).any()
    assert (found[:3] < -1e6).all()


def test_columns_are_found_by_name_and_arrays_by_place(three):
    rows = frame()
    swapped = rows[["north", "east"]].assign(label="x")
    np.testing.assert_array_equal(three.log_prob(swapped), three.log_prob(rows.to_numpy()))
    with pytest.raises(ValueError, match="there is no column 'north'"):
        three.log_prob(rows[["east"]])
    with pytest.raises(ValueError, match="3"):
        three.log_prob(np.zeros((2, 3)))


def test_the_same_seed_gives_the_same_model_and_another_another(three):
    np.testing.assert_array_equal(estimator().fit(frame(), progress=False).means, three.means)
    other = estimator(seed=SEED + 1).fit(frame(), progress=False)
    assert np.abs(other.means - three.means).max() > 1e-6


# -- files -----------------------------------------------------------------------------------------


def test_loading_gives_everything_back(three, saved):
    again = vf.load(saved)
    assert type(again) is vf.FittedMixtureDensity
    for name in (*PUBLIC, "facts"):
        assert getattr(again, name) == getattr(three, name), name
    for ours, theirs in zip(again.mixture, three.mixture, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_neither_the_seed_nor_a_row_is_in_the_model_or_its_file(three, saved):
    data = saved.read_bytes()
    assert str(SEED) not in json.dumps(plain(three.plan)) + repr(three) + repr(estimator())
    assert str(SEED).encode() not in data
    for row in frame().to_numpy()[:50]:
        assert row.tobytes() not in data


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        *(("release", "dim", value) for value in (3, 10**9, -1, None, 2.0)),
        *(("release", "num_components", value) for value in (4, 10**12, 0, -1, "3")),
        *(("release", "steps", value) for value in (25, 10**12, 10**200, 0, -1)),
        *(("release", "noise_multiplier", value) for value in (0, -1.0, 1e-300, "inf")),
        *(("release", "kind", value) for value in ("Count", "Release", "FitPlan", "os.system")),
        ("release", "more", 1),
        ("manifest", "plan", None),
        ("manifest", "plan", []),
        ("arrays", ".weights", np.array([0.5, 0.5, 0.5])),
        ("arrays", ".weights", np.array([0.5, 0.7, -0.2])),
        ("arrays", ".weights", np.array([1.0, 0.0, 0.0])),
        ("arrays", ".weights", np.full(3, 1 / 3, np.float32)),
        ("arrays", ".weights", np.full((3, 1), 1 / 3)),
        ("arrays", ".means", np.full((3, 2), np.nan)),
        ("arrays", ".means", np.full((3, 2), 1e300)),
        ("arrays", ".factors", np.zeros((3, 2, 2))),
        ("arrays", ".factors", np.full((3, 2, 2), np.inf)),
        ("arrays", ".factors", np.broadcast_to(1e-200 * np.eye(2), (3, 2, 2)).copy()),
        ("arrays", "more", np.zeros(3)),
        ("schema", "columns", ["east"]),
        ("schema", "columns", "ab"),
        ("plan", "domain", {"kind": "Box", "low": [0, 0, 0], "high": [1, 1, 1]}),
        ("plan", "domain", {"kind": "torus"}),
        ("plan", "domain", []),
        ("plan", "kind", "FitPlan"),
    ],
)
def test_a_file_whose_parts_make_no_mixture_is_refused(three, tmp_path, where, name, value):
    whole = three.to_artifact()
    plan = whole.manifest["plan"]
    if where == "release":
        where, name, value = "plan", "releases", [{**plan["releases"][0], name: value}]
    if where == "plan":
        where, name, value = "manifest", "plan", {**plan, name: value}
    changed = dataclasses.replace(whole, **{where: {**getattr(whole, where), name: value}})
    artifacts.save(changed, tmp_path / "model.veil")
    with pytest.raises(vf.ArtifactError, match="do not make a MixtureDensity"):
        vf.load(tmp_path / "model.veil")


def test_a_file_without_an_array_is_refused(three, tmp_path):
    whole = three.to_artifact()
    arrays = {name: array for name, array in whole.arrays.items() if name != ".factors"}
    artifacts.save(dataclasses.replace(whole, arrays=arrays), tmp_path / "model.veil")
    with pytest.raises(vf.ArtifactError, match="do not make a MixtureDensity"):
        vf.load(tmp_path / "model.veil")


# -- input that is wrong ---------------------------------------------------------------------------


def test_a_fit_shows_its_progress_to_people_and_keeps_it_out_of_logs(capsys, monkeypatch):
    estimator(steps=2).fit(frame(), progress=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    estimator(steps=2).fit(frame(), progress=True)
    assert "mixture" in capsys.readouterr().err
