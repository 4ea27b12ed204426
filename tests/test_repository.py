"""What a reader relies on: no traces of a machine, commands that exist, files of one concept."""

import ast
import re
import shlex
import subprocess
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from typer.testing import CliRunner

import veilflow
from veilflow.cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))
PROSE = ["README.md", "CONTRIBUTING.md", *PAGES]

MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(work|root|home|tmp|opt|mnt|Users)/[\w.]|[A-Z]:\\Users\\")
INDEX_HOST = re.compile(r"pypi\.org|pythonhosted\.|index-url[ =]+\w+:|https?:\S+/simple\b")
MAX_LINES = 400
OUTPUTS = {"build", "demo", "dist", "site"}


@cache
def files() -> list[Path]:
    """Every file of the project: what git tracks or would, or, without git, all but outputs."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        found = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        top = [p for p in ROOT.iterdir() if not p.name.startswith(".") and p.name not in OUTPUTS]
        found = [p for start in top for p in [start, *start.rglob("*")] if p.suffix != ".pyc"]
    return [path for path in found if path.is_file()]


def matches(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:  # figures
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}"
            for number, line in enumerate(text.splitlines(), 1)
            if pattern.search(line)
        ]
    return found


def make_targets() -> set[str]:
    return set(
        re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    )


def make_commands(text: str) -> set[str]:
    """Targets named in code: a line of a block, or a word between backticks."""
    return set(re.findall(r"(?:^|`)\s*make ([a-z-]+)(?=[`\s])", text, re.MULTILINE))


def code_blocks(text: str, language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def test_no_file_names_a_path_of_somebodys_machine():
    assert matches(MACHINE_PATH) == []


def test_no_file_names_a_package_index():
    assert matches(INDEX_HOST) == []


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (MACHINE_PATH, "cd /" + "home/ada/veilflow", True),
        (MACHINE_PATH, "open('/" + "tmp/rows.csv')", True),
        (MACHINE_PATH, "C:\\" + "Users\\ada", True),
        (MACHINE_PATH, "https://example.org/home/page and ../opt/x", False),
        (INDEX_HOST, "https://" + "pypi." + "org/project/jax", True),
        (INDEX_HOST, "pip install --index-url " + "https://mirror.example", True),
        (INDEX_HOST, "a package index", False),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str, found: bool):
    assert bool(pattern.search(text)) is found


def test_every_make_command_in_the_prose_is_a_target():
    targets = make_targets()
    unknown = {name: make_commands((ROOT / name).read_text("utf-8")) - targets for name in PROSE}
    assert {name: commands for name, commands in unknown.items() if commands} == {}


def faults_of_block(block: str) -> str:
    """What is wrong with a block of Python: its syntax, or names that the package does not have."""
    try:
        ast.parse(block)
    except SyntaxError as error:
        return str(error)
    names = sorted(set(re.findall(r"\bvf\.(\w+)", block)))
    return ", ".join(f"vf.{name}" for name in names if not hasattr(veilflow, name))


def test_every_python_block_in_the_prose_parses_and_uses_names_that_exist():
    faults = [
        (name, fault)
        for name in PROSE
        for block in code_blocks((ROOT / name).read_text("utf-8"), "python")
        if (fault := faults_of_block(block))
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("block", "fault"),
    [("x = vf.DensityFlow", ""), ("vf.Nothing()", "vf.Nothing"), ("x = (", "'(' was never closed")],
)
def test_the_check_of_blocks_finds_what_it_is_for(block: str, fault: str):
    assert faults_of_block(block).startswith(fault)
    assert bool(faults_of_block(block)) is bool(fault)


def command_lines() -> dict[tuple[str, ...], set[str]]:
    """Commands shown in the prose, as (group, command) or (command,), with the options they use."""
    shown: dict[tuple[str, ...], set[str]] = {}
    for name in PROSE:
        for block in code_blocks((ROOT / name).read_text("utf-8"), "sh"):
            block = block.replace("\\\n", " ")
            for line in re.findall(r"^veilflow (.*)", block, re.MULTILINE):
                words = shlex.split(line, comments=True)
                command = tuple(words[: 2 if words[0] in ("fit", "posterior", "detect") else 1])
                shown.setdefault(command, set()).update(w for w in words if re.match("--?[a-z]", w))
    return shown


def test_every_command_line_in_the_prose_is_one_the_program_knows(monkeypatch: pytest.MonkeyPatch):
    for name, value in (("COLUMNS", "250"), ("TERM", "dumb"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    faults = {}
    for command, options in command_lines().items():
        run = CliRunner().invoke(app, [*command, "--help"], prog_name="veilflow")
        unknown = options - set(re.findall(r"--?[a-z][a-z-]*", run.stdout))
        if run.exit_code or unknown:
            faults[" ".join(command)] = (run.exit_code, unknown)
    assert len(command_lines()) > 10
    assert faults == {}


def test_the_readme_shows_the_two_commands():
    assert {"demo", "test"} <= make_commands((ROOT / "README.md").read_text("utf-8"))


def test_the_changelog_has_a_privacy_heading_in_its_newest_release():
    newest = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1]
    assert "\n### Privacy\n" in newest


def test_no_source_file_is_longer_than_one_concept():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in (ROOT / "src").rglob("*.py")
    }
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


def test_the_citation_names_the_version_and_license_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\nlicense: {project['license']}\n" in citation


def test_every_dependency_is_pinned_in_the_constraints():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in wanted}
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert names <= {line.split("==")[0].lower() for line in lines}
