"""The overview: nothing of a paper is left out, every number is measured, every link and call works."""

import difflib
import inspect
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from benchmarks.provenance import ROOT
from reproductions.contents import KINDS, PAPERS, Entry, Number
from reproductions.index import GUIDES, NOT_DRAWN, NOT_PRINTED, Shelf, links, slug, tables_of
from reproductions.pages import NOT_RUN
from reproductions.system import PAGES

import reproductions
import veilflow as vf
from reproductions import get, index, running
from veilflow import engine
from veilflow.cli.main import app

PAGE = PAGES / index.NAME
COUNTS = {
    "dp-nf": (4, 5, 12),
    "dp-hflow": (0, 3, 5),
    "dp-lflow": (1, 5, 7),
    "expm-nf": (1, 5, 2),
    "dp-nf-vi": (2, 9, 4),
}
"""The highest numbers of algorithms, tables and figures in the captions of each paper."""
ENTRIES = [(paper.system, entry) for paper in PAPERS for entry in paper.entries]
CALLS = sorted({entry.call for _, entry in ENTRIES if entry.call})
REMAKE = "Run python -m reproductions index."
WAITING = {
    "dp-hflow": {"Figure 2", "Figure 3"},
    "dp-lflow": {"Figure 6"},
    "dp-nf-vi": {"Table 5", "Figure 3"},
}
"""Entries that are built and not yet measured or drawn; whoever measures one takes it out."""


@pytest.fixture(scope="module")
def shelves():
    return {name: Shelf(get(name)) for name in reproductions.SYSTEMS}


def test_the_committed_page_is_what_is_generated():
    assert PAGE.read_text("utf-8") == index.text(), f"The overview is out of date. {REMAKE}"


def test_every_line_of_a_table_has_a_cell_in_each_column():
    lines = [line for line in index.text().splitlines() if line.startswith("|")]
    assert {len(line.split("|")) - 2 for line in lines} == {8}
    assert len(lines) == len(ENTRIES) + 2 * len(PAPERS)


def test_every_algorithm_table_and_figure_of_a_paper_is_listed_once_and_in_order():
    assert {paper.system: paper.counts for paper in PAPERS} == COUNTS
    for paper in PAPERS:
        numbered = [
            f"{kind} {number}"
            for kind, count in zip(KINDS, paper.counts, strict=True)
            for number in range(1, count + 1)
        ]
        assert [entry.label for entry in paper.entries] == numbered


def test_every_numbered_table_of_a_system_belongs_to_an_entry():
    for paper in PAPERS:
        listed = {table for entry in paper.entries for table in tables_of(entry)}
        tables = {str(block.table) for block in get(paper.system).blocks}
        numbered = {x for x in tables if re.fullmatch(r"((algorithm|figure) )?\d+", x)}
        assert numbered <= listed, f"{paper.system}: {numbered - listed} belong to no entry"


def test_every_table_that_an_entry_names_is_there():
    for system, entry in ENTRIES:
        tables = {str(block.table) for block in get(system).blocks}
        gone = set(entry.blocks) - tables
        assert not gone, f"{entry.label} of {system} names {gone}; there are {tables}"


def complaint(number: Number, shelf: Shelf) -> str:
    """What is wrong with our side of a number; empty if nothing is."""
    if number.ours is None:
        return ""
    name, cell = shelf.system.name, " / ".join(number.ours)
    record = shelf.records.get(number.ours)
    cells = {*shelf.system.tables.keys(), *_unkeyed(shelf)}
    if number.ours not in cells:
        measured = [
            " / ".join(key) for key, r in shelf.records.items() if r.splits and key in cells
        ]
        near = difflib.get_close_matches(cell, measured, n=3, cutoff=0.5)
        return (
            f"{cell} is no cell of {name} any more. Name another one in reproductions/contents/, "
            f"such as {' or '.join(near) or 'one of its tables'}."
        )
    if record is None or not record.splits:
        return f"{cell} is not measured yet: run veilflow reproduce {name}."
    return ""


def _unkeyed(shelf: Shelf):
    """Records that stand for no cell of a table: times, and what another system measured."""
    cells = {key[0] for key in shelf.system.tables.keys()}  # noqa: SIM118  # a function of a module
    return [key for key in shelf.records if key[0] not in cells]


def test_every_number_is_that_of_a_measured_cell_which_the_tables_still_have(shelves):
    wrong = {
        (system, entry.label): found
        for system, entry in ENTRIES
        for number in entry.numbers
        if (found := complaint(number, shelves[number.system or system]))
    }
    assert set(wrong) == _waiting("Algorithm", "Table"), "\n".join([*wrong.values(), REMAKE])


def test_every_figure_is_drawn(shelves):
    missing = {
        (system, entry.label): f"veilflow reproduce {system} --figures"
        for system, entry in ENTRIES
        if entry.kind == "Figure" and NOT_DRAWN in " ".join(shelves[system].pictures(entry))
    }
    assert set(missing) == _waiting("Figure"), f"draw what is missing: {missing}"


def _waiting(*kinds):
    return {
        (system, label)
        for system, labels in WAITING.items()
        for label in labels
        if label.startswith(kinds)
    }


def test_every_cell_of_a_paper_that_is_named_has_a_number(shelves):
    named = [(s, number.paper) for s, entry in ENTRIES for number in entry.numbers if number.paper]
    assert named
    empty = [(system, key) for system, key in named if not shelves[system].printed(key)]
    assert not empty, f"no table quotes a number of the paper for {empty}"


def test_a_cell_that_is_gone_is_reported_with_the_ones_that_are_near(shelves):
    said = complaint(Number(ours=("1", "DP-NF", "Life Science, 1", "log-lik")), shelves["dp-nf"])
    assert "is no cell of dp-nf any more" in said
    assert "1 / DP-NF / Life Science, 1 / test log-likelihood" in said


def test_an_entry_says_where_it_is_and_how_to_call_it_or_why_it_is_missing(shelves):
    for system, entry in ENTRIES:
        name, found = f"{entry.label} of {system}", links(entry, shelves[system])
        if entry.missing:
            assert not found, f"{name} is made by now: describe it instead of saying why not."
            assert not entry.call, name
        else:
            assert entry.where, name
            assert entry.call, name
            assert found or entry.note, name


def test_every_place_is_a_file_of_the_repository_or_a_public_name_with_a_guide():
    for name in {name for _, entry in ENTRIES for name in entry.where}:
        root, *parts = name.split(".")
        if "/" in name:
            assert (ROOT / name).exists(), name
            continue
        assert name in GUIDES
        found = {"vf": vf, "veilflow": SimpleNamespace(engine=engine)}.get(root)
        for part in parts:
            found = getattr(found, part)
        assert found is not None or name == "veilflow account"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {slug(heading) for heading in headings}


def test_every_link_of_the_page_leads_somewhere():
    broken = []
    for target in set(re.findall(r"\]\(([^)]+)\)", index.text())):
        name, _, anchor = target.partition("#")
        file = (PAGES / name).resolve() if name else PAGE
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert not broken, f"Write the pages of the systems again, or change the links: {broken}"


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Table 1: Kendall's tau of Covertype", "table-1-kendalls-tau-of-covertype"),
        ("ICU, GRU-D: 5,865 parameters", "icu-gru-d-5865-parameters"),
        ("What holds, and what does not", "what-holds-and-what-does-not"),
    ],
)
def test_anchors_are_those_of_the_site(heading, anchor):
    assert slug(heading) == anchor


def _bound(call, *given, **named):
    return inspect.signature(call).bind(*given, **named)


def _names():
    """What the calls of the page refer to."""
    anything = object()
    table = {"age": vf.Numeric(low=0, high=99), "town": vf.Categorical("a", "b")}
    return {
        "vf": vf,
        "reproductions": reproductions,
        "engine": SimpleNamespace(
            **{name: getattr(engine, name) for name in ("TrainingPlan", "Flat", "Secret")},
            train=lambda *given, **named: _bound(engine.train, *given, **named),
        ),
        "budget": vf.Budget(epsilon=1.0, delta=1e-6),
        "low": [0.0, 0.0, 0.0, 0.0],
        "high": [1.0, 1.0, 1.0, 1.0],
        "schema": vf.Schema(table),
        "spec": vf.ImageSpec(height=28, width=28, classes=range(10)),
        "log_likelihood": lambda theta, record: -0.5 * (record[0] - theta[0]) ** 2,
        **dict.fromkeys(
            ("rows", "table", "images", "features", "labels", "records", "loss_fn", "model"),
            anything,
        ),
    }


@pytest.mark.parametrize("call", [call for call in CALLS if not call.startswith("veilflow ")])
def test_every_expression_of_the_page_builds_and_plans(call):
    names = _names()
    expression, fits, given = call.rpartition(".fit(")
    if not fits:
        assert eval(call, names) is not None
        return
    estimator = eval(expression, names)
    _bound(estimator.fit, *eval(f"({given.removesuffix(')')},)", names))
    assert estimator.plan().guarantee.epsilon <= 1


def _command(call):
    command, words = typer.main.get_command(app), shlex.split(call)[1:]
    while commands := getattr(command, "commands", None):
        command = commands[words.pop(0)]
    return command.name, command.make_context(str(command.name), words).params


def test_every_command_of_the_page_is_understood():
    for call in CALLS:
        if not call.startswith("veilflow "):
            continue
        name, found = _command(call)  # raises for an option that there is not
        if name != "reproduce":
            continue
        system = get(found["system"])
        tables = {int(block.table) for block in system.blocks if str(block.table).isdigit()}
        table, only = found["table"] or (), found["only"] or ()
        running.check_tables(table, sorted(tables))
        running.check_only(only, system.data)
        tasks, drawn = system.chosen(1, table=table, figure=found["figures"], only=only)
        assert tasks or drawn, f"{call} does nothing"


def test_without_records_the_page_says_what_was_not_run(monkeypatch, tmp_path):
    monkeypatch.setattr("reproductions.system.FOLDER", tmp_path)
    assert f"| {NOT_PRINTED} | {NOT_RUN} |" in index.text()


def test_the_overview_is_written_with_the_page_of_a_system(monkeypatch, tmp_path):
    monkeypatch.setattr("reproductions.system.PAGES", tmp_path)
    get("dp-nf").write_page()
    assert (tmp_path / index.NAME).read_text("utf-8") == index.text()


def test_the_command_writes_the_page(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("reproductions.index.PAGES", tmp_path)
    assert index.main([]) == 0
    assert str(tmp_path / index.NAME) in capsys.readouterr().out


def test_a_number_names_a_cell_at_least():
    entry = Entry(kind="Table", number=1, what="nothing", numbers=(Number(),))
    with pytest.raises(ValueError, match="must name a cell"):
        index._cell(entry.numbers[0], Shelf(get("dp-nf")), {})
