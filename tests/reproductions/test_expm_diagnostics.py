"""Where the target is known, its constant and exact draws join the diagnostics."""

import dataclasses

import numpy as np
import pytest
from reproductions.expm_nf.diagnostics import compare, diagnose

from tests.releases.expm.two_parameters import RECORDS, SAMPLERS, SENSITIVE, TARGET, grid, trained
from veilflow.engine import Secret

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


def test_a_well_trained_flow_has_no_objections_and_a_hasty_one_has_all():
    exact = grid().draws(2_000, seed=0)
    hasty = dataclasses.replace(SAMPLERS["realnvp"], steps=20)
    flows = [trained("realnvp"), hasty.fit(TARGET, SENSITIVE, secret=Secret.from_seed(1))]
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
    assert -0.005 < good.gap < 0.02
    assert len(bad.objections) == 5


def test_comparison_knows_chance_from_difference():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4_000, 3))
    same, other = compare(a, b), compare(a + np.array([0.0, 0.3, 0.0]), b)
    assert max(same.distances) < 2 * same.chance
    assert same.p_value > 0.05
    # normals a distance of 0.3 apart differ by 0.119 in total variation
    assert other.distances[1] == pytest.approx(0.119, abs=2 * other.chance)
    assert other.p_value < 1e-6
