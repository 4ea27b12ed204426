"""The auditor audited: the right engine passes every check, and each broken one fails its own."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.audit.broken_engines import BROKEN
from veilflow import audit, engine, nn
from veilflow._core.keys import Secret
from veilflow.audit import sampling_check

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
@pytest.mark.parametrize("name", BROKEN)
def test_every_broken_engine_is_caught_by_the_whole_measurement(name):
    broken, _, check = BROKEN[name]
    with broken():
        report = audit.engine_check(PLAN)
    assert check in report.failed


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"clipping": engine.AdaptiveQuantile()},
        {"clipping": engine.PerLayer(2.0), "sampling_rate": 0.004},
        {"clipping": engine.PerUnit(1.0)},
        {"clipping": engine.Automatic(0.5)},
        {"clipping": engine.Sparsified(1.0, 0.5)},
        {"hardened": True},
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


def test_who_was_drawn_is_what_the_sampler_drew():
    secret = Secret.from_seed(3)
    drawn = sampling_check.who_was_drawn(PLAN, secret=secret, steps=4)
    for step in range(4):
        expected = engine.sampling.draw(secret.key("draw", step), drawn.shape[1], 0.25)
        np.testing.assert_array_equal(drawn[step], expected)


def test_a_plan_without_privacy_and_half_a_model_are_refused():
    with pytest.raises(ValueError, match="no promise"):
        audit.engine_check(replace(PLAN, private=False, noise_multiplier=0))
    with pytest.raises(ValueError, match="together"):
        audit.engine_check(PLAN, records=np.ones((3, 2)))
    with pytest.raises(ValueError, match="some of sensitivity"):
        audit.engine_check(PLAN, parts=["noises"])
