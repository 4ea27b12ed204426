"""DP-EM's mathematics: what a record can add, plain EM without noise, and growth that keeps moments."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from veilflow.releases import em
from veilflow.releases.em import Belief, Mixture, Question
from veilflow.releases.mixture import resized, sizes

ROUNDING = 1e-6  # what adding a row of length 1 to sums of thousands may lose
HOSTILE = (0.0, 1e-300, 1.0, -(3.0**0.5), 3.0**0.5, 1e3, -1e8, 1e15, -1e15)


def a_mixture(k: int, dim: int, seed: int) -> Mixture:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, dim, dim)) * 10.0 ** rng.uniform(-3, 1, (k, 1, 1))
    covariances = roots @ np.swapaxes(roots, 1, 2) + 1e-8 * np.eye(dim)
    weights = rng.dirichlet(np.full(k, 0.3)) + 1e-12
    return Mixture(
        weights / weights.sum(), rng.normal(size=(k, dim)), np.linalg.cholesky(covariances)
    )


def a_belief(k: int, dim: int, seed: int) -> Belief:
    mixture = a_mixture(k, dim, seed)
    rng = np.random.default_rng(seed)
    return Belief(mixture, 1000 * mixture.weights, rng.uniform(size=k), rng.uniform(size=k))


def log_joint(rows: np.ndarray, mixture: Mixture) -> np.ndarray:
    parts = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    return np.stack([np.log(w) + multivariate_normal(m, c).logpdf(rows) for w, m, c in parts], 1)


# -- what a record can add -------------------------------------------------------------------------


@st.composite
def questions(draw):
    dim, k = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    row = np.array([draw(st.sampled_from(HOSTILE) | st.floats(-2, 2)) for _ in range(dim)])
    shares = np.array([draw(st.floats(0, 1)) for _ in range(k)])
    whole = draw(st.booleans())  # shares may also add up to less than 1
    shares = shares / shares.sum() if shares.sum() > 1 or (whole and shares.sum() > 0) else shares
    question = Question.of(dim, reach=draw(st.sampled_from(em._REACHES)))
    return a_mixture(k, dim, draw(st.integers(0, 50))), question, row, shares


@given(questions())
def test_no_record_adds_more_than_one_whatever_its_shares(case):
    mixture, question, row, shares = case
    added = em.weighted_sums(row[None], shares[None], mixture, question)
    assert np.linalg.norm(added) <= 1


@given(questions())
def test_one_record_more_moves_the_sums_by_at_most_one(case):
    mixture, question, row, _ = case
    others = np.random.default_rng(0).normal(size=(200, len(row)))
    others[:3] = row  # the same record may be there already
    before = em.local_sums(others, mixture, question)
    after = em.local_sums(np.vstack([others, row]), mixture, question)
    assert np.isfinite(after).all()
    assert np.linalg.norm(after - before) <= 1 + ROUNDING


@pytest.mark.parametrize("reach", [0.1, *em._REACHES])
@pytest.mark.parametrize("dim", [1, 2, 3, 10, 30])
def test_the_bound_is_reached_so_no_noise_is_wasted(dim, reach):
    mixture = Mixture(np.ones(1), np.zeros((1, dim)), np.eye(dim)[None])
    question = Question.of(dim, reach=reach)
    directions = np.vstack([np.eye(dim), np.ones(dim)])
    norms = [
        np.linalg.norm(em.local_sums(scale * row[None], mixture, question))
        for row in directions / np.linalg.norm(directions, axis=1, keepdims=True)
        for scale in (0.0, question.radius / 2, question.radius, 10 * question.radius)
    ]
    assert 1 - 1e-8 < max(norms) <= 1


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_the_expected_square_is_that_of_a_normal_moved_into_the_ball(dim):
    question = Question.of(dim)
    rows = np.random.default_rng(dim).normal(size=(200_000, dim))
    rows *= np.minimum(1, question.radius / np.linalg.norm(rows, axis=1))[:, None]
    # the mean of 200,000 squares of variance at most 2 is off by 0.003 a deviation
    assert np.square(rows).mean() == pytest.approx(question.expected, abs=0.015)


def test_more_records_or_less_noise_make_room_for_a_wider_ball():
    radii = [
        Question.for_counts(np.array([records, records]), 2, noise).radius
        for records, noise in ((0, 10.0), (300, 10.0), (3000, 10.0), (30_000, 10.0), (3000, 0.0))
    ]
    assert radii == sorted(radii)
    assert radii[0] == Question.of(2).radius
    assert radii[0] < radii[2] < radii[3] < radii[4] == math.inf


def test_sums_do_not_depend_on_how_rows_are_cut_into_blocks(monkeypatch):
    mixture, question = a_mixture(3, 2, 1), Question.of(2)
    rows = np.random.default_rng(0).normal(size=(101, 2))
    whole = em.local_sums(rows, mixture, question)
    monkeypatch.setattr(em, "_BLOCK", 60)
    np.testing.assert_allclose(em.local_sums(rows, mixture, question), whole, rtol=1e-12)
    assert not em.local_sums(rows[:0], mixture, question).any()


# -- steps -----------------------------------------------------------------------------------------


def test_without_noise_a_step_is_that_of_plain_em():
    rng = np.random.default_rng(3)
    rows = np.vstack([rng.normal(size=(300, 3)), 2 + 0.5 * rng.normal(size=(200, 3))])
    factors = np.stack([np.eye(3), 1.5 * np.eye(3)])
    mixture = Mixture(np.array([0.5, 0.5]), np.array([[0.5] * 3, [1.0] * 3]), factors)
    question = Question.without_limit()
    belief = Belief(mixture, 500 * mixture.weights, np.full(2, 0.2), np.zeros(2))
    sums = em.local_sums(rows, mixture, question)
    after = em.updated(belief, sums, question, noise_stddev=0.0, age=0)

    shares = np.exp(log_joint(rows, mixture))
    shares /= shares.sum(axis=1, keepdims=True)
    counts = shares.sum(axis=0)
    means = shares.T @ rows / counts[:, None]
    squares = np.einsum("nk,ni,nj->kij", shares, rows, rows) / counts[:, None, None]
    np.testing.assert_allclose(after.counts, counts, rtol=1e-4)
    np.testing.assert_allclose(after.mixture.weights, counts / 500, rtol=1e-4)
    np.testing.assert_allclose(after.mixture.means, means, rtol=1e-4)
    expected = squares - means[:, :, None] * means[:, None, :]
    np.testing.assert_allclose(after.mixture.covariances, expected, rtol=1e-3, atol=1e-5)
    assert not after.noise.any()


def test_a_clipped_question_is_unbiased_for_normals():
    """The true mixture stays where it is, although its tails are moved inwards."""
    rows = np.random.default_rng(0).normal(size=(200_000, 2))
    mixture = Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    belief, question = Belief(mixture, np.zeros(1), np.ones(1), np.zeros(1)), Question.of(2)
    sums = em.local_sums(rows, mixture, question)
    after = em.updated(belief, sums, question, noise_stddev=0.0, age=0)
    np.testing.assert_allclose(after.mixture.covariances[0], np.eye(2), atol=0.02)
    np.testing.assert_allclose(after.mixture.means[0], 0, atol=0.01)
    assert after.counts[0] == pytest.approx(200_000)


def test_a_clipped_question_underrates_a_change_of_the_spread_by_little():
    """Places are moved inwards, and by dividing by what is expected most of that is made good."""
    rows = 1.1 * np.random.default_rng(0).normal(size=(200_000, 2))
    mixture = Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    belief, question = Belief(mixture, np.zeros(1), np.ones(1), np.zeros(1)), Question.of(2)
    after = em.updated(
        belief, em.local_sums(rows, mixture, question), question, noise_stddev=0.0, age=0
    )
    rows *= np.minimum(1, question.radius / np.linalg.norm(rows, axis=1))[:, None]
    seen = np.square(rows).mean() / question.expected
    assert 1.0 < seen < 1.1**2
    np.testing.assert_allclose(np.diag(after.mixture.covariances[0]), seen, rtol=0.01)


@pytest.mark.parametrize("dim", [1, 2, 6, 20])
def test_scales_of_a_question_cost_the_least_likelihood(dim):
    """To second order, as the comment in `Question.of` counts it, under the same sensitivity."""
    question = Question.of(dim)
    costs = np.array([1 / 2, dim / 2, dim * (dim + 1) / 8])
    border = question.radius**2 - question.expected  # of a place at the border, along it
    across = question.expected * math.sqrt(dim - 1)
    largest = max(math.hypot(border, across), question.expected * math.sqrt(dim))
    lengths = np.array([1.0, question.radius, largest])

    def cost(scales: np.ndarray) -> float:
        return (costs / np.square(scales)).sum() * np.square(scales * lengths).sum()

    least = cost(np.array(question.scales))
    for place in range(3):
        for factor in (0.9, 1.1):
            other = np.array(question.scales)
            other[place] *= factor
            assert cost(other) > least


def test_noise_is_not_believed():
    """From sums of noise alone the first guess stays, and its size is known to be uncertain."""
    question, rng = Question.of(3), np.random.default_rng(0)
    for trial in range(20):
        belief = em.first_belief(3, 1.0)
        for age in range(20):
            sums = 100 * rng.normal(size=(1, 10))
            belief = em.updated(belief, sums, question, noise_stddev=100.0, age=age)
        values = np.linalg.eigvalsh(em.cautious(belief).covariances[0])
        assert values.min() > 0.05, trial
        assert values.max() < 30
        assert np.linalg.norm(belief.mixture.means) < 4
        assert belief.noise[0] > 0
        assert values.min() > np.linalg.eigvalsh(belief.mixture.covariances[0]).min()


def test_little_noise_is_believed_and_much_is_averaged():
    """The same shift, at two levels of noise: a gain near 1, and one near 0."""
    question = Question.of(1)
    truth = np.array([[question.scales[0] * 1000, question.scales[1] * 500, 0.0]])
    moved = [
        em.updated(em.first_belief(1, 1.0), truth, question, noise_stddev=noise, age=0)
        for noise in (0.01, 1e4)
    ]
    assert moved[0].mixture.means[0, 0] == pytest.approx(0.5, rel=0.01)
    assert abs(moved[1].mixture.means[0, 0]) < 0.1
    assert moved[0].doubt < moved[1].doubt


def test_repeated_rows_make_a_narrow_peak_and_not_an_infinite_one():
    belief, question = em.first_belief(2, 1.0), Question.without_limit()
    rows = np.full((1000, 2), 0.3)
    for age in range(40):
        sums = em.local_sums(rows, belief.mixture, question)
        belief = em.updated(belief, sums, question, noise_stddev=0.0, age=age)
    np.testing.assert_allclose(belief.mixture.means[0], 0.3, atol=1e-3)
    assert np.linalg.eigvalsh(belief.mixture.covariances[0]).min() >= 0.9e-8


# -- growth ----------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(1, 60))
def test_a_plan_of_sizes_has_every_step_and_ends_with_what_was_asked_for(k, steps):
    plan = sizes(k, steps)
    assert len(plan) == steps
    assert plan[-1] == k
    assert max(plan) <= 2 * k
    if steps >= 24 + 2 * math.log2(k):
        assert plan[0] == 1
        assert max(plan) == (2 * k if k > 1 else 1)


def moments(mixture: Mixture) -> tuple[float, np.ndarray, np.ndarray]:
    mean = mixture.weights @ mixture.means
    apart = mixture.means - mean
    spread = mixture.covariances + apart[:, :, None] * apart[:, None, :]
    return mixture.weights.sum(), mean, np.einsum("k,kij->ij", mixture.weights, spread)


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 4), st.integers(0, 20))
def test_cutting_and_joining_keep_mass_mean_and_covariance_of_the_whole(k, size, dim, seed):
    before = a_belief(k, dim, seed)
    after = resized(before, size)
    assert after.mixture.means.shape == (size, dim)
    assert after.counts.sum() == pytest.approx(before.counts.sum())
    for ours, theirs in zip(moments(after.mixture), moments(before.mixture), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    assert all(len(values) == size for values in (after.doubt, after.noise, after.mixture.weights))


def test_what_lies_together_is_joined_and_what_spreads_is_cut():
    mixture = Mixture(
        np.full(3, 1 / 3), np.array([[0.0], [0.05], [3.0]]), np.array([[[0.1]], [[0.1]], [[1.0]]])
    )
    belief = Belief(mixture, np.ones(3), np.full(3, 0.01), np.zeros(3))
    np.testing.assert_allclose(np.sort(resized(belief, 2).mixture.means[:, 0]), [0.025, 3])
    np.testing.assert_allclose(np.sort(resized(belief, 4).mixture.means[:, 0]), [0, 0.05, 2.2, 3.8])
