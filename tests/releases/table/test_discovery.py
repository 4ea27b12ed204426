"""Values and bounds that nobody declared: what is asked, what is paid, what is kept."""

import math

import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow.privacy.events import ApproximateDP, NonPrivate, PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.release import Tools
from veilflow.releases.table.discovery import ColumnBounds, ColumnValues

TOOLS = Tools(Secret.from_seed(0))
WORDS = np.array(["b"] * 300 + ["a"] * 200 + ["c"] * 250 + ["alone"] + [None] * 100, object)


def values(**changes) -> ColumnValues:
    usual = {"column": "town", "max_values": 10, "epsilon": 2.0, "delta": 1e-6}
    return ColumnValues(purpose="values of town", **{**usual, **changes})


def bounds(**changes) -> ColumnBounds:
    usual = {"column": "wage", "step": None, "epsilon": 5.0}
    return ColumnBounds(purpose="bounds of wage", **{**usual, **changes})


def test_values_that_many_share_come_out_in_the_order_of_their_codes():
    release = values()
    released = release.run(Sensitive(WORDS), TOOLS)
    assert released.event == release.event == ApproximateDP(2.0, 1e-6)
    assert release.result(released.value) == ("a", "b", "c")
    assert values(max_values=2).run(Sensitive(WORDS), TOOLS).value == ["b", "c"]


def test_without_privacy_all_values_come_out_and_the_event_says_so():
    release = values(epsilon=math.inf, delta=0.0)
    released = release.run(Sensitive(WORDS), TOOLS)
    assert released.event == release.event == NonPrivate()
    assert released.value == ["a", "alone", "b", "c"]


@pytest.mark.parametrize("number", [0, 1])
def test_few_records_give_no_value(number):
    assert values().run(Sensitive(WORDS[:number]), TOOLS).value == []


def test_bounds_hold_nearly_all_numbers_and_lie_on_the_grid():
    numbers = np.append(np.linspace(-30.0, 500.0, 2000), [1e9, np.nan, np.inf])
    release = bounds()
    released = release.run(Sensitive(numbers), TOOLS)
    assert released.event == release.event == PureDP(5.0)
    assert release.result(released.value) == (-32.0, 512.0)
    assert bounds(step=100.0).result(released.value) == (-100.0, 600.0)


def test_without_privacy_bounds_are_the_extremes():
    release = bounds(epsilon=math.inf)
    released = release.run(Sensitive(np.array([3.0, np.nan, 7.5])), TOOLS)
    assert released.event == release.event == NonPrivate()
    assert release.result(released.value) == (3.0, 7.5)
    for numbers in (np.zeros(0), np.full(3, np.nan)):
        assert release.run(Sensitive(numbers), TOOLS).value == [0.0, 1.0]
    assert release.run(Sensitive(np.array([4.0])), TOOLS).value == [4.0, 5.0]
