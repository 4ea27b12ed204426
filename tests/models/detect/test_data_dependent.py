"""Accounting by the votes that were cast: tighter, private, for noisy maxima only."""

import numpy as np
import pytest
from scipy.special import ndtr

from veilflow.models.detect.data_dependent import _ORDERS, _divergence, data_dependent_epsilon
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.answers import Answers
from veilflow.releases.part_mixtures import PartMixtures

PARTS = PartMixtures(num_components=1)
PLAN = Answers(method="noisy_max", parts=50, limit=100, noise_multiplier=5.0, settings=PARTS)


def epsilon(votes: list[int]) -> float:
    return data_dependent_epsilon(Sensitive(votes), PLAN, delta=1e-6).open()


def test_it_is_a_sensitive_number_that_does_not_show_itself():
    found = data_dependent_epsilon(Sensitive([50] * 10), PLAN, delta=1e-6)
    assert isinstance(found, Sensitive)
    assert f"{found.open():.2f}" not in repr(found)


def test_answers_all_parts_agree_on_are_nearly_free_and_others_cost_no_more_than_planned():
    planned = Ledger(entries=PLAN.entries(100)).epsilon(delta=1e-6, accountant="rdp")
    assert epsilon([50] * 100) < 0.2 * planned
    assert 0.5 * planned < epsilon([25] * 100) <= planned * 1.01
    assert epsilon([40] * 100) < epsilon([30] * 100)
    assert epsilon([40] * 50) < epsilon([40] * 100)
    assert epsilon([0] * 9) == pytest.approx(epsilon([50] * 9), rel=1e-3)


@pytest.mark.parametrize("votes", [0, 3, 24, 25, 26, 50])
def test_the_divergence_is_that_of_the_coins_rounded_up(votes):
    def coin(c: int) -> np.ndarray:
        return ndtr(np.array([2 * c - 50, 50 - 2 * c]) / 10)

    exact = np.zeros(len(_ORDERS))
    for c in (votes - 1, votes + 1):
        if 0 <= c <= 50:
            for p, q in ((coin(votes), coin(c)), (coin(c), coin(votes))):
                powers = _ORDERS * np.log(p[:, None]) + (1 - _ORDERS) * np.log(q[:, None])
                exact = np.maximum(exact, np.logaddexp(*powers) / (_ORDERS - 1))
    found = _divergence(votes, PLAN)
    capped = np.minimum(exact, _ORDERS / 50)
    assert (found >= capped * (1 - 1e-5) - 1e-12).all()
    np.testing.assert_allclose(found, capped, rtol=0.05, atol=1e-4)


def test_other_methods_are_refused():
    plan = Answers(method="exponential", parts=50, limit=100, epsilon=1.0, settings=PARTS)
    with pytest.raises(ValueError, match="only noisy_max"):
        data_dependent_epsilon(Sensitive([1]), plan, delta=1e-6)
