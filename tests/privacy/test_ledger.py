import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow._core.errors import ArtifactError, PrivacyError
from veilflow.privacy import events as ev
from veilflow.privacy.assumptions import Approximate, Conditional
from veilflow.privacy.ledger import FORMAT, Entry, Ledger
from veilflow.privacy.unit import Adjacency, Unit

TRAINING = ev.Repeated(300, ev.PoissonSampled(0.1, ev.Gaussian(4.5)))
LEDGER = (
    Ledger()
    .spend(ev.ZeroConcentrated(0.005), purpose="count")
    .spend(TRAINING, purpose="training")
    .assuming(Conditional("nobody has two rows"))
)


def test_an_empty_ledger_costs_nothing():
    assert Ledger().event is None
    assert Ledger().epsilon(delta=1e-6) == 0
    assert Ledger().delta(epsilon=0.5) == 0
    assert Ledger().shares(1e-6) == []


def test_spending_returns_a_longer_ledger_and_leaves_the_old_one_alone():
    before = Ledger()
    after = before.spend(ev.PureDP(1.0), purpose="bounds")
    assert before.entries == ()
    assert after.entries == (Entry("bounds", ev.PureDP(1.0)),)
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.entries = ()


def test_every_entry_adds_to_the_cost():
    spent = [Ledger().epsilon(delta=1e-5)]
    ledger = Ledger()
    for event in (ev.Gaussian(5.0), TRAINING, ev.Laplace(10.0), ev.ZeroConcentrated(0.01)):
        ledger = ledger.spend(event, purpose="x")
        spent.append(ledger.epsilon(delta=1e-5))
    assert spent == sorted(set(spent))


def test_the_order_of_entries_does_not_matter():
    backwards = dataclasses.replace(LEDGER, entries=LEDGER.entries[::-1])
    assert backwards.epsilon(delta=1e-5) == LEDGER.epsilon(delta=1e-5)


def test_an_assumption_is_kept_once_and_reaches_the_guarantee():
    ledger = LEDGER.assuming(Conditional("nobody has two rows"))
    assert ledger == LEDGER
    assert ledger.guarantee(delta=1e-5).assumptions == (Conditional("nobody has two rows"),)


def test_the_guarantee_says_what_it_is_for_and_by_whose_sums():
    ledger = Ledger(adjacency=Adjacency.REPLACE_ONE, unit=Unit.USER).spend(
        ev.Gaussian(2.0), purpose="sum"
    )
    guarantee = ledger.guarantee(delta=1e-5)
    assert guarantee.epsilon == ledger.epsilon(delta=1e-5)
    assert (guarantee.adjacency, guarantee.unit) == (Adjacency.REPLACE_ONE, Unit.USER)
    assert guarantee.accountant == "PLD"


def test_a_gdp_guarantee_calls_itself_an_approximation():
    guarantee = Ledger().spend(TRAINING, purpose="t").guarantee(delta=1e-5, accountant="gdp")
    assert Approximate("GDP-CLT") in guarantee.assumptions
    assert "not a bound" in str(guarantee)


def test_unprotected_use_makes_the_whole_ledger_worth_nothing():
    ledger = LEDGER.spend(ev.NonPrivate(), purpose="peek")
    assert ledger.epsilon(delta=1e-5) == math.inf
    assert ledger.guarantee(delta=1e-5).epsilon == math.inf
    assert ledger.shares(1e-5)[2] == ("peek", math.inf, 1.0)


def test_shares_are_what_each_purpose_would_cost_alone():
    (count, training) = LEDGER.shares(1e-5)
    assert count[0] == "count"
    assert training[1] == Ledger().spend(TRAINING, purpose="t").epsilon(delta=1e-5)
    assert count[2] + training[2] == pytest.approx(1)


def test_a_ledger_survives_json_text_and_costs_the_same():
    again = Ledger.from_json(json.loads(json.dumps(LEDGER.to_json(), allow_nan=False)))
    assert again == LEDGER
    assert again.epsilon(delta=1e-6) == LEDGER.epsilon(delta=1e-6)


def test_a_ledger_from_before_images_were_named_is_read_as_it_was_written():
    ledger = Ledger(unit=Unit.IMAGE).spend(ev.Gaussian(1.0), purpose="training")
    old = {**ledger.to_json(), "unit": "row"}
    assert Ledger.from_json(old).unit is Unit.ROW
    assert Ledger.from_json(ledger.to_json()) == ledger


def test_a_ledger_that_no_accountant_can_add_up_can_still_be_read():
    ledger = Ledger(adjacency=Adjacency.REPLACE_ONE).spend(TRAINING, purpose="t")
    assert Ledger.from_json(ledger.to_json()) == ledger
    with pytest.raises(PrivacyError, match="replace-one"):
        ledger.epsilon(delta=1e-5)


def _changed(**changes):
    return {**LEDGER.to_json(), **changes}


def test_an_older_ledger_is_refused_in_one_sentence():
    old = _changed(format=1, assumptions=["nobody has two rows"])
    with pytest.raises(ArtifactError, match="not have format 2") as refused:
        Ledger.from_json(old)
    assert str(refused.value).count(".") == 1


def test_a_sentence_is_no_assumption():
    with pytest.raises(TypeError, match="must be Assumption, got str"):
        LEDGER.assuming("nobody has two rows")
    with pytest.raises(TypeError, match="must be Assumption, got str"):
        Ledger(assumptions=("nobody has two rows",))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        _changed(format=FORMAT + 1),
        _changed(format=True),
        _changed(extra=1),
        _changed(adjacency="both"),
        _changed(adjacency=[]),
        _changed(unit=None),
        _changed(entries={}),
        _changed(entries=[None]),
        _changed(entries=[{"purpose": 3, "event": {"kind": "non-private"}}]),
        _changed(entries=[{"purpose": "", "event": {"kind": "non-private"}}]),
        _changed(entries=[{"purpose": "x" * 10**5, "event": {"kind": "non-private"}}]),
        _changed(entries=[{"purpose": "x", "event": {"kind": "gaussian"}}]),
        _changed(
            entries=[{"purpose": "x", "event": ev.Repeated(10**5000, ev.PureDP(1.0)).to_json()}]
        ),
        _changed(
            entries=[{"purpose": "x", "event": {"kind": "gaussian", "noise_multiplier": math.nan}}]
        ),
        _changed(assumptions="none"),
        _changed(assumptions=[1]),
        _changed(assumptions=["nobody has two rows"]),
        _changed(assumptions=[{"kind": "trust-me"}]),
    ],
)
def test_a_malformed_ledger_is_an_artifact_error(data):
    with pytest.raises(ArtifactError):
        Ledger.from_json(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=8,
    ),
    st.sampled_from(["format", "adjacency", "unit", "entries", "assumptions"]),
)
def test_whatever_stands_in_a_field_a_ledger_is_read_or_refused(value, name):
    try:
        ledger = Ledger.from_json(_changed(**{name: value}))
    except ArtifactError:
        return
    assert Ledger.from_json(ledger.to_json()) == ledger
