"""The table of the plan can be measured, and each of its measures sees what it is for."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import clones, source

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict]:
    """What the tool prints and writes, from a process that has compiled nothing yet."""
    out = tmp_path_factory.mktemp("house") / "now.json"
    search = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-m", "tools.house", "--json", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout, json.loads(out.read_text("utf-8"))


@pytest.mark.slow
def test_the_numbers_are_plausible(measured: tuple[str, dict]):
    _, now = measured
    assert 10_000 < now["lines"] < 100_000
    assert 100 < now["modules"] < 1_000
    assert 0 < now["shell_lines"] < now["models_lines"] < now["lines"]
    assert sum(now["opens"].values()) > 10
    assert 10 < len(now["hops"]) < now["functions_entered"]
    assert len(now["estimator_lines"]) == 9
    assert all(50 < lines <= 400 for lines in now["estimator_lines"].values())
    assert {"budget", "num_records", "seed"} <= set(now["distinct_arguments"])
    assert 0 < len(now["duplicates"]) < 1_000
    assert 0 < max(now["fan_out"].values()) < now["modules"]
    assert max(now["fan_in"].values()) > 10


@pytest.mark.slow
def test_hops_lead_from_the_file_to_the_model_and_back(measured: tuple[str, dict]):
    files = {hop.split(": ")[0].split("/")[0] for hop in measured[1]["hops"]}
    assert {"tabular", "privacy", "engine", "models"} <= files


@pytest.mark.slow
def test_every_line_of_the_table_has_a_column_for_then_now_and_there(measured: tuple[str, dict]):
    lines = measured[0].splitlines()
    assert "2a92ba3" in lines[0]
    assert {line.count("|") for line in lines} == {5}


LOOP = """
def {name}(rows):
    total = 0
    for row in rows:
        size = abs(row[{index}] - 1)
        if size > {index} * total:
            total = total + size * 2
        else:
            total = total - size / 2
    return total
"""


def test_a_copy_with_other_names_and_numbers_is_a_duplicate(tmp_path: Path):
    for name, index in (("first", 1), ("second", 7)):
        (tmp_path / f"{name}.py").write_text(LOOP.format(name=name, index=index), "utf-8")
    (tmp_path / "other.py").write_text("import ast\n\nprint(ast)\n", "utf-8")
    found = clones.pairs(tmp_path.glob("*.py"))
    assert [(a.stem, b.stem) for a, _, b, _ in found] == [("first", "second")]


def test_copies_in_more_places_than_an_idiom_has_are_no_duplicates(tmp_path: Path):
    for number in range(clones.PLACES + 1):
        (tmp_path / f"m{number}.py").write_text(LOOP.format(name="f", index=number), "utf-8")
    assert clones.pairs(tmp_path.glob("*.py")) == []


def test_opens_are_calls_without_arguments():
    assert source.opens(ast.parse("rows.open() + records.map(f).open()")) == 2
    assert source.opens(ast.parse("open('x'); path.open('w'); rows.open")) == 0


def test_imports_name_modules_of_the_package(tmp_path: Path):
    package = tmp_path / "veilflow"
    (package / "a").mkdir(parents=True)
    (package / "__init__.py").write_text("", "utf-8")
    (package / "a" / "__init__.py").write_text("from veilflow.a.b import c", "utf-8")
    (package / "a" / "b.py").write_text("import os\nfrom . import d\nc = 1", "utf-8")
    (package / "a" / "d.py").write_text("def f():\n    from veilflow.a import b", "utf-8")
    imported = source.imports(source.modules(package))
    assert imported["veilflow.a"] == {"veilflow.a.b"}
    assert imported["veilflow.a.b"] == {"veilflow.a.d"}
    assert imported["veilflow.a.d"] == {"veilflow.a.b"}
    assert source.fan_in(imported)["veilflow.a.b"] == 2
