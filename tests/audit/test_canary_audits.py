"""White-box audits: the right engine is not refuted, broken ones are, and the bound says something."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.audit import broken_engines
from veilflow import audit, engine, nn
from veilflow._core.keys import Secret
from veilflow.audit.canary_audits import Axes, along_its_axis
from veilflow.audit.watched import plain_descent, run, watched
from veilflow.engine.blocks import step_words
from veilflow.flows import architectures
from veilflow.privacy.guarantees import Sensitive

DELTA = 1e-5
pytestmark = pytest.mark.usefixtures("optimized")

PLAN = engine.TrainingPlan(
    clipping=engine.Flat(1.0),
    noise_multiplier=1.0,
    sampling_rate=1.0,
    expected_batch_size=500,
    steps=8,
)


@pytest.fixture(scope="module")
def plan():
    return audit.with_epsilon(PLAN, 4.0, DELTA)


@pytest.mark.slow
def test_a_thousand_canaries_at_epsilon_4_are_seen(plan):
    result = audit.audit_gradients(plan, delta=DELTA, bound="one-run-f-dp", seed=0)
    assert result.claimed == pytest.approx(4.0, rel=1e-3)
    assert 1.5 <= result.lower_bound <= result.claimed
    assert not result.exceeds_claim
    assert not result.internal
    plain = audit.audit_gradients(plan, delta=DELTA, seed=0)
    assert 0.8 < plain.lower_bound < result.lower_bound


def test_a_right_engine_with_poisson_batches_is_not_refuted():
    plan = audit.with_epsilon(replace(PLAN, sampling_rate=0.1, steps=50), 1.0, DELTA)
    result = audit.audit_gradients(plan, delta=DELTA, num_canaries=300, seed=0)
    assert result.lower_bound < result.claimed
    assert result.scores["auc"] > 0.5


@pytest.mark.parametrize("name", ["no noise", "noise for the mean"])
def test_an_engine_with_too_little_noise_is_refuted(name):
    plan = audit.with_epsilon(PLAN, 1.0, DELTA)
    with broken_engines.BROKEN[name][0]():
        result = audit.audit_gradients(plan, delta=DELTA, num_canaries=300, seed=0)
    assert result.exceeds_claim


def test_what_is_audited_is_what_train_releases():
    plan = plain_descent(replace(PLAN, sampling_rate=0.5, expected_batch_size=1.0))
    places = np.arange(20, dtype=np.int32)
    model = Axes(np.zeros(20, np.float32), slope=10.0)
    secret = Secret.from_seed(4)
    trained = engine.train(plan, along_its_axis, model, Sensitive(places), secret=secret)
    step, state = watched(plan, along_its_axis, model)
    after, released = run(step, state, places, step_words(secret, 0, plan.steps))
    np.testing.assert_allclose(trained.value.values, after.trainable.values, atol=1e-5)
    np.testing.assert_allclose(
        after.trainable.values, -np.asarray(released.values).sum(axis=0), atol=1e-5
    )


def square_loss(model, row, key):
    return jnp.sum(jnp.square(model(row[:4]) - row[4:]))


def rows_audit(plan, loss_fn, model, dim, **settings):
    rows = np.random.default_rng(0).normal(size=(60, dim)).astype(np.float32)
    return audit.audit_training(plan, loss_fn, model, rows, delta=DELTA, seed=1, **settings)


@pytest.mark.slow
def test_the_training_of_a_network_is_audited_with_rows(plan):
    model = nn.Dense.create(4, 20, key=jax.random.key(0))
    few = replace(plan, steps=4, expected_batch_size=30)
    right = rows_audit(few, square_loss, model, 24)
    assert not right.exceeds_claim
    assert right.method == "model canary"
    with broken_engines.no_noise():
        wrong = rows_audit(replace(few, noise_multiplier=0.05), square_loss, model, 24)
    # without noise the stream gives away who was in
    assert wrong.scores["auc"] > max(0.95, right.scores["auc"])


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_the_training_of_a_flow_is_audited_with_rows(plan, rate):
    flow = architectures.maf(2, blocks=1, hidden=(32,), key=jax.random.key(0))
    few = replace(plan, steps=8, sampling_rate=rate, expected_batch_size=30 * rate)
    result = rows_audit(few, lambda flow, row, key: -flow.private_log_prob(row), flow, 2)
    assert not result.exceeds_claim
    assert result.scores["auc"] > 0.5


def test_audits_refuse_what_they_cannot_see(plan):
    with pytest.raises(ValueError, match="without privacy"):
        audit.audit_gradients(replace(PLAN, private=False, noise_multiplier=0), delta=DELTA)
    adaptive = replace(plan, clipping=engine.AdaptiveQuantile())
    model = nn.Dense.create(4, 20, key=jax.random.key(0))
    with pytest.raises(ValueError, match="fixed bound"):
        rows_audit(adaptive, square_loss, model, 24)
