"""Records of reproductions: their fields, what misses, what replaces what."""

import json
import math
from dataclasses import replace

import pytest
from reproductions.cache import Run
from reproductions.records import Record

from reproductions import SYSTEMS, get, records

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
    measured = {"date": "2026-01-01", "versions": {"jax": "1.0"}, "settings": {"split": [1, 2]}}
    record = replace(RECORD, epsilon=epsilon, claims={"PLD": 0.99}, note="a note", **measured)
    path = records.write(tmp_path / "results.json", [record])
    json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)
    assert records.read(path) == [record]


def run(**changed):
    guarantee = {"epsilon": 1.0, "accountant": "PLD"}
    settings = {"data": "moons", "split": 1}
    told = {"seconds": 2.0, "device": "a processor", "commit": "abc1234"}
    told |= {"versions": {"jax": "1.0", "numpy": "2.0"}, "date": "2026-01-01"}
    return Run(**{"settings": settings, "result": {"guarantee": guarantee}, **told, **changed})


def test_a_record_tells_how_all_its_runs_were_measured():
    other = run(
        settings={"data": "moons", "split": 2},
        versions={"jax": "1.1", "numpy": "2.0"},
        commit="def5678",
        date="2026-01-02",
    )
    found = records.provenance([run(), other])
    assert found["commit"] == "abc1234 and def5678"
    assert found["date"] == "2026-01-01 and 2026-01-02"
    assert found["versions"] == {"jax": "1.0 and 1.1", "numpy": "2.0"}
    assert found["settings"] == {"data": "moons", "split": [1, 2]}
    assert records.provenance([run()])["settings"] == {"data": "moons", "split": 1}


def test_what_a_run_did_not_record_no_record_makes_up():
    silent = run(versions=None, date=None)
    for runs in ([silent], [run(), silent], []):
        found = records.provenance(runs)
        assert (found["versions"], found["date"]) == (None, None)
    assert records.provenance([])["settings"] is None


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_committed_number_has_a_commit_a_device_and_a_date(name):
    for record in records.read(get(name).out / "results.json"):
        told = (record.commit, record.device, record.date)
        assert all(told) if record.splits else not any(told)


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
