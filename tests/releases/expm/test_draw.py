"""Draws as an entry of a plan: what is said beforehand, what is paid, and what is released."""

import numpy as np
import pytest

from tests.releases.expm.exact_problem import NUM, SENSITIVE, target
from veilflow._core import codec
from veilflow._core.keys import Secret
from veilflow.privacy.assumptions import FloatSums, Generator, Unproved
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import ExponentialMechanism, PureDP, Repeated, Together
from veilflow.privacy.guarantees import Released
from veilflow.privacy.ledger import Ledger
from veilflow.releases.expm.draw import SAMPLERS, ExponentialDraw
from veilflow.releases.expm.flow_sampler import FlowSampler
from veilflow.releases.expm.grid import GridSampler
from veilflow.releases.expm.grud import GruD
from veilflow.releases.expm.hmc import HmcSampler
from veilflow.releases.expm.loss import BoundedLoss
from veilflow.releases.expm.network import Logistic
from veilflow.releases.expm.prior import GaussianPrior
from veilflow.releases.expm.rejection import RejectionSampler
from veilflow.releases.expm.target import Target
from veilflow.releases.expm.zoom import ZoomSampler
from veilflow.releases.release import Release, Tools

EMPTY = Ledger()
SMALL = {
    "zoom": ZoomSampler(num_candidates=8),
    "rejection": RejectionSampler(num_records=NUM),
    "grid": GridSampler(candidates=[[0.0, 0.0], [1.0, -1.0]]),
    "flow": FlowSampler(flow="planar", blocks=1, steps=2, samples=2),
    "hmc": HmcSampler(warmup=2, steps=1, leapfrogs=1),
}


def draw(name: str, epsilon: float = 0.1, **settings) -> ExponentialDraw:
    made = ExponentialDraw(target=target(epsilon), sampler=SMALL[name], **settings)
    return made.knowing(NUM).at(epsilon)


def tools(seed: int = 0) -> Tools:
    return Tools(Secret.from_seed(seed))


def test_all_samplers_are_tried_here():
    assert set(SMALL) == set(SAMPLERS)


@pytest.mark.parametrize("name", SMALL)
def test_what_is_released_costs_what_was_said(name):
    release = draw(name, num_models=2)
    released = release.run(SENSITIVE, tools())
    assert released.event == release.event == Repeated(2, draw(name).event)
    assert released.value.shape == (2, 2)
    assert released.value.dtype == np.float32


@pytest.mark.parametrize("name", SMALL)
def test_it_is_written_and_read(name):
    release = draw(name, num_models=2)
    assert codec.restored(Release, codec.plain(release)) == release


@pytest.mark.parametrize("name", SMALL)
def test_only_what_is_not_proved_rests_on_a_generator_and_on_the_seed(name):
    release = draw(name)
    conditional = name in ("flow", "hmc")
    assert release.from_secret == conditional
    kinds = [type(assumption) for assumption in release.assumptions]
    assert kinds == ([Unproved, Generator] if conditional else [])


def test_sums_of_a_recurrent_network_are_not_exact():
    grud = Target(
        network=GruD(num_features=2, hidden=2),
        loss=BoundedLoss("l2"),
        prior=GaussianPrior(1.0),
        epsilon=1.0,
    )
    release = ExponentialDraw(target=grud, sampler=SMALL["zoom"])
    assert release.assumptions == (FloatSums(),)


def test_no_draw_is_made_with_the_secret_of_another(monkeypatch):
    seen = []

    def drawn(self, target, records, *, secret):
        seen.append(secret.reveal())
        return Released(np.zeros(2), self.event(target.epsilon))

    monkeypatch.setattr(HmcSampler, "draw", drawn)
    given = tools()
    draw("hmc", num_models=3).run(SENSITIVE, given)
    assert len({*seen, given.secret.reveal()}) == 4


def test_a_draw_that_cost_something_else_is_seen(monkeypatch):
    """`Run` compares the event with the planned one."""
    costs = iter([0.1, 0.2])
    monkeypatch.setattr(
        GridSampler,
        "draw",
        lambda *_, **__: Released(np.zeros(2), ExponentialMechanism(next(costs))),
    )
    release = draw("grid", num_models=2)
    released = release.run(SENSITIVE, tools())
    assert released.event == Together((ExponentialMechanism(0.1), ExponentialMechanism(0.2)))
    assert released.event != release.event


def test_a_counted_number_is_used_and_a_declared_one_is_kept(monkeypatch):
    seen = []

    def drawn(self, target, records, *, secret):
        seen.append(self.num_records)
        return Released(np.zeros(2), self.settled(target).event(target.epsilon))

    monkeypatch.setattr(ZoomSampler, "draw", drawn)
    open_ = ExponentialDraw(target=target(0.1), sampler=SMALL["zoom"]).at(0.1)
    assert open_.num_records is None
    for release in (open_, open_.knowing(7)):
        # the price was settled without the count, and does not change with it
        assert release.run(SENSITIVE, tools(), num_records=12).event == release.event
    assert seen == [12, 7]


def test_all_of_a_pure_budget_is_spent_and_no_more():
    before = EMPTY.spend(PureDP(0.25), purpose="count")
    release = draw("grid", num_models=3).priced(Budget(1.0, 0), before)
    assert release.event == Repeated(3, ExponentialMechanism(0.25))


def test_with_a_delta_draws_get_more_than_their_share_within_the_budget():
    budget = Budget(1.0, 1e-3)
    release = draw("grid", num_models=50).priced(budget, EMPTY)
    assert release.target.epsilon > 1.5 / 50
    assert EMPTY.spend(release.event, purpose="draws").epsilon(delta=1e-3) <= 1.0


def test_the_progress_bar_counts_models_and_their_price():
    release, done = draw("grid", num_models=3), []
    release.run(SENSITIVE, Tools(Secret.from_seed(0), done.append))
    assert done == [1, 2, 3]
    assert release.rounds == 3
    assert release.event_after(2) == Repeated(2, ExponentialMechanism(0.1))


@pytest.mark.parametrize("num_models", [0, -1, 1.5])
def test_there_is_at_least_one_draw(num_models):
    with pytest.raises((ValueError, TypeError), match="num_models"):
        draw("grid", num_models=num_models)


def test_a_network_for_another_loss_is_refused():
    with pytest.raises(ValueError, match="Give both the same"):
        Target(
            network=Logistic(num_features=1, num_classes=3),
            loss=BoundedLoss("l2"),
            prior=GaussianPrior(1.0),
            epsilon=1.0,
        )
