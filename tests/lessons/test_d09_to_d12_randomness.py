"""Lessons about draws, keys and seeds."""

import inspect
import secrets

import jax
import numpy as np
import pytest
from scipy import stats

import veilflow as vf
from tests.lessons import small
from veilflow import engine
from veilflow._core.keys import Secret
from veilflow.engine import sampling
from veilflow.engine.blocks import step_words
from veilflow.engine.step import PURPOSES
from veilflow.privacy.assumptions import Seeded
from veilflow.privacy.events import PoissonSampled, Repeated


def test_d09_records_are_drawn_as_the_claimed_scheme_says():
    rate, records, steps = 0.1, 400, 300
    draw = jax.jit(lambda key: sampling.draw(key, records, rate))
    drawn = np.stack([draw(words[0]) for words in step_words(Secret.from_seed(4), 0, steps)])
    # by record: binomial, where dealing out in turn would make all counts equal
    spread = np.sum((drawn.sum(0) - steps * rate) ** 2) / (steps * rate * (1 - rate))
    assert 1e-6 < stats.chi2.sf(spread, records) < 1 - 1e-6
    # by step: binomial, where batches of a fixed size would all be equal
    spread = np.sum((drawn.sum(1) - records * rate) ** 2) / (records * rate * (1 - rate))
    assert 1e-6 < stats.chi2.sf(spread, steps) < 1 - 1e-6


def test_d09_the_event_comes_from_the_sampler_and_cannot_be_another():
    plan = small.plan(sampling_rate=0.1)
    assert isinstance(plan.event, Repeated)
    assert isinstance(plan.event.event, PoissonSampled)
    assert plan.event.event.sampling_rate == plan.sampling_rate
    for taken in (engine.TrainingPlan, engine.train):
        assert not {"event", "sampler", "accountant"} & set(inspect.signature(taken).parameters)


def test_d10_an_empty_batch_gets_noise_and_is_counted():
    noise = [small.flat(small.moved(small.ROWS, rate=2.0**-31, step=i)) for i in (0, 1)]
    expected = small.NOISE * small.CLIP / small.BATCH
    for one in noise:
        assert np.std(one) == pytest.approx(expected, rel=0.15)
    assert not np.array_equal(noise[0], noise[1])
    model = small.fitted()  # nobody was drawn in any of its steps
    entry, _ = model.ledger.entries
    assert entry.event.times == small.estimator().training.steps
    entry, _ = small.estimator(steps=3).plan(2).ledger.entries
    assert entry.event.times == 3


def test_d11_no_key_is_used_twice():
    assert jax.config.jax_debug_key_reuse  # of every test
    with pytest.raises(jax.errors.KeyReuseError):
        jax.jit(lambda k: jax.random.normal(k) + jax.random.normal(k))(jax.random.key(0))
    words = step_words(Secret.from_seed(0), 0, 50)
    assert len({key.tobytes() for step in words for key in step}) == 50 * len(PURPOSES)


def test_d11_noise_is_independent_across_tensors_and_steps():
    first, second = (small.moved(small.ROWS, rate=2.0**-31, step=i) for i in (0, 1))
    tensors = [first.one.weight, first.two.weight, first.loose, second.one.weight]
    correlation = np.corrcoef([np.ravel(t) for t in tensors]) - np.eye(4)
    # of 180 entries: beyond 0.35 with probability below 1e-5
    assert np.abs(correlation).max() < 0.35


def test_d12_the_default_secret_is_256_bits_of_the_system_and_in_no_file(monkeypatch, tmp_path):
    asked = []

    def token_bytes(size):
        asked.append(size)
        return b"\xa5" * size

    with monkeypatch.context() as patch:
        patch.setattr(secrets, "token_bytes", token_bytes)
        assert Secret.from_seed(None).reveal() == b"\xa5" * 32
    assert asked == [32]
    assert Secret.fresh().reveal() != Secret.fresh().reveal()
    assert "a5" not in repr(Secret.fresh())
    path = tmp_path / "m.veil"
    small.fitted().save(path)
    secret = Secret.from_seed(small.estimator().seed).reveal()
    data = path.read_bytes()
    assert secret not in data
    assert secret.hex().encode() not in data
    assert b'"seed"' not in data


def test_d12_a_seed_that_a_person_chose_is_on_the_guarantee(tmp_path):
    assert Seeded() in small.fitted().guarantee.assumptions
    assert Seeded() not in small.estimator(seed=None).plan(2).ledger.assumptions
    path = tmp_path / "m.veil"
    small.fitted().save(path)
    assert Seeded() in vf.load(path).guarantee.assumptions
