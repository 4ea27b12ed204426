"""The search of the rounds: pure functions from released numbers to the next state."""

from dataclasses import replace

import numpy as np
import pytest

from veilflow.releases.rounds.state import (
    State,
    next_state,
    read_counts,
    read_few,
    surrogate_of,
    with_lengths,
)
from veilflow.releases.rounds.statistics import BINS, SENSITIVITY, bin_tops
from veilflow.releases.rounds.surrogate import PriorParts

START, SCALE = np.array([1.0, -2.0]), np.array([2.0, 0.5])
NOTHING = PriorParts(np.zeros(2), np.zeros((2, 2)))
PRECISION = np.array([[3.0, 0.4], [0.4, 9.0]])


def counted(noise: float = 0.0, number: float = 500.0) -> State:
    counts = np.zeros((2, BINS))
    counts[:, 80] = number
    first = State.first(START, SCALE)
    return with_lengths(first, first.next_factor(SCALE), counts, noise=noise)


def said(state: State, place: np.ndarray) -> np.ndarray:
    """The statistics of a quadratic with its top at `place`, as the records would give them."""
    gradient = state.factor.T @ PRECISION @ (place - state.mean)
    curvature = state.factor.T @ PRECISION @ state.factor
    pairs = np.array([curvature[0, 0], 2**0.5 * curvature[0, 1], curvature[1, 1]])
    return np.concatenate([gradient / state.bounds[0], pairs / state.bounds[1]])


def test_a_step_without_noise_leads_to_the_top_of_a_quadratic():
    top = START + 0.3 * SCALE
    before = counted()
    state = next_state(before, said(before, top), NOTHING, noise=0.0, average=False, reach=SCALE)
    np.testing.assert_allclose(state.mean, top)
    np.testing.assert_allclose(state.posterior @ state.posterior.T, np.linalg.inv(PRECISION))
    np.testing.assert_array_equal(before.mean, START)  # nothing of the old state is changed
    surrogate = surrogate_of(state, start=START, scale=SCALE, noise=0.0)
    np.testing.assert_allclose(surrogate.precision, PRECISION)
    np.testing.assert_allclose(surrogate.gradient, 0.0, atol=1e-9)
    assert (surrogate.unknown, surrogate.few) == (0, False)


def test_a_step_ends_at_its_reach():
    state = counted()
    top = START + np.array([10.0, -1.0]) * SCALE
    limited = next_state(state, said(state, top), NOTHING, noise=0.0, average=False, reach=SCALE)
    np.testing.assert_allclose((limited.mean - START) / SCALE, [1.0, -0.1])
    free = next_state(state, said(state, top), NOTHING, noise=0.0, average=False, reach=None)
    np.testing.assert_allclose(free.mean, top)


def test_averaged_answers_count_alike_and_others_are_forgotten():
    state = counted()
    for place in (START + 0.1, START - 0.1, START + 0.6):
        settings = {"noise": 0.0, "average": True, "reach": None}
        state = next_state(state, said(state, place), NOTHING, **settings)
    np.testing.assert_allclose(state.mean, START + 0.2)
    assert len(state.answers) == 3
    alone = next_state(state, said(state, START), NOTHING, **{**settings, "average": False})
    np.testing.assert_allclose(alone.mean, START)
    assert len(alone.answers) == 1


def test_counts_that_do_not_stand_out_change_nothing_but_are_kept():
    state = counted(noise=100.0, number=1.0)
    assert not state.significant
    assert state.lengths is None
    assert state.bounds == (1.0, 1.0)
    assert len(state.counts) == 1
    vague = surrogate_of(state, start=START, scale=SCALE, noise=1.0)
    np.testing.assert_allclose(np.diag(vague.precision), (3 * SCALE) ** -2.0)
    assert vague.unknown == 2


@pytest.mark.parametrize("size", [1e-12, 1e12, np.nan])
def test_coordinates_of_noise_are_not_taken(size):
    state = counted()
    wild = replace(state, posterior=size * state.posterior)
    np.testing.assert_array_equal(wild.next_factor(SCALE), state.factor)


# -- bounds from noisy counts ----------------------------------------------------------------------

SHAPE = np.array([0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.2, 0.13, 0.07, 0.03, 0.02])
FIRST = 70


def counts(number, noise, seed=0, silent=0):
    drawn = np.random.default_rng(seed).normal(0, noise * SENSITIVITY, (2, BINS))
    drawn[:, FIRST : FIRST + len(SHAPE)] += number * SHAPE
    drawn[:, 0] += silent
    return drawn


def by_certain_bins(noisy, noise):
    """The rule for plenty of records, in other words: 0.98 of what is in bins above 4.5 deviations."""
    bounds, totals = [], []
    for row in noisy:
        certain = {i: n for i, n in enumerate(row) if n > max(4.5 * noise * SENSITIVITY, 0.5)}
        totals.append(sum(certain.values()))
        inside, whole = 0.0, sum(n for i, n in certain.items() if i)
        for i, n in certain.items():
            inside += n if i else 0.0
            if i and inside >= 0.98 * whole:
                bounds.append(bin_tops()[i])
                break
    return tuple(bounds), np.mean(totals)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("number", "noise"), [(6_000, 40.0), (2_000, 5.0), (300, 0.0)])
def test_plenty_of_records_are_bound_by_their_certain_bins(number, noise, seed):
    noisy = counts(number, noise, seed, silent=number)
    found = read_counts(noisy, noise)
    bounds, total = by_certain_bins(noisy, noise)
    assert not found.few
    assert found.bounds == bounds
    assert found.num_records == pytest.approx(total)


@pytest.mark.parametrize("seed", range(10))
def test_few_records_are_found_together_and_are_not_cut(seed):
    noisy = counts(1_500, 40.0, seed)
    found = read_counts(noisy, 40.0)
    assert found.few
    assert found.significant
    longest = bin_tops()[FIRST + len(SHAPE) - 1]
    # nine tenths at least are below the bound of gradients, and it is not far above the longest
    assert bin_tops()[FIRST + 7] <= found.bounds[0] <= 8 * longest
    assert bin_tops()[FIRST + 5] <= found.bounds[1] <= 4 * longest
    assert found.num_records == pytest.approx(1_500, rel=0.4)


def test_counts_that_are_averaged_tell_of_fewer_records():
    several = [counts(400, 40.0, seed) for seed in range(8)]
    assert not any(read_counts(one, 40.0).significant for one in several)
    assert read_few(np.mean(several, axis=0), 40.0 / 8**0.5).significant


def test_noise_alone_tells_nothing():
    found = [read_counts(counts(0, 10.0, seed), 10.0) for seed in range(50)]
    assert sum(one.significant for one in found) == 0
    assert all(one.few for one in found)
    assert not read_counts(np.zeros((2, BINS)), 0.0).significant


def test_one_significant_row_does_not_make_the_other_so():
    noisy = counts(6_000, 40.0)
    noisy[1] = counts(0, 40.0, seed=1)[1]
    found = read_counts(noisy, 40.0)
    assert not found.significant
    assert np.isfinite(found.bounds[0])


def test_where_nothing_was_learned_the_surrogate_is_around_the_declared_mean():
    before = counted()
    top = START + 0.3 * SCALE
    state = next_state(before, said(before, top), NOTHING, noise=0.0, average=False, reach=SCALE)
    flat = replace(state.answers[0], curvature=np.zeros((2, 2)))
    surrogate = surrogate_of(replace(state, answers=(flat,)), start=START, scale=SCALE, noise=1e-12)
    assert surrogate.unknown == 2
    ascent = np.linalg.solve(surrogate.precision, surrogate.gradient)
    np.testing.assert_allclose(surrogate.mean + ascent, START)
