"""Coins with probability exp(-x): the bounds enclose it, and every bit is read as it should be."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilflow.releases.expm import exact_coin
from veilflow.releases.expm.exact_coin import decide, exp_bounds, exp_coins

EXPONENTS = st.fractions(min_value=0, max_value=400).filter(lambda x: x > 0)


@settings(max_examples=60, deadline=None)
@given(exponent=EXPONENTS, bits=st.sampled_from([64, 128, 320]))
def test_bounds_enclose_the_exponential_and_are_close(exponent, bits):
    low, high = exp_bounds(exponent, bits=bits)
    assert high - low <= 3
    with localcontext() as context:
        context.prec = 400
        exact = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * 2**bits
        assert low <= exact <= high


@pytest.mark.parametrize(("exponent", "unit"), [(3, Fraction(1, 7)), (40, Fraction(1))])
def test_words_next_to_the_border_are_decided_by_further_bits(exponent, unit, monkeypatch):
    """A word that shares all 64 bits with exp(-x) is below it for low further bits only."""
    low, high = exp_bounds(exponent * unit, bits=64)
    words = np.array([low - 2, low, high + 1], np.uint64)
    given = np.full(3, exponent)
    for byte, middle in ((b"\x00", True), (b"\xff", False)):
        monkeypatch.setattr(exact_coin.os, "urandom", lambda n, byte=byte: byte * n)
        assert decide(words, given, unit=unit).tolist() == [True, middle, False]


def test_an_exponent_of_zero_always_comes_up_and_a_huge_one_does_not():
    words = np.array([0, 2**64 - 1], np.uint64)
    assert decide(words, np.zeros(2, np.int64), unit=Fraction(1)).all()
    assert not decide(words, np.full(2, 10**6), unit=Fraction(1))[1]


def test_a_chance_too_small_for_double_precision_is_still_decided_exactly(monkeypatch):
    """exp(-1000) is 2^-1443 or so: only bits that are all zero that far are below it."""
    monkeypatch.setattr(exact_coin.os, "urandom", lambda n: b"\x00" * n)
    zero = np.zeros(1, np.uint64)
    assert decide(zero, np.array([1000]), unit=Fraction(1)).all()
    monkeypatch.setattr(exact_coin.os, "urandom", lambda n: b"\x00" * (n - 1) + b"\x01")
    assert not decide(zero, np.array([1000]), unit=Fraction(1)).any()


def test_frequencies():
    """A false alarm once in ten million runs."""
    num = 40_000
    for exponent in (1, 5, 20):
        share = exp_coins(np.full(num, exponent), unit=Fraction(1, 10)).mean()
        expected = math.exp(-exponent / 10)
        assert abs(share - expected) < 5.4 * math.sqrt(expected * (1 - expected) / num)
