"""Documents that a generator made up: read, or refused by an error of ours."""

import contextlib
import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilflow as vf
from tests.hostile import seeds
from veilflow._core import store
from veilflow.images.idx import read_idx
from veilflow.models.detect.counter import InFile
from veilflow.privacy import events
from veilflow.privacy.dataset_ledger import DatasetLedger
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.policy import Policy

MANY = settings(max_examples=150)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([10**400, -(10**400), 2**63, "inf", "nan"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(sorted(events._KINDS))
FIELDS = (
    "sampling_rate",
    "event",
    "noise_multiplier",
    "epsilon",
    "delta",
    "times",
    "events",
    "rho",
)
EVENTS = st.recursive(
    st.fixed_dictionaries({"kind": KINDS | SCALARS}, optional=dict.fromkeys(FIELDS, VALUES)),
    lambda inner: st.fixed_dictionaries(
        {"kind": st.sampled_from(["poisson-sampled", "repeated", "together"])},
        optional={
            **dict.fromkeys(FIELDS, VALUES),
            "event": inner,
            "events": st.lists(inner, max_size=3),
        },
    ),
    max_leaves=4,
)


@MANY
@given(EVENTS | VALUES, VALUES)
def test_any_event_is_read_or_refused_and_never_costs_less_than_nothing(event, other):
    document = Ledger().to_json()
    document["entries"] = [{"purpose": "x", "event": event}]
    if isinstance(other, dict):
        document = {**document, **other}
    try:
        ledger = Ledger.from_json(document)
    except vf.ArtifactError:
        return
    assert ledger.to_json()["entries"]
    assert Ledger.from_json(ledger.to_json()) == ledger


@MANY
@given(
    st.dictionaries(
        st.sampled_from(["epsilon", "delta", "adjacency", "unit", "accountant", "assumptions"]),
        VALUES | st.sampled_from(["add-remove", "row", ["x"], -1.0, 0.0]),
    )
)
def test_a_guarantee_is_read_as_numbers_or_refused(document):
    whole = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "adjacency": "add-remove",
        "unit": "row",
        "accountant": "PLD",
        "assumptions": [],
        **document,
    }
    try:
        found = Guarantee.from_json(whole)
    except (vf.ArtifactError, TypeError, ValueError, OverflowError, AttributeError, KeyError):
        return  # which `artifact.read` makes an ArtifactError
    assert not math.isnan(found.epsilon)
    assert found.epsilon >= 0


@MANY
@given(VALUES | st.dictionaries(st.sampled_from(["columns", "label", "constraints"]), VALUES))
def test_any_schema_is_read_or_refused(document):
    try:
        schema = vf.Schema.from_json(document)
    except ValueError:
        return
    assert vf.Schema.from_json(schema.to_json()) == schema


@MANY
@given(st.data())
def test_any_text_for_a_policy_is_read_or_refused(data):
    names = st.sampled_from(
        ["max_epsilon", "min_delta_exponent", "accountants", "conditional", "x"]
    )
    values = st.sampled_from(["1", "-1", "nan", "inf", "true", "[]", '["pld"]', '"pld"', "9" * 500])
    lines = data.draw(st.lists(st.builds("{} = {}".format, names, values) | st.text(max_size=20)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.toml"
        path.write_text("\n".join(lines), "utf-8", errors="replace")
        try:
            policy = Policy.from_file(path)
        except ValueError:
            return
    assert policy.max_epsilon > 0
    assert 0 < policy.max_delta <= 1


@MANY
@given(
    st.sampled_from([8, 9, 11, 12, 13, 14, 0, 255]),
    st.lists(st.sampled_from([0, 1, 2, 5, 2**16, 2**31, 2**32 - 1]), max_size=5),
    st.binary(max_size=40),
)
def test_any_head_of_an_idx_file_is_believed_only_if_the_bytes_are_there(kind, sizes, body):
    head = bytes([0, 0, kind, len(sizes)]) + b"".join(n.to_bytes(4, "big") for n in sizes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.idx"
        path.write_bytes(head + body)
        try:
            array = read_idx(path)
        except ValueError:
            return
    assert array.shape == tuple(sizes)
    assert array.nbytes == len(body)


@MANY
@given(st.binary(max_size=80), st.integers(0, 10**4))
def test_whatever_follows_a_journal_it_never_forgets_what_was_spent(tail, cut):
    whole = seeds.journal()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        path.write_bytes(whole + tail)
        with contextlib.suppress(vf.PrivacyError):
            assert InFile(path, id=seeds.JOURNAL_ID).spent() >= 3
        known = InFile(path, id=seeds.JOURNAL_ID)
        path.write_bytes(whole)
        assert known.spent() == 3
        path.write_bytes(whole[: cut % len(whole)])
        with pytest.raises(vf.PrivacyError):
            known.spent()


@MANY
@given(st.binary(min_size=1, max_size=80), st.integers(0, 10**4))
def test_whatever_is_done_to_a_data_set_ledger_it_is_noticed(tail, place):
    whole = seeds.data_ledger()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spending"
        for data in (whole + tail, whole[: place % len(whole)]):
            path.write_bytes(data)
            try:
                entries = DatasetLedger(path).entries()
            except (vf.ArtifactError, vf.PrivacyError):
                continue
            assert data == b""  # which is a ledger that nobody has begun
            assert entries == ()


@MANY
@given(VALUES)
def test_what_is_no_json_of_ours_is_refused_and_the_rest_comes_back(value):
    data = json.dumps({"x": value}).encode()
    try:
        found = store.parse_json(data, what="it")
    except vf.ArtifactError:
        return
    assert json.dumps(found, allow_nan=False) == json.dumps({"x": value})


@MANY
@given(
    st.lists(st.floats(allow_nan=True), min_size=1, max_size=4), st.sampled_from([".npy", ".csv"])
)
def test_numbers_of_a_file_are_finite_or_refused_without_being_shown(numbers, kind):
    from veilflow.tabular.io import read_rows

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows{kind}"
        if kind == ".npy":
            path.write_bytes(seeds.npy(np.array([numbers])))
        else:
            path.write_text("x\n" + "\n".join(map(repr, numbers)) + "\n")
        if not all(map(math.isfinite, numbers)):
            with pytest.raises(ValueError, match="cells"):
                read_rows(path)
            return
        values = read_rows(path).values
    np.testing.assert_array_equal(values.ravel(), numbers)
