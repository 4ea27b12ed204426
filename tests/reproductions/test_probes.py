"""Probes: today's code gives the numbers that were committed, up to their noise."""

import json
from dataclasses import replace

import jax
import pytest
from reproductions.probes import all_probes, check, main, remake
from reproductions.probing import DRAWS, Expected, Number, Probe

from reproductions import SYSTEMS, get, probing

PROBES = all_probes()
MEASURED = {"seconds": 1.0, "device": "a processor", "commit": "abc1234", "date": "2026-01-01"}
MEASURED |= {"versions": {"jax": "1.0"}}


@pytest.fixture
def as_real_runs_have_it():
    """Without checks that only tests switch on, and which take longer to trace than some probes."""
    with jax.debug_key_reuse(False), jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.few(8)
@pytest.mark.parametrize("name", PROBES)
@pytest.mark.usefixtures("as_real_runs_have_it")
def test_a_probe_gives_the_numbers_it_gave(name):
    # A false alarm in 100,000 numbers; some hundred are compared, and half of them do not vary.
    # Noise from the operating system differs each time, until a source of entropy can be given.
    assert probing.read()[name].misses(PROBES[name].measure()) == []


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_kind_of_run_has_a_probe(name):
    system = get(name)
    assert {probe.kind for probe in system.probes} == set(system.kinds)
    assert len({probe.name for probe in system.probes}) == len(system.probes)


def test_the_committed_numbers_are_those_of_the_probes():
    expected = probing.read()
    assert expected.keys() == PROBES.keys()
    for name, probe in PROBES.items():
        assert tuple(expected[name].numbers) == probe.numbers
        assert expected[name].draws == DRAWS
        for text in (expected[name].commit, expected[name].date, expected[name].device):
            assert text


class Settings:
    size = 1000


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """One probe that counts what it draws, and a file of its own."""
    drawn = []

    def perform(draw):
        drawn.append(draw)
        return {"mean": {"value": Settings.size + (draw - 2.0)}, "exact": 8.0, "gap": None}

    probe = Probe(
        name="quick",
        kind="run",
        perform=perform,
        numbers=("mean/value", "exact"),
        sizes=[(Settings, "size", 10)],
    )
    monkeypatch.setattr("reproductions.probes.all_probes", lambda systems=(): {"a/quick": probe})
    monkeypatch.setattr(probing.read, "__defaults__", (tmp_path / "probes.json",))
    monkeypatch.setattr(probing.write, "__defaults__", (tmp_path / "probes.json",))
    return probe, drawn


def test_a_probe_is_small_while_it_runs_and_only_then(quick):
    probe, _ = quick
    assert probe.measure(2) == {"mean/value": 10.0, "exact": 8.0}
    assert Settings.size == 1000


def test_a_number_that_was_not_measured_is_named(quick):
    probe, _ = quick
    for name in ("gap", "mean/nothing"):
        without = Probe(name="quick", kind="run", perform=probe.perform, numbers=(name,))
        with pytest.raises(ValueError, match=f"quick did not measure {name}"):
            without.measure()


def test_numbers_are_remade_with_mean_spread_and_origin(quick, tmp_path):
    _, drawn = quick
    lines: list[str] = []
    remake([], draws=3, say=lines.append)
    assert drawn == [1, 2, 3]
    assert lines == ["a/quick: 0.0 s a draw"]
    (item,) = json.loads((tmp_path / "probes.json").read_text("utf-8"))
    assert item["numbers"] == {
        "mean/value": {"mean": 10.0, "spread": 1.0},
        "exact": {"mean": 8.0, "spread": 0.0},
    }
    assert item["draws"] == 3
    assert item["versions"].keys() == {"jax", "numpy", "veilflow"}
    assert check([], say=lines.append)
    assert lines[-1] == "a/quick: as expected"


def test_the_command_fails_where_a_number_is_off(quick, monkeypatch, capsys):
    main(["--draws", "3"])
    assert main(["--check"]) == 0
    larger = {"a/quick": replace(quick[0], sizes=[(Settings, "size", 20)])}
    monkeypatch.setattr("reproductions.probes.all_probes", lambda systems=(): larger)
    assert main(["--check"]) == 1
    assert "mean/value is 19, not 10 ± 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "value", "allowed"),
    [
        (Number(10.0, 1.0), 16.0, True),
        (Number(10.0, 1.0), 4.0, True),
        (Number(10.0, 1.0), 16.5, False),
        (Number(10.0, 1.0), float("nan"), False),
        (Number(8.0, 0.0), 8.007, True),  # what calibration leaves of a budget may differ
        (Number(8.0, 0.0), 8.02, False),
        (Number(0.0, 0.0), 0.0, True),
    ],
)
def test_a_number_may_be_off_by_its_noise_and_by_a_thousandth(number, value, allowed):
    assert number.allows(value, draws=20) is allowed
    expected = Expected(probe="a/quick", numbers={"x": number}, draws=20, **MEASURED)
    assert (expected.misses({"x": value}) == []) is allowed


def test_what_has_no_expected_number_fails_the_check(quick):
    lines: list[str] = []
    assert not check([], say=lines.append)
    assert lines == ["a/quick: nothing to expect"]


def test_a_probe_that_fails_is_told_and_fails_the_check(quick, monkeypatch):
    remake([], draws=3, say=lambda line: None)
    broken = {"a/quick": replace(quick[0], perform=lambda draw: {}["x"])}
    monkeypatch.setattr("reproductions.probes.all_probes", lambda systems=(): broken)
    lines: list[str] = []
    assert not check([], say=lines.append)
    assert lines == ["a/quick: failed: KeyError: 'x'"]
