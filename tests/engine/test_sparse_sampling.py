"""A batch drawn without a look at the other records is a Poisson sample all the same."""

import math
from fractions import Fraction
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from veilflow import engine
from veilflow._core.keys import Secret
from veilflow._core.threefry import KEY_WORDS
from veilflow.engine import sampling, sparse_sampling
from veilflow.engine.blocks import step_words
from veilflow.engine.loop import noise_of
from veilflow.engine.step import Step
from veilflow.engine.turns import Hidden

SECRET = Secret.from_seed(11)


def number_of(row):
    return int.from_bytes(row.astype(">u4").tobytes(), "big")


def masks(num_records, rate, steps):
    """For each step, which records were drawn; and whether any was drawn twice."""
    keys = SECRET.words("draw", 0, steps, size=KEY_WORDS)
    words = sampling.threshold(rate)
    draw = jax.jit(jax.vmap(lambda k: sparse_sampling.draw_few(k, num_records, words)))
    places, drawn = (np.asarray(x) for x in draw(keys))
    mask = np.zeros((steps, num_records), np.int64)
    for one, own, exist in zip(mask, places, drawn, strict=True):
        np.add.at(one, own[exist], 1)
    return mask


@pytest.mark.parametrize(("num_records", "words"), [(40, 2**28), (7, 1), (300, 2**29 + 12345)])
def test_the_table_holds_exact_cumulative_probabilities(num_records, words):
    first, table = sparse_sampling.count_table(num_records, words)
    rate = Fraction(words, 2**32)
    below, left = Fraction(0), Fraction(0)
    for number in range(num_records + 1):
        chance = (
            math.comb(num_records, number) * rate**number * (1 - rate) ** (num_records - number)
        )
        if not first <= number <= first + len(table):
            left += chance
            continue
        below += chance
        if number < first + len(table):
            error = below * 2**256 - number_of(table[number - first])
            assert abs(error) < 2**60
    assert left < Fraction(1, 2**200)


@pytest.mark.parametrize(("num_records", "batch"), [(10**6, 512), (2**31 - 1, 4096)])
def test_a_table_for_many_records_is_that_of_their_binomial(num_records, batch):
    words = sampling.threshold(batch / num_records)
    first, table = sparse_sampling.count_table(num_records, words)
    numbers = first + np.arange(len(table))
    ours = np.array([number_of(row) / 2**256 for row in table])
    theirs = stats.binom.cdf(numbers, num_records, words / 2**32)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert all(number_of(a) <= number_of(b) for a, b in pairwise(table))


@pytest.mark.parametrize(("num_records", "rate"), [(400, 0.06), (4096, 0.01)])
def test_batches_pass_a_chi_square_test_for_poisson_sampling(num_records, rate):
    # false-alarm rate 1e-4 a check, seed fixed
    steps = 2000
    drawn = masks(num_records, rate, steps)
    assert drawn.max() == 1  # never twice
    per_record, per_batch = drawn.sum(axis=0), drawn.sum(axis=1)
    variance = rate * (1 - rate)
    chi_records = np.sum((per_record - steps * rate) ** 2) / (steps * variance)
    assert 1e-4 < stats.chi2.sf(chi_records, num_records) < 1 - 1e-4
    # batch sizes are binomial: neither fixed nor overdispersed
    chi_batches = np.sum((per_batch - num_records * rate) ** 2) / (num_records * variance)
    assert 1e-4 < stats.chi2.sf(chi_batches, steps) < 1 - 1e-4
    # neighbors in the table, and batches of neighboring steps, are independent
    for one, two in [(drawn[:, :-1], drawn[:, 1:]), (drawn[:-1], drawn[1:])]:
        both = int((one & two).sum())
        assert stats.binomtest(both, one.size, rate**2).pvalue > 1e-4


def test_no_batch_is_cut():
    num_records, words = 200, sampling.threshold(1 / 16)
    first, table = sparse_sampling.count_table(num_records, words)
    keys = SECRET.words("draw", 0, 500, size=KEY_WORDS)
    numbers = [
        first
        + int(sparse_sampling._above(table, sparse_sampling._stream(jnp.asarray(k), 8, lane=1)))
        for k in keys[:50]
    ]
    sizes = masks(num_records, 1 / 16, 500).sum(axis=1)
    np.testing.assert_array_equal(sizes[:50], numbers)


def test_the_words_for_places_are_enough():
    num_records, words = 2**17, sampling.threshold(1 / 16)
    first, table = sparse_sampling.count_table(num_records, words)
    most, size = first + len(table), sparse_sampling._candidates(num_records, words)
    passed = most / num_records + (2**32 % num_records) / 2**32
    assert stats.binom.logsf(size - most - 1, size, passed) < -200 * math.log(2)


class Sum(eqx.Module):
    values: jax.Array


def linear(model, row, key):
    return row @ model.values


def step_of(rate, steps=4, **changes):
    plan = engine.TrainingPlan(
        clipping=engine.Flat(0.5),
        noise_multiplier=1.0,
        sampling_rate=rate,
        expected_batch_size=40.0,
        steps=steps,
        **changes,
    )
    model = Sum(jnp.zeros(3))
    trainable, fixed = eqx.partition(model, eqx.is_inexact_array)
    return Step(plan, linear, None, fixed, 32, noise_of(plan, model)), trainable


def test_a_step_on_many_records_sums_over_the_batch_that_was_drawn():
    num, rate = sparse_sampling._LEAST, 2.0**-12
    rows = np.random.default_rng(0).normal(size=(num, 3)).astype(np.float32)
    step, trainable = step_of(rate)
    words = step_words(SECRET, 0, 1)[0]
    places, drawn = sampling.sample(jnp.asarray(words[0]), num, rate)
    mask = np.zeros(num, bool)
    mask[np.asarray(places)[np.asarray(drawn)]] = True
    assert 5 < mask.sum() < 100
    key = jax.random.wrap_key_data(words[1, :2], impl="threefry2x32")
    wanted = step.clipped_sum(trainable, (), jnp.asarray(rows), jnp.asarray(mask), key)
    released = step._release(wanted, jnp.asarray(words[2]))
    state = step.init(trainable)
    after = eqx.filter_jit(step)(state, jnp.asarray(rows), words)
    np.testing.assert_allclose(
        after.trainable.values, step._move(state, released).trainable.values, rtol=1e-5
    )


def test_few_records_and_large_shares_are_drawn_one_by_one():
    key = jnp.asarray(SECRET.words("draw", 0, 1, size=KEY_WORDS)[0])
    for num, rate in [(1000, 0.01), (sparse_sampling._LEAST, 0.1)]:
        places, drawn = sampling.sample(key, num, rate)
        assert places is None
        np.testing.assert_array_equal(drawn, sampling.draw(key, num, rate))


def test_with_correlated_noise_a_record_still_has_one_turn_in_so_many_steps():
    num, bands, steps = sparse_sampling._LEAST, 3, 6
    step, _ = step_of(2.0**-8, steps=steps, noise_bands=bands)
    hidden = Hidden.after(0, noise=step.noise, num_records=num, secret=SECRET)
    seen = np.zeros((steps, num), bool)
    for i, words in enumerate(step_words(SECRET, 0, steps)):
        places, drawn = sampling.sample(jnp.asarray(words[0]), num, step.plan.turn_rate)
        drawn &= hidden.in_turn(places, jnp.int32(i), bands)
        seen[i, np.asarray(places)[np.asarray(drawn)]] = True
    groups = np.asarray(hidden.groups)
    for i in range(steps):
        assert seen[i].any()
        assert (groups[seen[i]] == i % bands).all()
