"""Bounds on epsilon: right on mechanisms whose epsilon is known, and tight where they can be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom

from veilflow.audit import bounds
from veilflow.privacy.budget import Budget
from veilflow.privacy.calibration import gaussian_mu

TRIALS = 400
# more than this many of 400 with a chance of 0.05 each: below 1e-4
MOST_ABOVE = int(binom.isf(1e-4, TRIALS, 0.05))


def guessed(rng, mu, canaries, guesses):
    """Right guesses about canaries whose scores are normal, and shifted by mu where they are in."""
    inside = rng.random(canaries) < 0.5
    order = np.argsort(rng.normal(size=canaries) + mu * inside)
    half = guesses // 2
    return int(inside[order[-half:]].sum() + (~inside[order[:half]]).sum())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_randomized_response_is_bounded_by_its_epsilon_and_nearly_reached(epsilon):
    rng = np.random.default_rng(0)
    right = rng.binomial(1000, expit(epsilon), size=TRIALS)
    cache = {c: bounds.one_run(correct=c, guesses=1000, canaries=1000, delta=0) for c in set(right)}
    found = np.array([cache[c] for c in right])
    assert (found > epsilon).sum() <= MOST_ABOVE
    assert np.mean(found) > 0.85 * epsilon - 0.1


@pytest.mark.parametrize("of_counts", [bounds.one_run, bounds.one_run_f_dp])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_gaussian_mechanism_is_hardly_ever_accused(of_counts, epsilon):
    mu = gaussian_mu(Budget(epsilon=epsilon, delta=1e-5))
    rng = np.random.default_rng(1)
    right = [guessed(rng, mu, 500, 100) for _ in range(TRIALS)]
    cache = {
        c: of_counts(correct=c, guesses=100, canaries=500, delta=1e-5) for c in sorted(set(right))
    }
    found = np.array([cache[c] for c in right])
    assert (found > epsilon).sum() <= MOST_ABOVE
    if epsilon == 4:
        assert np.median(found) > 1.2


def test_many_runs_of_a_gaussian_mechanism():
    mu = gaussian_mu(Budget(epsilon=1.0, delta=1e-5))
    rng = np.random.default_rng(2)
    runs, found = 2000, []
    for _ in range(TRIALS):
        hits = int((rng.normal(mu, 1, runs) > 1.5).sum())
        mistakes = int((rng.normal(0, 1, runs) > 1.5).sum())
        counts = {"true_positives": hits, "positives": runs}
        counts |= {"false_positives": mistakes, "negatives": runs}
        found.append(bounds.many_runs(**counts, delta=1e-5))
    assert sum(bound > 1.0 for bound in found) <= MOST_ABOVE
    assert np.median(found) > 0.1


def test_many_runs_that_are_told_apart_have_a_large_bound():
    counts = {"true_positives": 1000, "positives": 1000, "false_positives": 0, "negatives": 1000}
    # one over the upper end of a rate that was never seen: 3.7 in a thousand
    assert bounds.many_runs(**counts, delta=0) == pytest.approx(np.log(0.9963 / 0.0037), rel=0.01)
    # a test that says no where it should say yes is as good as one that is right
    swapped = {"true_positives": 0, "positives": 1000, "false_positives": 1000, "negatives": 1000}
    assert bounds.many_runs(**swapped, delta=0) == 0
    assert bounds.many_runs(**counts, delta=0.5) < bounds.many_runs(**counts, delta=0)


@given(
    canaries=st.integers(1, 400),
    data=st.data(),
    delta=st.sampled_from([1e-6, 1e-4, 1e-2]),
    confidence=st.sampled_from([0.9, 0.95, 0.99]),
)
def test_one_run_agrees_with_another_implementation(canaries, data, delta, confidence):
    auditing = pytest.importorskip("jax_privacy.auditing")
    guesses = data.draw(st.integers(1, canaries))
    correct = data.draw(st.integers(0, guesses))
    ours = bounds.one_run(
        correct=correct, guesses=guesses, canaries=canaries, delta=delta, confidence=confidence
    )
    none = canaries - guesses
    inside = np.concatenate([np.ones(correct), np.zeros(none // 2)])
    outside = np.concatenate([np.ones(guesses - correct), np.zeros(none - none // 2)])
    if not inside.size or not outside.size:
        return  # theirs asks for scores on both sides
    theirs = auditing.CanaryScoreAuditor(inside, outside).epsilon_one_run(
        1 - confidence, delta, threshold_strategy=auditing.Explicit(0.5)
    )
    assert ours == pytest.approx(theirs, abs=1e-4)


@given(correct=st.integers(0, 50), epsilon=st.floats(0, 8), delta=st.sampled_from([0.0, 1e-5]))
def test_a_chance_is_a_chance_and_falls_with_right_guesses(correct, epsilon, delta):
    counts = {"guesses": 50, "canaries": 80, "epsilon": epsilon, "delta": delta}
    one = bounds.one_run_p_value(correct=correct, **counts)
    assert 0 <= one <= 1
    if correct:
        assert one <= bounds.one_run_p_value(correct=correct - 1, **counts) + 1e-12


def test_half_right_says_nothing_and_more_canaries_cost_delta():
    assert bounds.one_run(correct=50, guesses=100, canaries=100, delta=0) == 0
    few = bounds.one_run(correct=90, guesses=100, canaries=100, delta=1e-4)
    many = bounds.one_run(correct=90, guesses=100, canaries=10_000, delta=1e-4)
    assert 0 <= many < few


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"correct": 11}, "at most guesses"),
        ({"canaries": 9}, "at most canaries"),
        ({"confidence": 1.0}, "confidence"),
        ({"delta": -1.0}, "delta"),
        ({"guesses": 0, "correct": 0}, "guesses"),
    ],
)
def test_counts_that_cannot_be_are_refused(changes, message):
    counts = {"correct": 5, "guesses": 10, "canaries": 10, "delta": 1e-5, "confidence": 0.95}
    with pytest.raises(ValueError, match=message):
        bounds.one_run(**{**counts, **changes})


def test_without_the_library_the_curve_bound_says_what_to_do(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax_privacy", None)
    with pytest.raises(ImportError, match="pip install"):
        bounds.one_run_f_dp(correct=5, guesses=10, canaries=10, delta=1e-5)
