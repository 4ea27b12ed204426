"""Twenty-three lessons, from mistakes that others made: each has a test that is named after it."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LESSONS = [f"d{number:02d}" for number in range(1, 24)]


def names_of_tests() -> list[str]:
    names = []
    for path in HERE.glob("test_d*.py"):
        body = ast.parse(path.read_text("utf-8")).body
        names += [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("test_")]


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_lesson_has_a_test(lesson):
    assert any(name.startswith(f"test_{lesson}_") for name in names_of_tests())


def test_every_test_here_is_of_a_lesson():
    assert all(name.split("_")[1] in LESSONS for name in names_of_tests())
