"""The table behind all Gaussian noise: exact probabilities, and no word misread."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from veilflow.privacy import discrete_gaussian_table as table
from veilflow.privacy.discrete_gaussian_table import REACH, SIGMA, Thresholds, alias, pick

COLUMN = 1 << 79
FALSE_ALARM = 1e-9


@pytest.fixture(scope="module")
def probabilities() -> list[int]:
    """The law that the table of thresholds stands for, in units of 2^-95, by size."""
    found = [0] * REACH
    for own, bound, other in entries(table.thresholds()):
        found[own] += bound
        found[other] += COLUMN - bound
    return found


def entries(thresholds: Thresholds):
    for own, (column, middle, low) in enumerate(
        zip(*map(np.ndarray.tolist, thresholds), strict=True)
    ):
        yield own, (column >> 16) << 64 | middle << 32 | low, column & 0xFFFF


def test_the_table_holds_the_probabilities_of_a_discrete_gaussian(probabilities):
    assert sum(probabilities) == 2**95
    size = np.arange(REACH, dtype=np.longdouble)
    weights = np.exp(-(size**2) / (2 * SIGMA**2)) * np.where(size == 0, 1, 2)
    exact = (weights / weights.sum()).astype(float)
    found = np.array([p / 2**95 for p in probabilities])
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=2.0**-95)


def test_no_size_is_much_less_likely_than_it_should_be_and_all_exceed_by_little(probabilities):
    """In exact arithmetic: relative to the law below, in units of the table above."""
    from mpmath import exp, mp, mpf

    with mp.workdps(60):
        weights = [
            exp(-(mpf(k) ** 2) / (2 * SIGMA**2)) * (1 if k == 0 else 2) for k in range(REACH)
        ]
        total = sum(weights)
        exact = [w / total * 2**95 for w in weights]
        spared = max((e - p) / e for e, p in zip(exact, probabilities, strict=True))
        excess = sum(max(p - e, mpf(0)) for e, p in zip(exact, probabilities, strict=True))
        assert spared <= table.SPARED
        assert excess / 2**95 <= table.EXCESS


def test_the_law_has_next_to_nothing_beyond_the_table():
    assert stats.norm.logsf(REACH / SIGMA) + math.log(2) < math.log(table.BEYOND)


def test_an_alias_table_keeps_every_probability_to_the_last_unit():
    shares = [7 * COLUMN // 2, 0, 1, COLUMN // 2 - 1]
    bounds, others = alias(shares)
    found = [0] * 4
    for own, (bound, other) in enumerate(zip(bounds, others, strict=True)):
        found[own] += bound
        found[other] += COLUMN - bound
    assert found == shares


@pytest.mark.parametrize("shift", [-1, 0, 1])
@pytest.mark.parametrize("xp", [np, jnp], ids=["host", "device"])
def test_words_at_a_threshold_are_read_to_the_last_bit(shift, xp):
    """Fractions on, just below and just above the thresholds, for columns of all sizes."""
    chosen = [e for e in entries(table.thresholds()) if 0 < e[1] < COLUMN][:: REACH // 50]
    for own, bound, other in chosen:
        fraction = bound + shift
        first = np.array([own << 15 | fraction >> 64], np.uint32)
        second, last = (np.array([fraction >> s & 0xFFFFFFFF], np.uint32) for s in (32, 0))
        for sign in (0, 1):
            words = first | np.uint32(sign << 31)
            got = pick(Thresholds(*map(xp.asarray, table.thresholds())), words, second, last, xp=xp)
            expected = own if fraction < bound else other
            assert got.dtype == np.int32
            assert int(got[0]) == (-expected if sign else expected)


def test_numbers_follow_the_law():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (3, 1_000_000), dtype=np.uint32)
    drawn = pick(table.thresholds(), *words)
    edges = np.arange(-5 * SIGMA, 5 * SIGMA + 1, 64)
    inside, _ = np.histogram(drawn, edges)
    k = np.arange(-REACH, REACH + 1)
    mass = np.exp(-(k**2) / (2 * SIGMA**2))
    mass /= mass.sum()
    cells = np.add.reduceat(mass, edges[:-1] + REACH)
    cells[-1] = mass[edges[-2] + REACH : edges[-1] + REACH + 1].sum()
    assert stats.chisquare(inside, cells / cells.sum() * inside.sum()).pvalue > FALSE_ALARM
