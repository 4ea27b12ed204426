"""The Hamiltonian chain goes to the target, and says that it may not be there."""

import dataclasses

import numpy as np
import pytest

from tests.releases.expm.two_parameters import SENSITIVE, TARGET, grid
from veilflow._core.keys import Secret
from veilflow.privacy.events import ExponentialMechanism
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.expm import hmc
from veilflow.releases.expm.hmc import HmcSampler

SAMPLER = HmcSampler(warmup=100, steps=250, leapfrogs=5)


def split_rhat(states):
    """Potential scale reduction of every coordinate: 1 where all halves of chains agree."""
    half = states.shape[1] // 2
    halves = np.concatenate([states[:, :half], states[:, -half:]]).astype(np.float64)
    within = halves.var(axis=1, ddof=1).mean(axis=0)  # 0 for chains that never moved
    return np.sqrt(
        (half - 1) / half + halves.mean(axis=1).var(axis=0, ddof=1) / np.maximum(within, 1e-30)
    )


def test_long_chains_have_the_marginals_of_the_grid_and_a_draw_is_the_end_of_one():
    # 16,000 states, worth perhaps half as many draws, in some thirty bins: .03 off by chance
    chains = SAMPLER.run(TARGET, SENSITIVE, secret=Secret.from_seed(3), chains=64)
    assert isinstance(chains, Sensitive)
    states = chains.open()
    assert states.shape == (64, 250, 2)
    assert grid().distance(states.reshape(-1, 2)) < 0.05
    assert max(split_rhat(states)) < 1.05


def test_chains_that_began_a_moment_ago_do_not_agree():
    young = dataclasses.replace(SAMPLER, warmup=1, steps=4, leapfrogs=1)
    chains = young.run(TARGET, SENSITIVE, secret=Secret.from_seed(3), chains=4)
    assert max(split_rhat(chains.open())) > 1.5


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


def test_the_search_for_a_step_size_begins_with_a_small_step_and_goes_up_from_there():
    search = hmc._Search.fresh()
    assert np.exp(search.log_step) == pytest.approx(0.1)
    assert np.exp(search.log_mean) == pytest.approx(0.1)
    assert search.after(np.float32(1.0), aim=0.8).log_step > search.log_step
    assert search.after(np.float32(0.0), aim=0.8).log_step < search.start
