"""The search for settings: on public stays alone, trials that are repeated, one best."""

import json

import numpy as np
import pytest
from reproductions.expm_nf import fits, methods, probes, search, sets

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


def test_a_trial_learns_from_one_half_of_the_public_set_at_twice_the_epsilon(monkeypatch):
    whole = probes.problem()
    public = (np.arange(12.0)[:, None] / 12, np.arange(12) % 4 // 2)
    monkeypatch.setattr(sets, "load", lambda name: whole._replace(dev=public, kind="lr"))
    search.problem.cache_clear()
    half = search.problem("lr", "mortality")
    np.testing.assert_array_equal(half.train[0], public[0][::2])
    np.testing.assert_array_equal(half.test[1], public[1][1::2])
    asked = []
    monkeypatch.setattr(
        methods, "with_settings", lambda *args, **how: asked.append(how["epsilon"]) or object()
    )
    monkeypatch.setattr(methods, "fit", lambda *args: args)
    monkeypatch.setattr(fits, "auc", lambda *args: 0.5)
    monkeypatch.setattr(
        fits, "flow_draws", lambda *args, **how: asked.append(how["epsilon"]) or [0.5]
    )
    search.score("lr", "flow", {}, epsilon=1.0)
    assert asked == [2.0] * 4
    search.problem.cache_clear()


@pytest.mark.parametrize("kind", search.TRIALS)
@pytest.mark.parametrize("method", search.METHODS)
def test_every_trial_makes_an_estimator_and_the_first_has_the_settings_from_before(kind, method):
    problem = probes.problem()
    for number in range(search.TRIALS[kind]):
        settings = search.trial(kind, method, number)
        assert settings == search.trial(kind, method, number)
        made = methods.with_settings(method, problem, settings, epsilon=1.0, seed=1)
        assert made.budget.epsilon == 1.0
    assert search.trial(kind, method, 0) == methods.untuned(kind, method)


@pytest.fixture
def scores(tmp_path, monkeypatch):
    """A search in a folder of its own, whose trials are scored by their number of steps."""
    calls = []
    monkeypatch.setattr(search, "FILE", tmp_path / "search.json")

    def score(kind, method, settings, *, epsilon):
        calls.append((method, epsilon))
        return [settings["steps"] / 1_000 * (1 if epsilon > 0.1 else -1)]

    monkeypatch.setattr(search, "score", score)
    return calls


def test_trials_are_kept_and_the_best_is_that_of_the_nearest_epsilon(scores, capsys):
    search.run("lr", ("flow",))
    assert len(scores) == search.TRIALS["lr"] * len(search.EPSILONS["lr"])
    search.run("lr", ("flow",))
    assert len(scores) == len(json.loads(search.FILE.read_text()))
    steps = [search.trial("lr", "flow", n)["steps"] for n in range(search.TRIALS["lr"])]
    assert search.best("lr", "flow", 3.5)["steps"] == max(steps)
    assert search.best("lr", "flow", 1e-4)["steps"] == min(steps)
    assert search.best("grud", "flow", 1.0) == methods.untuned("grud", "flow")


def test_only_the_icu_sets_have_searched_settings(scores, capsys):
    search.run("lr", ("dp-sgd",))
    plain = probes.problem()
    tuned = plain._replace(kind="lr")
    found = [methods.estimator("dp-sgd", p, epsilon=1.0, seed=1).steps for p in (plain, tuned)]
    assert found[1] == search.best("lr", "dp-sgd", 1.0)["steps"]
    assert found[0] == 400
    assert sets.Problem._field_defaults == {"kind": None}
