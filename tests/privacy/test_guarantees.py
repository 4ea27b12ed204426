import copy
import json
import math
import pickle

import pytest

from veilflow.privacy.assumptions import Conditional, Declared, Unproved
from veilflow.privacy.events import Gaussian
from veilflow.privacy.guarantees import ClippedSum, Guarantee, Released, Sensitive
from veilflow.privacy.unit import Adjacency, Unit


def test_sensitive_records_show_neither_rows_nor_their_number():
    secret = Sensitive([41, 42, 43], description="patients")
    assert repr(secret) == str(secret) == "Sensitive(patients, unit=row)"
    assert not hasattr(secret, "__len__")
    assert secret.map(len).open() == 3


def test_sensitive_records_are_neither_pickled_nor_copied():
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            leave(Sensitive([1]))


def test_replacing_a_record_moves_a_clipped_sum_twice_as_far_as_removing_one():
    total = ClippedSum(0.0, clip_norm=1.5)
    assert total.sensitivity(Adjacency.ADD_REMOVE) == 1.5
    assert total.sensitivity(Adjacency.REPLACE_ONE) == 3.0


def test_post_processing_keeps_the_event_that_paid():
    released = Released(3.0, Gaussian(1.0)).map(lambda x: x + 1)
    assert (released.value, released.event) == (4.0, Gaussian(1.0))


@pytest.mark.parametrize("epsilon", [0.0, 1.25, math.inf])
def test_a_guarantee_survives_json_with_its_assumptions(epsilon):
    guarantee = Guarantee(
        epsilon=epsilon,
        delta=1e-6,
        adjacency=Adjacency.REPLACE_ONE,
        unit=Unit.USER,
        accountant="RDP",
        assumptions=(Unproved("the flow is exact"), Declared(("bounds", "classes"))),
    )
    text = json.dumps(guarantee.to_json(), allow_nan=False)
    assert Guarantee.from_json(json.loads(text)) == guarantee
    assert "the flow is exact" in str(guarantee)
    assert "user" in repr(guarantee)


@pytest.mark.parametrize("unit", Unit)
def test_a_guarantee_names_its_unit_and_reads_it_back(unit):
    guarantee = Guarantee(epsilon=1.0, delta=1e-6, unit=unit)
    assert f"add-remove one {unit.value}, by" in str(guarantee)
    assert Guarantee.from_json(guarantee.to_json()) == guarantee


def test_an_infinite_epsilon_is_called_no_privacy():
    guarantee = Guarantee(epsilon=math.inf, delta=1e-5, assumptions=(Conditional("a sentence"),))
    assert not guarantee.private
    for text in (str(guarantee), repr(guarantee), f"{guarantee}"):
        assert text.startswith("no privacy: epsilon is infinite")
        assert "differential" not in text
        assert text.endswith("assuming: a sentence")


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-1.0, 0.1), (math.nan, 0.1), (1.0, 1.0), (1.0, -0.1)]
)
def test_an_impossible_guarantee_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must be"):
        Guarantee(epsilon=epsilon, delta=delta)
