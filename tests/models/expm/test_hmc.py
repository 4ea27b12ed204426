"""The Hamiltonian chain goes to the target, and says that it may not be there."""

import dataclasses

import numpy as np
import pytest

from tests.models.expm.two_parameters import SENSITIVE, TARGET, grid
from veilflow._core.keys import Secret
from veilflow.models.expm.diagnostics import INTERNAL, mixing
from veilflow.models.expm.hmc import HmcSampler
from veilflow.privacy.events import ExponentialMechanism
from veilflow.privacy.guarantees import Sensitive

SAMPLER = HmcSampler(warmup=100, steps=250, leapfrogs=5)


def test_long_chains_have_the_marginals_of_the_grid_and_a_draw_is_the_end_of_one():
    # 16,000 states, worth perhaps half as many draws, in some thirty bins: .03 off by chance
    chains = SAMPLER.run(TARGET, SENSITIVE, secret=Secret.from_seed(3), chains=64)
    assert isinstance(chains, Sensitive)
    states = chains.open()
    assert states.shape == (64, 250, 2)
    assert grid().distance(states.reshape(-1, 2)) < 0.05
    found = mixing(chains)
    assert max(found.rhat) < 1.05
    assert INTERNAL in repr(found)


def test_chains_that_began_a_moment_ago_do_not_agree():
    young = dataclasses.replace(SAMPLER, warmup=1, steps=4, leapfrogs=1)
    chains = young.run(TARGET, SENSITIVE, secret=Secret.from_seed(3), chains=4)
    assert max(mixing(chains).rhat) > 1.5
    with pytest.raises(ValueError, match="at least 4 states"):
        mixing(Sensitive(chains.open()[:, :3]))


def test_a_draw_carries_its_event_and_the_sampler_its_condition():
    short = dataclasses.replace(SAMPLER, warmup=1, steps=4, leapfrogs=1)
    values = []
    for seed in (7, 7, 8):
        released = short.draw(TARGET, SENSITIVE, secret=Secret.from_seed(seed))
        assert released.event == ExponentialMechanism(TARGET.epsilon)
        values.append(released.value)
    assert short.event(TARGET.epsilon) == ExponentialMechanism(TARGET.epsilon)
    assert str(short.assumption).startswith("CONDITIONAL:")
    assert (values[0] == values[1]).all()
    assert (values[0] != values[2]).any()
    chains = short.run(TARGET, SENSITIVE, secret=Secret.from_seed(7)).open()
    np.testing.assert_array_equal(values[0], chains[0, -1])


@pytest.mark.parametrize(
    "wrong", [{"warmup": 0}, {"steps": 0}, {"leapfrogs": 0}, {"acceptance": 1.0}]
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        HmcSampler(**wrong)
