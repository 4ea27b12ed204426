"""The auditor audited: the right engine passes every check, and each broken one fails its own."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.audit.broken_engines import BROKEN, BROKEN_PARTS
from veilflow import audit, engine, nn
from veilflow._core.keys import Secret
from veilflow.audit import statistics
from veilflow.engine.blocks import step_words

pytestmark = pytest.mark.usefixtures("optimized")

PLAN = engine.TrainingPlan(
    clipping=engine.Flat(1.0),
    noise_multiplier=1.3,
    sampling_rate=0.25,
    expected_batch_size=500,
    steps=100,
)


def test_the_right_engine_passes_every_check():
    report = audit.engine_check(PLAN)
    assert report.passed, str(report)
    # the bound is reached: a check that measured nothing would pass, too
    sensitivity = next(c for c in report.checks if c.name == "sensitivity")
    assert sensitivity.measured == pytest.approx(1.0, rel=1e-3)
    assert report.to_json()["passed"] is True
    assert {check for _, _, check in BROKEN.values()} <= {c.name for c in report.checks}


FAST = ("no noise", "networks clipped apart", "realized batch size", "shuffled batches")
"""One for each part that is measured; `make audit` has all of them."""

FAST_PARTS = ("one noise for all parts", "noise on one part")


@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in BROKEN]
)
def test_every_broken_engine_is_caught(name):
    broken, part, check = BROKEN[name]
    with broken():
        report = audit.engine_check(PLAN, parts=[part])
    assert check in report.failed
    assert "FAIL" in str(report)
    assert report.to_json()["passed"] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"clipping": engine.AdaptiveQuantile()},
        {"clipping": engine.PerLayer(2.0), "sampling_rate": 0.004},
        {"clipping": engine.PerUnit(1.0)},
        {"clipping": engine.Automatic(0.5)},
        {"clipping": engine.Sparsified(1.0, 0.5)},
        {"sampling_rate": 1.0, "noise_multiplier": 8.0},
    ],
    ids=str,
)
def test_the_right_engine_passes_with_every_clipping(changes):
    report = audit.engine_check(replace(PLAN, **changes))
    assert report.passed, str(report)


@pytest.mark.slow
def test_right_engines_are_not_accused_whatever_the_seed():
    # 8 measurements of 13 checks, each wrong with a chance below 1e-6
    for seed in range(8):
        report = audit.engine_check(PLAN, seed=seed)
        assert report.passed, str(report)


@pytest.mark.slow
def test_groups_are_measured_with_their_own_model():
    model = [nn.Dense.create(2, 3, key=jax.random.key(i)) for i in range(2)]
    clipping = engine.PerGroup.of(model, lambda m: m, [1.0, 2.0])
    plan = replace(PLAN, clipping=clipping)

    def loss_fn(model, row, key):
        return 1e3 * jnp.sum(model[0](row) - model[1](row))

    rows = np.ones((12, 2), np.float32)
    report = audit.engine_check(
        plan, model=model, loss_fn=loss_fn, records=rows, parts=["sensitivity"]
    )
    assert report.passed, str(report)
    assert report.checks[0].measured == pytest.approx(5**0.5, rel=1e-3)


@pytest.mark.slow
def test_the_right_step_of_parts_passes_every_check():
    report = audit.engine_check(PLAN, num_parts=3)
    assert report.passed, str(report)
    sensitivity = next(c for c in report.checks if c.name == "sensitivity")
    assert sensitivity.measured == pytest.approx(1.0, rel=1e-3)
    names = {c.name for c in report.checks}
    assert {"other parts", "divisor of what is common"} <= names
    assert {check for _, _, check in BROKEN_PARTS.values()} <= names


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [n if n in FAST_PARTS else pytest.param(n, marks=pytest.mark.slow) for n in BROKEN_PARTS],
)
def test_every_broken_step_of_parts_is_caught(name):
    broken, part, check = BROKEN_PARTS[name]
    with broken():
        report = audit.engine_check(PLAN, num_parts=3, parts=[part])
    assert check in report.failed


@pytest.mark.slow
def test_a_record_in_two_parts_moves_the_sum_too_far():
    with BROKEN_PARTS["record in two parts"][0]():
        report = audit.engine_check(PLAN, num_parts=2, parts=["sensitivity"])
    assert report.failed == ("sensitivity", "other parts")


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"num_parts": 1, "sampling_rate": 1.0},
        {"clipping": engine.PerLayer(2.0), "sampling_rate": 0.004},
    ],
    ids=str,
)
def test_the_right_step_of_parts_passes_whatever_the_plan(changes):
    changes = dict(changes)
    num_parts = changes.pop("num_parts", 3)
    report = audit.engine_check(replace(PLAN, **changes), num_parts=num_parts)
    assert report.passed, str(report)


@pytest.mark.slow
def test_parts_are_measured_with_their_own_model():
    model = [nn.Dense.create(2, 3, key=jax.random.key(i)) for i in range(2)]
    model[1] = jax.tree.map(lambda x: jnp.stack([x, -x]), model[1])
    clipping = engine.PerGroup.of(model, lambda m: m, [1.0, 2.0])

    def loss_fn(model, row, key):
        return 1e3 * jnp.sum(model[0](row) - model[1](row))

    records = np.ones((12, 2), np.float32), np.arange(12, dtype=np.int32) % 2
    settings = {"model": model, "loss_fn": loss_fn, "records": records, "num_parts": 2}
    report = audit.engine_check(
        replace(PLAN, clipping=clipping),
        **settings,
        common=lambda m: (m[0],),
        parts=["sensitivity"],
    )
    assert report.passed, str(report)
    assert report.checks[0].measured == pytest.approx(5**0.5, rel=1e-3)
    with pytest.raises(ValueError, match="2 parts as first axis"):
        audit.engine_check(PLAN, **settings)
    with pytest.raises(ValueError, match="must be two"):
        audit.engine_check(PLAN, **{**settings, "records": records[0]})


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"clipping": engine.AdaptiveQuantile()}, {"num_parts": 2}, "carries a state"),
        ({}, {"num_parts": 0}, "num_parts"),
        ({}, {"common": lambda m: (m,)}, "Give num_parts"),
        ({}, {"common": lambda m: (m,), "num_parts": 2}, "Give that model"),
    ],
)
def test_what_parts_are_not_measured_with_is_refused(changes, settings, message):
    with pytest.raises(ValueError, match=message):
        audit.engine_check(replace(PLAN, **changes), **settings)


def test_who_was_drawn_is_what_the_sampler_drew():
    secret = Secret.from_seed(3)
    drawn = statistics.who_was_drawn(PLAN, secret=secret, steps=4)
    for step, words in enumerate(step_words(secret, 0, 4)):
        expected = engine.sampling.draw(words[0], drawn.shape[1], 0.25)
        np.testing.assert_array_equal(drawn[step], expected)


def test_a_plan_without_privacy_and_half_a_model_are_refused():
    with pytest.raises(ValueError, match="no promise"):
        audit.engine_check(replace(PLAN, private=False, noise_multiplier=0))
    with pytest.raises(ValueError, match="together"):
        audit.engine_check(PLAN, records=np.ones((3, 2)))
    with pytest.raises(ValueError, match="some of sensitivity"):
        audit.engine_check(PLAN, parts=["noises"])
