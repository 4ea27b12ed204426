"""Records of reproductions: their fields, what misses, what replaces what."""

import json
import math
from dataclasses import replace

import pytest
from reproductions.records import Record

from reproductions import get, records

AGREED = [
    *("table", "row", "column", "metric", "paper", "ours", "spread", "must", "better"),
    *("epsilon", "delta", "accountant", "splits", "seconds", "device", "commit"),
]

RECORD = Record(
    table="1",
    row="DP-NF",
    column="Life Science, 1",
    metric="test log-likelihood",
    paper=9.41,
    ours=11.2,
    spread=0.1,
    must=11.1,
    better="higher",
    epsilon=0.99,
    delta=1.52e-5,
    accountant="PLD",
    splits=10,
    seconds=9.0,
    device="a processor, 2 cores",
    commit="abc1234",
)


def test_a_written_record_has_the_agreed_fields_first(tmp_path):
    path = records.write(tmp_path / "results.json", [RECORD])
    (item,) = json.loads(path.read_text("utf-8"))
    assert list(item)[: len(AGREED)] == AGREED


@pytest.mark.parametrize("epsilon", [0.99, None, math.inf])
def test_what_is_written_is_read_back(epsilon, tmp_path):
    record = replace(RECORD, epsilon=epsilon, claims={"PLD": 0.99}, note="a note")
    path = records.write(tmp_path / "results.json", [record])
    json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)
    assert records.read(path) == [record]


def test_records_that_other_code_measured_are_stale_and_those_not_run_are_not():
    given = [replace(RECORD, code=code) for code in ("now", "before", "before and now", "")]
    given.append(replace(RECORD, code="", splits=0))
    assert [r.stale for r in records.dated(given, "now")] == [False, True, True, True, False]
    again = records.dated(records.dated(given, "before"), "now")
    assert [r.stale for r in again] == [False, True, True, True, False]


def test_a_record_from_before_codes_were_told_is_not_taken_for_one_of_today(tmp_path):
    path = records.write(tmp_path / "results.json", [RECORD, replace(RECORD, splits=0)])
    items = json.loads(path.read_text("utf-8"))
    for item in items:
        del item["code"], item["stale"]
    path.write_text(json.dumps(items), "utf-8")
    assert [(r.code, r.stale) for r in records.read(path)] == [("", True), ("", False)]


def test_stale_records_are_shown_as_such(capsys):
    records.show("x", [replace(RECORD, stale=True)])
    assert "stale" in capsys.readouterr().out


def test_no_file_is_no_records(tmp_path):
    assert records.read(tmp_path / "none.json") == []


@pytest.mark.parametrize("text", ["{", "[1]", '[{"epsilon": 1}]', '[{"table": "1"}]'])
def test_a_file_without_records_is_named(text, tmp_path):
    path = tmp_path / "odd.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"odd\.json does not hold"):
        records.read(path)


@pytest.mark.parametrize(
    ("ours", "must", "better", "misses"),
    [
        (11.2, 11.1, "higher", False),
        (11.0, 11.1, "higher", True),
        (None, 11.1, "higher", True),
        (None, None, "higher", False),
        (2.5, 2.4, "lower", True),
        (2.4, 2.4, "lower", False),
    ],
)
def test_a_record_misses_when_its_bound_is_not_shown_to_be_met(ours, must, better, misses):
    assert replace(RECORD, ours=ours, must=must, better=better).misses is misses


def test_a_new_record_takes_the_place_of_the_old_one_and_others_stay():
    other = replace(RECORD, column="Life Science, 2")
    new, more = replace(RECORD, ours=11.5), replace(RECORD, row="DP-MoG_3")
    assert records.merge([RECORD, other], [new, more]) == ([new, other, more], [])


def test_a_quick_look_does_not_replace_a_measurement_on_more_splits():
    quick = replace(RECORD, ours=12.0, splits=1)
    assert records.merge([RECORD], [quick]) == ([RECORD], [quick])
    assert records.merge([quick], [RECORD]) == ([RECORD], [])


def test_the_shown_table_has_both_numbers_and_the_verdict(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    records.show("dp-nf", [RECORD, replace(RECORD, ours=None)])
    shown = capsys.readouterr().out
    for text in ("9.41", "11.20 ± 0.10", ">= 11.1", "holds", "misses"):
        assert text in shown


def test_an_unknown_system_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="system must be one of dp-nf"):
        get("dp-xx")
