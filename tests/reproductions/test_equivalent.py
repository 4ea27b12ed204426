"""Code of the same numbers: chains of changes, and what runs and records make of them."""

import re
from dataclasses import replace

import pytest
from reproductions.cache import Cache
from reproductions.equivalent import CHANGES, Change, changes_since, same_numbers

from reproductions import cache, records
from tests.reproductions.test_records import RECORD

FIRST = Change("an error message", "moons", {"a": "b", "x": "y"})
SECOND = Change("a name", "moons", {"b": "c"})
CHAIN = (FIRST, SECOND)


@pytest.mark.parametrize(
    ("code", "known"), [("c", "abc"), ("b", "ab"), ("a", "a"), ("y", "xy"), ("z", "z")]
)
def test_a_chain_of_changes_leads_from_older_code_to_newer_and_not_back(code, known):
    assert same_numbers(code, CHAIN) == set(known)


def test_a_change_counts_only_after_those_before_it():
    assert same_numbers("c", (SECOND, FIRST)) == {"b", "c"}


@pytest.mark.parametrize(
    ("codes", "changes"), [("a", CHAIN), ("b", (SECOND,)), ("x", (FIRST,)), ("c", ()), ("", ())]
)
def test_changes_are_told_from_the_code_that_ran(codes, changes):
    assert changes_since(codes, CHAIN) == [*changes]


def test_a_run_of_equivalent_code_is_found_and_says_which_code_made_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "same_numbers", lambda code: same_numbers(code, CHAIN))
    settings = {"data": "moons"}
    Cache(folder=tmp_path, code="a").store("moons", settings, {"mean": 1}, seconds=1.0, arrays={})
    found = Cache(folder=tmp_path, code="c").find("moons", settings)
    assert found is not None
    assert found.code == "a"
    assert Cache(folder=tmp_path, code="y").find("moons", settings) is None


def test_records_of_equivalent_code_are_not_stale(monkeypatch):
    monkeypatch.setattr(records, "same_numbers", lambda code: same_numbers(code, CHAIN))
    made = [replace(RECORD, code=code) for code in ("a", "b and a", "y", "a and y")]
    assert [r.stale for r in records.dated(made, "c")] == [False, False, True, True]


def test_what_is_written_down_is_whole():
    for change in CHANGES:
        assert change.why.endswith(".")
        assert change.checked.endswith(".")
        assert change.codes
        for before, after in change.codes.items():
            assert re.fullmatch("[0-9a-f]{16}", before)
            assert re.fullmatch("[0-9a-f]{16}", after)
            assert before != after
    leads_to = [before for change in CHANGES for before in change.codes]
    assert len(leads_to) == len(set(leads_to)), "code has one code that came after it"
