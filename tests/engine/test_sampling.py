"""Batches are Poisson samples, and every drawn record is handed out once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from veilflow._core.keys import Secret
from veilflow._core.threefry import KEY_WORDS
from veilflow.engine import sampling


def test_inclusion_passes_a_chi_square_test_for_poisson_sampling():
    # false-alarm rate 1e-4 a check, seed fixed
    rate, num_records, steps = 0.07, 400, 2000
    keys = Secret.from_seed(11).words("draw", 0, steps, size=KEY_WORDS)
    drawn = np.asarray(jax.vmap(lambda k: sampling.draw(k, num_records, rate))(keys))
    per_record, per_batch = drawn.sum(axis=0), drawn.sum(axis=1)
    variance = rate * (1 - rate)
    chi_records = np.sum((per_record - steps * rate) ** 2) / (steps * variance)
    assert 1e-4 < stats.chi2.sf(chi_records, num_records) < 1 - 1e-4
    # batch sizes are binomial: neither fixed nor overdispersed
    chi_batches = np.sum((per_batch - num_records * rate) ** 2) / (num_records * variance)
    assert 1e-4 < stats.chi2.sf(chi_batches, steps) < 1 - 1e-4
    # pairs of records and of steps are independent
    for one, two in [(drawn[:, 0], drawn[:, 1]), (drawn[0], drawn[1])]:
        table = np.histogram2d(one, two, bins=2)[0] + 0.5
        assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.1, 1 / 3, 1e-9])
def test_the_true_rate_is_a_fraction_never_above_the_claimed_one(rate):
    words = sampling.threshold(rate)
    assert words / 2**32 <= rate < (words + 1) / 2**32


def test_rate_one_draws_everybody():
    assert sampling.draw(jnp.zeros(KEY_WORDS, jnp.uint32), 50, 1.0).all()


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan"), 1e-11])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(ValueError, match="sampling_rate"):
        sampling.threshold(rate)


@given(drawn=st.lists(st.booleans(), min_size=1, max_size=40), size=st.integers(1, 9))
def test_chunks_hand_out_every_drawn_record_once(drawn, size):
    running = sampling.places(jnp.array(drawn))
    found = []
    for start in range(0, len(drawn) + size, size):
        positions, exist = sampling.chunk(running, jnp.int32(start), size)
        found += [int(p) for p, e in zip(positions, exist, strict=True) if e]
    assert found == [i for i, d in enumerate(drawn) if d]
