"""Faults change code that runs and nothing else, and a verdict says what the tests made of one."""

from pathlib import Path

import pytest
from tools.mutations import Mutant

from tools import mutants, mutations

SOURCE = '''
"""A sentence with 1 < 2."""
from typing import TYPE_CHECKING
LIMIT = 100
def size(x: "2 < 3", most: int = 3) -> float:
    """Not 5 + 6."""
    if x > most:
        raise ValueError(f"at most {most + 1}, got {x - 1}")
    check(x)
    return abs(x) + min((x), 2.5) if x and not most else -x
class Number:
    def __repr__(self):
        return "number" * 2
'''


def all_mutants(folder: Path, source: str = SOURCE) -> list[Mutant]:
    path = folder / "file.py"
    path.write_text(source, "utf-8")
    found = mutations.mutants(path, "privacy/file.py")
    return [m for m in found if mutations.is_other_code(m, source.encode())]


def test_every_operator_puts_in_its_fault(tmp_path: Path):
    found = {(m.operator, m.before, m.after) for m in all_mutants(tmp_path)}
    raised = 'raise ValueError(f"at most {most + 1}, got {x - 1}")'
    whole = "x and not most"
    assert found == {
        ("constant", "100", "0"),
        ("constant", "3", "4"),
        ("constant", "2.5", "0.0"),
        ("flip", "x > most", "x <= most"),
        ("boundary", "x > most", "x >= most"),
        ("negation", "x > most", "not (x > most)"),
        ("negation", whole, f"not ({whole})"),
        ("guard", raised, "pass"),
        ("statement", "check(x)", "pass"),
        ("dropped", "abs(x)", "(x)"),
        ("extremes", "min", "max"),
        ("arithmetic", "abs(x) + min((x), 2.5)", "abs(x) - min((x), 2.5)"),
        ("logic", whole, "x or not most"),
        ("sign", "not most", "(most)"),
        ("sign", "-x", "(x)"),
    }


def test_operands_in_parentheses_and_letters_of_more_bytes_keep_their_place(tmp_path: Path):
    source = 's = "é"; y = (1 + s) < (2)\nz = jnp.where(y, (a + b), c)\n'
    changed = {m.apply(source.encode()).decode() for m in all_mutants(tmp_path, source)}
    assert source.replace(") < (", ") >= (") in changed
    assert source.replace("(a + b), c", "(c), a + b") in changed


def test_the_choice_depends_on_the_seed_alone_and_no_operator_prevails(tmp_path: Path):
    (tmp_path / "a.py").write_text("x = 1 + 2\n" * 20 + "y = 1 < 2\nz = min(3, 4)\n", "utf-8")
    paths = [(tmp_path / "a.py", "privacy/a.py")]
    chosen = mutations.choose(paths, 10, seed=1)
    assert chosen == mutations.choose(paths, 10, seed=1)
    assert chosen != mutations.choose(paths, 10, seed=2)
    operators = {"arithmetic", "boundary", "constant", "extremes", "flip"}
    assert {m.operator for m in chosen[:5]} == operators


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package of one function, and tests that see half of it."""
    files = {
        "src/veilflow/__init__.py": "",
        "src/veilflow/privacy/__init__.py": "",
        "src/veilflow/privacy/size.py": "def size(x):\n    return min(x, 3) + 0 * len('unseen')\n",
        "tests/privacy/test_size.py": "def test_it():\n"
        "    from veilflow.privacy.size import size\n    assert size(2) == 2 and size(5) == 3\n",
        "tests/privacy/test_others.py": "from veilflow.privacy.size import size\n",
        "tests/privacy/test_all.py": "",
        "tests/lessons/test_d01.py": "",
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow: of minutes']\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_likely_tests_come_first(project: Path):
    def names(stages: int) -> list[str]:
        return [p.stem for p in mutants.likely_tests("privacy/size.py", stages, project)]

    assert names(1) == ["test_size", "test_others"]
    assert names(2) == [*names(1), "test_all"]
    assert names(3) == [*names(2), "test_d01"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "limit", "outcome"),
    [
        ("min", "max", 60.0, "killed"),
        ("'unseen'", "''", 60.0, "survived"),
        ("return", "while True: pass\n    return", 3.0, "timeout"),
    ],
)
def test_a_fault_is_killed_survives_or_never_ends(
    project: Path, before: str, after: str, limit: float, outcome: str
):
    [(path, file)] = mutants.files_of(["privacy/size.py"], project)
    source = path.read_bytes()
    mutant = Mutant(file, 2, "by hand", before, after, source.index(before.encode()), "")
    tests = mutants.likely_tests(file, 1, project)[:1]
    verdict = mutants.judge(mutant, tests, (), limit, project)
    assert verdict.outcome == outcome
    assert ("test_size.py::test_it" in verdict.killed_by) is (outcome == "killed")
    assert path.read_bytes() == source


def test_the_summary_counts_time_limits_as_killed_and_lists_survivors():
    def verdict(outcome: str, line: int) -> mutants.Verdict:
        mutant = Mutant("privacy/size.py", line, "flip", "<", ">=", 0, "x < y")
        return mutants.Verdict(mutant, outcome, "", 1.0)

    outcomes = ["killed", "killed", "timeout", "survived", "error"]
    text = mutants.summary([verdict(outcome, line) for line, outcome in enumerate(outcomes)])
    assert "3 of 4 mutants killed (75%), 1 of them by the time limit; 1 could not" in text
    assert "survived: privacy/size.py:3 [flip]" in text


def test_parts_share_all_mutants():
    every = [Mutant("f.py", line, "flip", "<", ">", 0, "") for line in range(7)]
    parts = [mutants.part_of(every, f"{index}/3") for index in (1, 2, 3)]
    assert sorted(m.line for part in parts for m in part) == list(range(7))
    with pytest.raises(ValueError, match="part must be like"):
        mutants.part_of(every, "4/3")
