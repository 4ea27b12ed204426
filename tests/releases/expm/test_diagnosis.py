"""Diagnostics tell a good flow from a bad one, and a heavy tail that matters from one that does not."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import genpareto

from tests.releases.expm.two_parameters import RECORDS, SAMPLERS, TARGET, grid, trained
from veilflow._core.keys import Secret
from veilflow.releases.expm.diagnosis import diagnose, diagnose_flow, log_target, scores
from veilflow.releases.expm.importance import importance, pareto_tail
from veilflow.releases.expm.stein import stein_discrepancy


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SAMPLERS)
def test_no_draws_of_a_well_trained_flow_are_objected_to_whatever_their_tail(name):
    flow, shapes = trained(name).open(), []
    for seed in range(6):
        found = diagnose_flow(flow, TARGET, RECORDS, secret=Secret.from_seed(seed))
        assert found.importance.objections == ()
        assert found.importance.total_variation < 0.06
        assert found.importance.log_z == pytest.approx(grid().log_z, abs=0.03)
        shapes.append(found.importance.pareto_k)
    assert max(shapes) > 0.5  # tails that an objection to Pareto-k alone would meet


def test_a_hasty_flow_is_objected_to_by_every_number():
    hasty = dataclasses.replace(SAMPLERS["realnvp"], steps=20)
    found = diagnose(hasty, TARGET, RECORDS, secret=Secret.from_seed(1), draws=2_000)
    about = " ".join(found.objections)
    for words in ("total_variation", "pareto_k", "Stein"):
        assert words in about


def test_the_exact_log_target_has_the_gradient_of_its_scores():
    thetas = np.array([[1.0, -1.0], [3.0, 0.5]])
    found = scores(TARGET, thetas, RECORDS)
    step = 2.0**-5  # exact sums are rounded, so a step must be long
    for i in range(2):
        shift = step * np.eye(2)[i]
        above, below = (log_target(TARGET, thetas + sign * shift, RECORDS) for sign in (1, -1))
        np.testing.assert_allclose((above - below) / (2 * step), found[:, i], rtol=0.03, atol=0.1)


def test_weights_of_one_size_are_all_effective_and_have_no_tail():
    found = importance(np.full(1_000, -3.0))
    assert found.effective_share == pytest.approx(1)
    assert (found.total_variation, found.tail_share) == (0, 0)
    assert (found.log_z, found.mean_log) == (pytest.approx(-3), -3)
    assert found.pareto_k == -math.inf
    assert found.objections == ()


def test_one_weight_above_all_others_is_one_effective_draw():
    log_weights = np.zeros(1_000)
    log_weights[7] = 1_000.0  # the exponential of which is no float
    found = importance(log_weights)
    assert found.effective_share == pytest.approx(1e-3)
    assert found.total_variation > 0.99


@pytest.mark.parametrize("shape", [0.1, 0.5, 1.0])
def test_pareto_k_finds_the_shape_of_pareto_tails(shape, rng):
    weights = np.asarray(genpareto.rvs(shape, size=40_000, random_state=rng))
    assert pareto_tail(weights)[0] == pytest.approx(shape, abs=0.15)


def test_a_heavy_tail_is_objected_to_only_if_it_holds_weight(rng):
    tail = np.asarray(genpareto.rvs(0.9, size=4_000, random_state=rng))
    thin, thick = (importance(np.log1p(share * tail)) for share in (0.003, 0.05))
    # the shape is the same, for the weights differ by a factor around 1
    assert thin.pareto_k == pytest.approx(thick.pareto_k, abs=1e-6)
    assert thin.pareto_k > 0.8
    assert thin.objections == ()
    assert any("pareto_k" in objection for objection in thick.objections)


def test_total_variation_is_that_of_two_normals(rng):
    # draws from N(0, 1), weights of N(0.5, 1): the distance is 2 Phi(0.25) - 1
    draws = rng.normal(size=40_000)
    found = importance(0.5 * draws - 0.125)
    assert found.total_variation == pytest.approx(0.1974, abs=0.01)
    assert found.objections


def test_stein_finds_draws_of_the_target_and_of_no_other(rng):
    right = rng.normal(size=(400, 2)) * [1.0, 50.0]
    precision = np.array([1.0, 50.0]) ** -2
    p_values = [
        stein_discrepancy(thetas, -thetas * precision, rng=rng)[1]
        for thetas in (right, right + np.array([0.4, 0.0]), right * np.array([1.0, 0.7]))
    ]
    assert p_values[0] > 0.05
    assert max(p_values[1:]) < 0.01
