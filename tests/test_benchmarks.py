"""Benchmark records: their format, the check, the page. Timings are not tested here."""

import dataclasses
import json
from importlib import import_module
from pathlib import Path
from typing import Literal

import pytest
from benchmarks import __main__ as command
from benchmarks import records, table
from benchmarks.timing import Contestant, compare

FIELDS = ["name", "value", "unit", "better", "must", "peer", "machine", "date", "commit"]
MADE = {"machine": "a processor, 2 cores", "date": "2025-01-01", "commit": "abc1234"}


def made(
    value: float | None, *, must: float | None = None, better: Literal["lower", "higher"] = "lower"
) -> records.Record:
    return records.Record(
        name="time",
        value=value,
        unit="s",
        better=better,
        must=must,
        **MADE,
    )


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    monkeypatch.setattr(records.read, "__defaults__", (tmp_path,))
    return tmp_path


def test_every_benchmark_module_is_known_and_documented():
    for name in command.NAMES:
        module = import_module(f"benchmarks.{name}")
        assert module.__doc__
        assert callable(module.run)


def test_committed_results_have_exactly_the_agreed_fields():
    for path in records.RESULTS.glob("*.json"):
        assert path.stem.removesuffix("_gpu") in command.NAMES
        items = json.loads(path.read_text("utf-8"))
        assert items
        for item in items:
            assert list(item) == FIELDS
            assert item["better"] in ("lower", "higher")


def test_the_committed_page_is_what_the_committed_results_say(tmp_path):
    written = table.write_page(tmp_path / "page.md").read_text("utf-8")
    assert table.PAGE.read_text("utf-8") == written


def test_a_record_of_now_names_a_processor_but_no_host_or_path():
    import platform

    now = records.record("x", 1.23456, "s")
    assert now.value == 1.235
    assert "cores" in now.machine
    assert "/" not in now.machine.replace("w/", "")
    assert platform.node() not in now.machine
    assert list(dataclasses.asdict(now)) == FIELDS


@pytest.mark.parametrize(
    ("value", "must", "better", "misses"),
    [
        (1.0, 1.5, "lower", False),
        (1.5, 1.5, "lower", False),
        (1.6, 1.5, "lower", True),
        (30.0, 20.0, "higher", False),
        (19.9, 20.0, "higher", True),
        (1e9, None, "lower", False),
        (None, None, "lower", False),
        (None, 1.5, "lower", True),
        (float("nan"), 1.5, "lower", True),
        (float("nan"), 1.5, "higher", True),
    ],
)
def test_a_record_misses_when_its_bound_is_not_shown_to_be_met(value, must, better, misses):
    assert made(value, must=must, better=better).misses is misses


def test_what_is_written_is_read_back(results):
    kept = [made(1.0, must=2.0), made(None)]
    assert records.write("step", kept) == results / "step.json"
    assert records.read() == {"step": kept}
    assert [p.name for p in results.iterdir()] == ["step.json"]


@pytest.mark.parametrize("text", ["{", "[1]", '[{"name": "x"}]', "3"])
def test_a_file_without_records_is_named(results, text):
    (results / "odd.json").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"odd\.json does not hold benchmark records"):
        records.read()


def test_check_prints_what_misses_and_exits_1(results, capsys):
    records.write("step", [made(1.0, must=2.0), made(3.0, must=2.0)])
    assert command.main(["--check"]) == 1
    shown = capsys.readouterr().out
    assert "3 s" in shown
    assert "1 s" not in shown
    records.write("step", [made(1.0, must=2.0)])
    assert command.main(["--check"]) == 0


def test_check_without_results_is_no_success(results, capsys):
    assert command.main(["--check"]) == 1
    assert "no results" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        command.main(["speed"])
    assert "known: step, clipping" in capsys.readouterr().err


def test_a_quick_run_writes_nothing_and_claims_no_bound(results, monkeypatch, capsys):
    from benchmarks import step

    monkeypatch.setattr(step, "run", lambda *, quick: [made(9.0 if quick else 1.0, must=2.0)])
    assert command.main(["step", "--quick"]) == 0
    assert list(results.iterdir()) == []
    assert "<=" not in capsys.readouterr().out
    assert command.main(["step"]) == 0
    assert records.read()["step"][0].value == 1.0


def test_a_missing_peer_is_skipped_and_never_invented(monkeypatch):
    from benchmarks import clipping

    monkeypatch.setattr(clipping, "find_spec", lambda name: None)
    monkeypatch.setattr(clipping, "clipped_sum", lambda *_: lambda: None)
    monkeypatch.setattr(clipping, "_plain", lambda *_: lambda: None)
    monkeypatch.setattr(clipping, "_error_of_kinds", lambda: {"dense": 0.0})
    found = clipping.run(quick=True)
    peers = [r for r in found if r.must is not None and r.better == "higher"]
    assert len(peers) == 3
    assert all(r.value is None and r.misses and "[peers]" in r.name for r in peers)


def test_contestants_take_turns_and_slow_ones_take_fewer():
    calls: list[str] = []
    contestants = {
        "a": Contestant(lambda: calls.append("a")),
        "b": Contestant(lambda: calls.append("b"), every=2),
    }
    medians = compare(contestants, rounds=4)
    assert "".join(calls) == "ab" + "ab" + "a" + "ab" + "a"
    assert set(medians) == {"a", "b"}


def test_a_data_set_that_is_not_there_is_not_measured_and_misses(tmp_path, monkeypatch):
    from benchmarks import tables

    monkeypatch.setenv("VEILFLOW_DATA", str(tmp_path))
    monkeypatch.setattr(
        tables,
        "_measured",
        lambda what, rows, size, quick: tables.measure(what, rows, size, quick=quick),
    )
    found = tables._covertype(quick=False, on_gpu=False)
    assert [r.must for r in found] == [1500, 3]
    assert all(r.value is None and r.misses and "VEILFLOW_DATA" in r.name for r in found)


@pytest.mark.parametrize(
    ("backend", "bounds"), [("gpu", [300]), ("cpu", [480, 3, 20, 60, None, 1500, 3])]
)
def test_tables_are_held_to_the_bounds_of_the_device(backend, bounds, monkeypatch):
    from benchmarks import tables

    monkeypatch.setattr(tables.jax, "default_backend", lambda: backend)
    kept = {"rows": 9, "fit": 1.0, "peak": 0.5, "sample": 2.0}
    monkeypatch.setattr(tables, "_measured", lambda *_: kept)
    assert [r.must for r in tables.run()] == bounds


@pytest.mark.slow
def test_every_alternative_of_the_planner_of_tables_is_one():
    from benchmarks import generated_tables, table_planner

    import veilflow as vf

    for name, size, epsilon, choices in table_planner.CASES:
        _, schema = generated_tables.TABLES[name](20, seed=1)
        given = {"budget": vf.Budget(epsilon=epsilon, delta=1e-5), "num_records": size}
        usual = vf.TableFlow(schema=schema, **given)
        planned, training = usual.plan(), table_planner.training_of(usual)
        for choice, settings in choices.items():
            made = vf.TableFlow(schema=schema, **given, **settings(training)).plan()
            assert (made == planned) is (choice == "as planned"), (name, epsilon, choice)


def test_wide_tables_are_as_their_schema_says():
    from benchmarks import generated_tables

    frame, schema = generated_tables.wide(50, num_columns=20, seed=1)
    assert list(frame) == list(schema.names)
    assert len(schema.names) == 20
    assert {column.kind for column in schema.columns.values()} == {"numeric", "categorical"}
    for name, column in schema.columns.items():
        if column.kind == "numeric":
            assert frame[name].between(column.low, column.high).all()
        else:
            assert set(frame[name]) <= set(column.values)


def test_marginals_without_their_peer_say_so(monkeypatch):
    from benchmarks import marginals

    monkeypatch.setattr(marginals, "find_spec", lambda name: None)
    monkeypatch.setattr(marginals, "ours", lambda *_: {"AUROC": 0.9, "seconds": 1.0})
    monkeypatch.setattr(marginals, "figures", lambda *_: {"AUROC": 0.9})
    found = marginals.run(quick=True)
    assert [r.better for r in found if "AUROC" in r.name] == ["higher"] * 3
    (skipped,) = [r for r in found if r.peer]
    assert skipped.value is None
    assert "pip install mbi" in skipped.name


def test_the_peer_of_marginals_asks_for_a_tree_and_keeps_codes_apart():
    import numpy as np
    from benchmarks import generated_tables, mbi_tree

    frame, schema = generated_tables.people(2000, seed=1)
    rng = np.random.default_rng(0)
    codes, sizes = {}, {}
    for name, column in schema.columns.items():
        edges = mbi_tree._edges(frame[name].to_numpy(), column)
        codes[name] = mbi_tree._codes(frame[name], column, edges)
        sizes[name] = mbi_tree._size(column, edges)
        cells = mbi_tree._cells(codes[name], column, edges, rng)
        np.testing.assert_array_equal(
            mbi_tree._codes(frame.assign(**{name: cells})[name], column, edges), codes[name]
        )
    zeros = frame["losses"] == 0  # a heap has a bin of its own
    assert set(codes["losses"][zeros]).isdisjoint(codes["losses"][~zeros])
    asked = mbi_tree._tables(codes, sizes, "label")
    pairs = [frozenset(names) for names in asked if len(names) == 2]
    assert len(set(pairs)) == len(pairs)
    assert {frozenset((name, "label")) for name in codes if name != "label"} <= set(pairs)
    reached = {"label"}
    tree = pairs[: len(codes) - 1]
    for _ in tree:
        reached = reached.union(*(pair for pair in tree if pair & reached))
    assert reached == set(codes)
