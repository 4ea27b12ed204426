"""Diagnostics tell a good flow from a bad one."""

import dataclasses
import math

import numpy as np
import pytest
from reproductions.expm_nf.diagnostics import (
    compare,
    diagnose,
    importance,
    log_target,
    scores,
)
from reproductions.expm_nf.discrepancy import pareto_k, stein_discrepancy
from scipy.stats import genpareto

from tests.releases.expm.two_parameters import (
    RECORDS,
    SAMPLERS,
    SENSITIVE,
    TARGET,
    grid,
    trained,
)
from veilflow.engine import Secret

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_a_well_trained_flow_has_no_objections_and_a_hasty_one_has_all():
    exact = grid().draws(2_000, seed=0)
    hasty = dataclasses.replace(SAMPLERS["realnvp"], steps=20)
    flows = [
        trained("realnvp"),
        hasty.fit(TARGET, SENSITIVE, secret=Secret.from_seed(1)),
    ]
    good, bad = (
        diagnose(
            flow.open(),
            TARGET,
            RECORDS,
            secret=Secret.from_seed(2),
            log_z=grid().log_z,
            exact=exact,
        )
        for flow in flows
    )
    assert good.objections == ()
    assert -0.005 < good.importance.gap < 0.02
    assert good.importance.log_z == pytest.approx(grid().log_z, abs=0.02)
    assert len(bad.objections) == 5


def test_the_exact_log_target_has_the_gradient_of_its_scores():
    thetas = np.array([[1.0, -1.0], [3.0, 0.5]])
    found = scores(TARGET, thetas, RECORDS)
    step = 2.0**-5  # exact sums are rounded, so a step must be long
    for i in range(2):
        shift = step * np.eye(2)[i]
        above, below = (log_target(TARGET, thetas + sign * shift, RECORDS) for sign in (1, -1))
        np.testing.assert_allclose((above - below) / (2 * step), found[:, i], rtol=0.03, atol=0.1)


def test_weights_of_one_size_are_all_effective_and_have_no_tail():
    found = importance(np.full(1_000, -3.0), log_z=-3.0)
    assert found.effective_share == pytest.approx(1)
    assert (found.log_z, found.gap) == (pytest.approx(-3), 0)
    assert found.pareto_k == -math.inf


def test_one_weight_above_all_others_is_one_effective_draw():
    log_weights = np.zeros(1_000)
    log_weights[7] = 1_000.0  # the exponential of which is no float
    assert importance(log_weights, log_z=0.0).effective_share == pytest.approx(1e-3)


@pytest.mark.parametrize("shape", [0.1, 0.5, 1.0])
def test_pareto_k_finds_the_shape_of_pareto_tails(shape, rng):
    weights = np.asarray(genpareto.rvs(shape, size=40_000, random_state=rng))
    assert pareto_k(weights) == pytest.approx(shape, abs=0.15)


def test_stein_finds_draws_of_the_target_and_of_no_other(rng):
    right = rng.normal(size=(400, 2)) * [1.0, 50.0]
    precision = np.array([1.0, 50.0]) ** -2
    p_values = [
        stein_discrepancy(thetas, -thetas * precision, rng=rng)[1]
        for thetas in (right, right + np.array([0.4, 0.0]), right * np.array([1.0, 0.7]))
    ]
    assert p_values[0] > 0.05
    assert max(p_values[1:]) < 0.01


def test_comparison_knows_chance_from_difference(rng):
    a, b = rng.normal(size=(2, 4_000, 3))
    same, other = compare(a, b), compare(a + np.array([0.0, 0.3, 0.0]), b)
    assert max(same.distances) < 2 * same.chance
    assert same.p_value > 0.05
    # normals a distance of 0.3 apart differ by 0.119 in total variation
    assert other.distances[1] == pytest.approx(0.119, abs=2 * other.chance)
    assert other.p_value < 1e-6
