"""The search of the rounds: pure functions from released numbers to the next state."""

from dataclasses import replace

import numpy as np
import pytest

from veilflow.releases.rounds.state import State, next_state, surrogate_of, with_lengths
from veilflow.releases.rounds.statistics import BINS
from veilflow.releases.rounds.surrogate import PriorParts

START, SCALE = np.array([1.0, -2.0]), np.array([2.0, 0.5])
NOTHING = PriorParts(np.zeros(2), np.zeros((2, 2)))
BOUNDS = (4.0, 8.0)
EXACT = {"bounds": BOUNDS, "noise": 0.0}
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
    return np.concatenate([gradient / BOUNDS[0], pairs / BOUNDS[1]])


def test_a_step_without_noise_leads_to_the_top_of_a_quadratic():
    top = START + 0.3 * SCALE
    before = counted()
    state = next_state(before, said(before, top), NOTHING, average=False, reach=SCALE, **EXACT)
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
    limited = next_state(state, said(state, top), NOTHING, average=False, reach=SCALE, **EXACT)
    np.testing.assert_allclose((limited.mean - START) / SCALE, [1.0, -0.1])
    free = next_state(state, said(state, top), NOTHING, average=False, reach=None, **EXACT)
    np.testing.assert_allclose(free.mean, top)


def test_where_there_is_no_top_a_step_promises_no_more_than_a_nat_for_each_record():
    number, slope = 500.0, 100.0
    state = counted(number=number)
    saddle = np.array([-1e-6, 0.0, 1e3]) / BOUNDS[1]
    statistics = np.concatenate([np.array([slope, 0.0]) / BOUNDS[0], saddle])
    after = next_state(state, statistics, NOTHING, average=False, reach=1e6 * SCALE, **EXACT)
    step = np.linalg.solve(state.factor, after.mean - state.mean)
    np.testing.assert_allclose(step, [number / slope, 0.0], atol=1e-6)
    free = next_state(state, statistics, NOTHING, average=False, reach=None, **EXACT)
    assert abs(free.mean - state.mean).max() > 1e6  # only the search is held back


def test_averaged_answers_count_alike_and_others_are_forgotten():
    state = counted()
    for place in (START + 0.1, START - 0.1, START + 0.6):
        settings = {"average": True, "reach": None, **EXACT}
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


def test_where_nothing_was_learned_the_surrogate_is_around_the_declared_mean():
    before = counted()
    top = START + 0.3 * SCALE
    state = next_state(before, said(before, top), NOTHING, average=False, reach=SCALE, **EXACT)
    flat = replace(state.answers[0], curvature=np.zeros((2, 2)))
    surrogate = surrogate_of(replace(state, answers=(flat,)), start=START, scale=SCALE, noise=1e-12)
    assert surrogate.unknown == 2
    ascent = np.linalg.solve(surrogate.precision, surrogate.gradient)
    np.testing.assert_allclose(surrogate.mean + ascent, START)
