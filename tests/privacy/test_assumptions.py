"""What a guarantee rests on: one sentence per kind, a condition unless the class says it is none."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow._core.errors import ArtifactError
from veilflow.privacy import assumptions
from veilflow.privacy.assumptions import (
    Approximate,
    Assumption,
    Conditional,
    Declared,
    FloatSums,
    Generator,
    Seeded,
    Unproved,
    conditions,
    declared,
    from_json,
    of_noise,
)

EVERY = (
    Declared(("bounds",)),
    FloatSums(),
    Generator(),
    Seeded(),
    Unproved("the chain is taken to have converged"),
    Approximate("GDP-CLT"),
    Conditional("nobody has two rows"),
)


def test_every_kind_is_tested_here():
    ours = {c for c in Assumption.__subclasses__() if c.__module__ == assumptions.__name__}
    assert {type(one) for one in EVERY} == ours
    assert len({one.kind for one in EVERY}) == len(EVERY)


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.kind)
def test_an_assumption_survives_json(one):
    again = from_json(json.loads(json.dumps(one.to_json())))
    assert (again, type(again), str(again)) == (one, type(one), one.sentence)
    assert hash(again) == hash(one)


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.kind)
def test_an_assumption_is_frozen(one):
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.conditional = False


def test_only_declarations_and_idealized_arithmetic_are_no_conditions():
    usual = {type(one) for one in EVERY} - {type(one) for one in conditions(EVERY)}
    assert usual == {Declared, FloatSums, Generator}


def test_a_kind_that_says_nothing_about_it_is_a_condition():
    assert Assumption.conditional


@pytest.mark.parametrize(
    ("what", "start"),
    [
        (("bounds",), "bounds were declared"),
        (("the schema",), "the schema was declared"),
        (("the schema", "the number of records"), "the schema and the number of records were"),
        (("a", "b", "c"), "a, b and c were declared"),
        (("theories",), "theories were declared"),
    ],
)
def test_declared_facts_make_one_grammatical_sentence(what, start):
    sentence = Declared(what).sentence
    assert sentence.startswith(start)
    assert sentence.endswith("declared, not read from the records")


def test_the_number_of_records_is_named_if_it_was_declared():
    assert declared("bounds", num_records=None) == Declared(("bounds",))
    assert declared("bounds", num_records=5) == Declared(("bounds", "the number of records"))


def test_a_condition_that_reads_like_a_declaration_is_still_a_condition():
    text = Declared(("all",)).sentence
    assert conditions((Conditional(text), Declared(("all",)))) == (Conditional(text),)


@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("generator", [True, False])
def test_noise_rests_on_what_it_used(seeded, sums, generator):
    found = of_noise(seeded=seeded, sums=sums, generator=generator)
    assert [isinstance(one, FloatSums) for one in found].count(True) == sums
    assert [isinstance(one, Generator) for one in found].count(True) == generator
    assert [isinstance(one, Seeded) for one in found].count(True) == seeded
    assert len(found) == sums + generator + seeded


@pytest.mark.parametrize(
    "make",
    [
        lambda: Declared(()),
        lambda: Declared("bounds"),
        lambda: Declared((1,)),
        lambda: Declared(("",)),
        lambda: Declared(("x",) * 101),
        lambda: Conditional(" "),
        lambda: Conditional("x" * 2_001),
        lambda: Unproved(3),
        lambda: Approximate(""),
    ],
)
def test_what_says_nothing_is_refused(make):
    with pytest.raises((TypeError, ValueError)):
        make()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
hostile = st.builds(
    lambda one, changes: {**one.to_json(), **changes},
    st.sampled_from(EVERY),
    st.dictionaries(
        st.sampled_from(["kind", "sentence", "what", "claim", "method", "text", "conditional"]),
        json_values,
        max_size=2,
    ),
)


@given(json_values | hostile)
def test_reading_gives_an_assumption_or_refuses(data):
    try:
        found = from_json(data)
    except ArtifactError:
        return
    assert found.to_json() == data
    assert found.sentence


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("bounds were declared, not read from the records", "unknown kind str"),
        ({"kind": "trust-me"}, "'trust-me'"),
        ({"kind": ["seeded"]}, "unknown kind dict"),
        ({**Seeded().to_json(), "conditional": False}, "must have a sentence and"),
        ({"kind": "seeded"}, "must have a sentence and"),
        ({**Seeded().to_json(), "sentence": FloatSums().sentence}, "not the one of its kind"),
        ({**Conditional("one").to_json(), "text": "another"}, "not the one of its kind"),
        ({**EVERY[0].to_json(), "what": "bounds"}, "list of facts"),
        ({**EVERY[0].to_json(), "what": []}, "1 to 100"),
        ({**Conditional("one").to_json(), "text": ""}, "malformed"),
    ],
)
def test_what_is_no_assumption_is_refused_with_a_reason(data, message):
    with pytest.raises(ArtifactError, match=message):
        assumptions.from_json(data)
