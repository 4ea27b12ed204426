"""The DP-NF reproduction on tiny rows and with a stand-in: what is run, kept, recorded and drawn."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from reproductions.dp_nf import SYSTEM as system
from reproductions.dp_nf import data, paper, runs, tables
from reproductions.dp_nf.runs import Task

from reproductions import records as record_files
from veilflow.privacy.events import Gaussian, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

HALF_MOONS = {"only": ["moons/1.5/flow-normal", "moons/1.5/mixture-3"], "splits": 2}


def quietly(tmp_path, **settings):
    lines: list[str] = []
    outcome = system.reproduce(out=tmp_path, say=lines.append, **settings)
    return outcome, lines


def test_every_row_of_the_paper_has_a_cell_for_every_epsilon():
    for block in paper.BLOCKS:
        for row in block.rows:
            assert all(len(cells) == len(block.epsilons) for cells in row.printed.values())
            assert set(row.must) <= set(block.epsilons)
        assert block.data in data.FACTS


def test_what_must_be_reached_is_no_worse_than_what_the_paper_reached():
    for block in paper.BLOCKS:
        for row in block.rows:
            for epsilon, must in row.must.items():
                # where the paper has no such row, any of its private flows
                flows = [r for r in block.rows if "DP-NF" in r.name and "non-private" not in r.name]
                own = [row] if row.printed else flows
                printed = [block.best(one, epsilon)[0] for one in own]
                assert printed
                for number in filter(None, printed):
                    assert block.sign * must > block.sign * number


def test_runs_are_made_once_and_an_interrupted_command_goes_on(tmp_path, quick):
    _, lines = quietly(tmp_path, **{**HALF_MOONS, "splits": 1})
    assert sum("log-likelihood" in line for line in lines) == 2  # flow and mixture
    _, lines = quietly(tmp_path, **HALF_MOONS)
    assert len(quick) == 4
    quietly(tmp_path, **HALF_MOONS)
    assert len(quick) == 4
    assert {call[:3] for call in quick} == {
        ("Half-Moons", "flow-normal", 1.5),
        ("Half-Moons", "mixture-3", 1.5),
    }
    assert {call[3] for call in quick} == {180}


def test_the_page_tells_commit_date_and_versions_of_its_numbers(at_home, quick, monkeypatch):
    for commit, day, only in (
        ("abc1234", "2026-01-01", "moons/1.5"),
        ("def5678", "2026-02-02", "gaussians/3"),
    ):
        monkeypatch.setattr("reproductions.cache.commit", lambda *paths, c=commit: c)
        monkeypatch.setattr("reproductions.cache.today", lambda d=day: d)
        monkeypatch.setattr("reproductions.cache.versions", lambda: {"jax": "9.9"})
        outcome = system.reproduce(only=[only], splits=1, say=lambda line: None)
    told = {(r.column, r.commit, r.date) for r in outcome.records if r.splits}
    assert told == {
        ("Half-Moons, 1.5", "abc1234", "2026-01-01"),
        ("Gaussians, 3", "def5678", "2026-02-02"),
    }
    _, _, origins = (at_home / "dp-nf.md").read_text("utf-8").partition("## Where and when")
    for day, commit, cell in (
        ("2026-01-01", "abc1234", "Half-Moons 1.5"),
        ("2026-02-02", "def5678", "Gaussians 3"),
    ):
        (line,) = [line for line in origins.splitlines() if day in line]
        assert line.startswith(f"| {day} | {commit} | jax 9.9 | ")
        assert f"table 5, DP-NF, {cell}" in line


def test_a_finished_run_is_taken_as_it_was_measured_whatever_the_code_is_now(
    tmp_path, quick, monkeypatch
):
    monkeypatch.setattr("reproductions.cache.commit", lambda *paths: "abc1234")
    before, _ = quietly(tmp_path, **HALF_MOONS)
    monkeypatch.setattr("reproductions.cache.commit", lambda *paths: "def5678")
    after, _ = quietly(tmp_path, **HALF_MOONS)
    assert len(quick) == 4
    assert after.records == before.records
    assert {r.commit for r in after.made} == {"abc1234"}


def test_a_run_of_other_declared_facts_is_another_run(tmp_path, quick, monkeypatch):
    before, _ = quietly(tmp_path, **HALF_MOONS)
    wider = replace(data.FACTS["moons"], bounds=((-9.0, -9.0), (9.0, 9.0)))
    monkeypatch.setitem(data.FACTS, "moons", wider)
    after, _ = quietly(tmp_path, **HALF_MOONS)
    assert len(quick) == 8
    assert before.made[0].settings["domain"] == [[-2.5, -2.5], [2.5, 2.5]]
    assert after.made[0].settings["domain"] == [[-9.0, -9.0], [9.0, 9.0]]
    assert after.made[0].settings["split"] == [1, 2]


def test_the_page_tells_what_no_accountant_sees_and_which_figures_are_not_drawn(tmp_path):
    text = system.page_text(tmp_path, [])
    for words in (
        "boxes of Gowalla and Power were declared after a look at the files",
        "Delta is about 1/n in the paper's setting",
        "Hyper-parameters come from generated data",
        "after one split of Life\n  Science with it had been seen",
    ):
        assert words in text
    assert "| Gowalla | 100,000 | 1.11e-05 | 1.00 |" in text
    assert text.count("Not drawn yet") == 12
    assert ".png" not in text


@pytest.mark.slow
def test_a_figure_that_its_runs_do_not_fit_is_not_drawn_and_it_is_said(
    tmp_path, quick, monkeypatch
):
    perform = runs.perform

    def shifted(task):
        done = perform(task)
        if task.epsilon == 6 and "view_border" in done.arrays:
            done.arrays["view_border"] = done.arrays["view_border"] + 1
        return done

    monkeypatch.setattr(runs, "perform", shifted)
    _, lines = quietly(tmp_path, figure=True, splits=1, only=["lifesci"])
    assert any(line.startswith("figure-4 is not drawn: its runs show diff") for line in lines)
    assert not (tmp_path / "figures" / "figure-4.png").exists()
    assert (tmp_path / "figures" / "figure-3.png").exists()


def test_a_run_that_fails_is_told_and_does_not_end_the_others(tmp_path, quick, monkeypatch):
    perform = runs.perform

    def failing(task):
        if task.method == "flow-normal":
            raise RuntimeError("no memory")
        return perform(task)

    monkeypatch.setattr(runs, "perform", failing)
    outcome, _ = quietly(tmp_path, **HALF_MOONS)
    assert len(outcome.failures) == 2
    assert "no memory" in outcome.failures[0]
    assert [record.row for record in outcome.made] == ["DP-MoG_3"]


def test_a_record_is_complete_and_true_to_its_runs(tmp_path, quick):
    outcome, _ = quietly(tmp_path, **HALF_MOONS)
    record = outcome.made[0]
    assert record.key == ("5", "DP-NF", "Half-Moons, 1.5", "test log-likelihood")
    assert (record.paper, record.paper_accountant) == (-2.23, "GDP")
    assert record.paper_sampling == "fixed size, without replacement"
    assert (record.must, record.better, record.delta) == (-1.55, "higher", 3.70e-5)
    assert (record.accountant, record.sampling, record.splits) == ("PLD", "Poisson", 2)
    stored = [
        json.loads(p.read_text("utf-8")) for p in (tmp_path / "runs").glob("moons-flow*.json")
    ]
    means = [run["result"]["log_likelihood"]["mean"] for run in stored]
    assert record.ours == pytest.approx(np.mean(means))
    assert record.spread == pytest.approx(np.std(means, ddof=1))
    assert record.epsilon == stored[0]["result"]["guarantee"]["epsilon"]
    assert 0 < record.epsilon < 1.5
    assert record.claims["PLD, Poisson"] == pytest.approx(record.epsilon, abs=1e-3)
    assert record.true_epsilon_of_paper is None  # its settings there are not known
    assert record_files.read(tmp_path / "results.json")[: len(outcome.made)] == outcome.made


def test_life_science_knows_what_the_paper_had_really_spent(tmp_path, quick):
    outcome, _ = quietly(tmp_path, only=["lifesci/1/flow"], splits=1)
    found = {record.table: record for record in outcome.made}
    assert found["1"].true_epsilon_of_paper == pytest.approx(2.30, abs=0.01)
    assert found["figure 2"].better == "lower"
    assert 0 < found["figure 5"].ours <= 1
    assert found["time"].must == 240


def test_a_negative_log_likelihood_is_turned_around(tmp_path, quick):
    outcome, _ = quietly(tmp_path, only=["pinwheel/1.5/flow"], splits=1)
    (path,) = (tmp_path / "runs").glob("*.json")
    mean = json.loads(path.read_text("utf-8"))["result"]["log_likelihood"]["mean"]
    assert outcome.made[0].ours == -mean
    assert outcome.made[0].better == "lower"


def test_rows_of_density_zero_leave_no_number_and_a_note(tmp_path, quick, monkeypatch):
    from tests.reproductions.stand_in import Fitted

    log_prob = Fitted.log_prob

    def ruled_out(self, rows):
        return np.where(np.arange(len(rows)) == 0, -math.inf, log_prob(self, rows))

    monkeypatch.setattr(Fitted, "log_prob", ruled_out)
    outcome, _ = quietly(tmp_path, **HALF_MOONS)
    assert outcome.made[0].ours is None
    assert outcome.made[0].misses
    assert "2 test rows have density zero" in outcome.made[0].note


def test_what_was_not_run_and_must_reach_something_counts_as_missing(tmp_path, quick):
    outcome, _ = quietly(tmp_path, **HALF_MOONS)
    missing = [record for record in outcome.records if record.splits == 0]
    with_bound = sum(len(row.must) for block in paper.BLOCKS for row in block.rows)
    with_bound += sum(len(block.reference_musts) for block in paper.BLOCKS)
    assert len(missing) == with_bound - 1
    assert all(record.misses and "not run yet" in record.note for record in missing)
    again, _ = quietly(tmp_path, only=["gaussians/1.5"], splits=1)
    assert len([r for r in again.records if r.splits == 0]) == with_bound - 4


def test_a_reference_without_privacy_is_labeled_infinite(tmp_path, quick):
    outcome, _ = quietly(tmp_path, only=["lifesci/inf/flow"], splits=1)
    record = next(r for r in outcome.made if r.table == "1")
    assert (record.row, record.epsilon) == ("NF without privacy", math.inf)
    assert record.claims == {}
    assert '"epsilon": "inf"' in (tmp_path / "results.json").read_text("utf-8")


@pytest.mark.slow
def test_everything_once_leaves_every_record_figure_and_the_page(at_home, quick):
    outcome = system.reproduce(splits=1, say=lambda line: None)
    assert outcome.failures == []
    assert not [record for record in outcome.records if record.splits == 0]
    folder = at_home / "dp-nf"
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    numbers = {name.split("-")[1] for name in drawn}
    assert numbers == {str(number) for number in range(1, 13)}
    text = (at_home / "dp-nf.md").read_text("utf-8")
    for record in outcome.records:
        assert record.measured in text
    for name in drawn:
        assert f"dp-nf/figures/{name}.png" in text
    assert "None of it was run yet" not in text
    assert system.write_page().read_text("utf-8") == text
    # what is written next to the numbers
    for words in ("GDP, fixed size, without replacement", "not a bound", "really spent", "PLD"):
        assert words in text


def test_a_figure_whose_runs_are_missing_is_not_drawn_and_it_is_said(tmp_path, quick, monkeypatch):
    monkeypatch.setattr(runs, "perform", lambda task: 1 / 0)
    outcome, lines = quietly(tmp_path, figure=True, splits=1)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "figure-8-top.png",
        "figure-9.png",
    }
    assert any("figure-1 is not drawn" in line for line in lines)
    assert outcome.records == []
    assert not (tmp_path / "results.json").exists()


def test_what_shows_records_alone_is_drawn_without_the_runs(tmp_path, quick):
    quietly(tmp_path, only=["lifesci/0.5", "lifesci/1"], splits=1)
    before = len(quick)
    for path in (tmp_path / "runs").iterdir():
        path.unlink()
    lines: list[str] = []
    records = system.draw(out=tmp_path, say=lines.append)
    assert len(quick) == before
    assert records == record_files.read(tmp_path / "results.json")
    drawn = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert {"figure-1", "figure-9"} <= drawn
    assert "figure-3" not in drawn
    assert any(line.startswith("figure-3 is not drawn: 2 of its runs") for line in lines)
    (tmp_path / "results.json").unlink()
    (tmp_path / "figures" / "figure-1.png").unlink()
    assert system.draw(out=tmp_path, say=lines.append) == []
    assert not (tmp_path / "figures" / "figure-1.png").exists()


def test_a_table_asks_for_its_own_runs_only(tmp_path, quick):
    quietly(tmp_path, table=[5], splits=1)
    assert {call[0] for call in quick} == {"Half-Moons", "Gaussians"}
    assert len(quick) == 2 * 3 * 3
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"splits": 0}, "splits must be from 1 to 10"),
        ({"splits": 11}, "splits must be from 1 to 10"),
        ({"table": [3]}, "the tables are 1, 2, 4, 5; got 3"),
        ({"only": ["mars"]}, "data set of lifesci"),
        ({"only": ["moons/x"]}, "DATA/EPSILON"),
        ({"only": ["moons/1/flow/2"]}, "DATA/EPSILON/METHOD"),
    ],
)
def test_what_there_is_not_is_refused_before_any_run(settings, message, tmp_path, quick):
    with pytest.raises(ValueError, match=message):
        quietly(tmp_path, **settings)
    assert quick == []


def test_settings_of_a_run_hold_everything_that_was_declared():
    settings = Task(data="power", method="flow", epsilon=1.25, split=3).settings
    json.dumps(settings, allow_nan=False)
    assert settings["delta"] == 1.11e-5
    assert len(settings["domain"]) == 2
    assert Task(data="lifesci", method="flow", epsilon=math.inf, split=1).settings["domain"] == 1.0


@pytest.mark.parametrize("name", data.TOYS)
def test_generated_sets_are_standard_in_their_box_and_split_in_ten(name):
    found, facts = data.load(name), data.FACTS[name]
    assert found.rows.shape == (facts.num_rows, 2)
    np.testing.assert_allclose(found.rows.std(axis=0), 1, atol=0.02)
    low, high = facts.bounds
    assert (found.rows > low).all()
    assert (found.rows < high).all()
    train, test = found.split(10)
    assert (len(train), len(test)) == (27_000, 3_000)
    assert len(train) == facts.num_train


@pytest.mark.data
@pytest.mark.parametrize("name", ["lifesci", "power", "gowalla"])
def test_real_sets_are_in_the_papers_space_and_within_what_is_declared(name):
    found, facts = data.load(name), data.FACTS[name]
    assert found.rows.shape == (facts.num_rows, len(facts.columns))
    assert set(found.folds) == set(range(1, 11))
    assert len(found.split(1)[0]) == facts.num_train
    if facts.row_norm is not None:
        largest = np.linalg.norm(found.rows, axis=1).max()
        assert 0.99 < largest <= 1
        return
    np.testing.assert_allclose(found.rows.std(axis=0), 1, atol=0.01)
    np.testing.assert_allclose(found.rows.mean(axis=0), 0, atol=0.01)
    low, high = facts.bounds
    assert (found.rows >= low).all()
    assert (found.rows <= high).all()


@pytest.mark.parametrize("split", [0, 11])
def test_a_split_there_is_not_is_refused(split):
    with pytest.raises(ValueError, match="from 1 to 10"):
        data.Data(np.zeros((10, 2)), np.arange(10) + 1).split(split)


def test_no_row_is_in_training_and_test_of_the_same_split():
    found = data.Data(np.arange(40.0).reshape(20, 2), np.arange(20) % 10 + 1)
    seen = []
    for number in range(1, 11):
        train, test = found.split(number)
        assert not set(train[:, 0]) & set(test[:, 0])
        seen += test[:, 0].tolist()
    assert sorted(seen) == found.rows[:, 0].tolist()


def test_committed_records_are_of_known_tables_and_data():
    for record in record_files.read(system.out / "results.json"):
        assert record.table in {
            *("time", "figure 2", "figure 5", "figure 11"),
            *map(str, paper.TABLES),
        }
        assert record.column.split(", ")[0] in {facts.title for facts in data.FACTS.values()}


def test_estimators_are_asked_for_with_public_facts_only(monkeypatch):
    from reproductions.dp_nf import estimators

    import veilflow as vf

    given = []
    for name in ("DensityFlow", "MixtureDensity"):
        make = lambda name=name, **settings: given.append((name, settings))  # noqa: E731
        monkeypatch.setitem(vars(vf), name, make)
    flows = ("flow", "flow-counted", "flow-normal", "flow-mixture-5")
    for method in (*flows, "start", "start-rehearsed", "mixture-8"):
        estimators.build(method, data.FACTS["moons"], epsilon=1.0, num_records=27_000)
    budget = vf.Budget(epsilon=1.0, delta=3.70e-5)
    public = {"budget": budget, "num_records": 27_000, "bounds": data.FACTS["moons"].bounds}
    by_base = {**public, "start": "columns"}
    assert given == [
        ("DensityFlow", public),
        ("DensityFlow", {**public, "num_records": None}),
        ("DensityFlow", {**by_base, "base": "normal"}),
        ("DensityFlow", {**by_base, "base": "mixture", "num_components": 5}),
        ("DensityFlow", {**public, "training": vf.Training(steps=0), "rehearse": False}),
        ("DensityFlow", {**public, "training": vf.Training(steps=0), "rehearse": True}),
        ("MixtureDensity", {**public, "num_components": 8}),
    ]
    with pytest.raises(ValueError, match="flow, start, mixture, open or paper"):
        estimators.build("gan", data.FACTS["lifesci"], epsilon=1.0, num_records=1)


def test_the_settings_of_the_paper_are_those_of_its_code_on_poisson_batches():
    from reproductions.dp_nf import accounting, estimators

    import veilflow as vf

    facts = data.FACTS["lifesci"]
    estimator = estimators.build("paper", facts, epsilon=0.5, num_records=facts.num_train)
    assert estimator.flow == vf.maf(blocks=5, hidden=(100, 100))
    assert (estimator.base, estimator.start) == ("normal", "whitening")
    steps = estimator.training.steps
    assert estimator.training == vf.Training(
        steps=steps,
        batch_size=100,
        clip_norm=12.0,
        optimizer="adam",
        learning_rate=7e-4,
        schedule="constant",
        weight_decay=0.0,
        ema_decay=None,
    )
    rate = 100 / facts.num_train
    ledgers = [
        Ledger().spend(Repeated(n, PoissonSampled(rate, Gaussian(2.1))), purpose="training")
        for n in (steps, steps + 1)
    ]
    within, beyond = (ledger.epsilon(delta=facts.delta) for ledger in ledgers)
    assert within <= 0.5 < beyond
    assert steps == accounting.sound_steps(0.5, rate=rate, delta=facts.delta)
    plan = estimator.plan(10)
    assert plan.guarantee.epsilon <= 0.5
    # what is left after the whitening allows a little less than 2.1 would
    assert 2.1 < plan.releases[-1].noise_multiplier < 2.4


def test_figure_11_has_a_record_for_what_it_shows(tmp_path, quick):
    outcome, _ = quietly(tmp_path, only=["lifesci/0.5", "lifesci/1"], splits=2)
    found = [r for r in outcome.made if r.table == tables.FIGURE_11]
    assert {r.row for r in found} >= {"DP-NF", "DP-NF, the paper's settings", "DP-MoG_3"}
    assert {(r.column, r.splits, r.spread) for r in found} == {("Life Science, 0.5", 1, None)}
    assert all(0 <= r.ours <= 1 for r in found)
    assert {r.key for r in outcome.made} - set(tables.keys()) == {
        r.key for r in outcome.made if r.table == "time"
    }


def test_parts_vote_on_a_grid_of_the_box(quick):
    from reproductions.dp_nf import ensembles

    done = runs.perform(Task(data="moons", method="ensemble-flow", epsilon=1.0, split=1))
    cells = (ensembles.CELLS, ensembles.CELLS)
    assert done.arrays["inside"].shape == (ensembles.PARTS, *cells)
    votes = done.arrays["inside"].sum(axis=0)
    np.testing.assert_allclose(
        done.arrays["answers"], 1 / (1 + np.exp(-(2 * votes - ensembles.PARTS) / 2)), rtol=1e-6
    )
    assert done.arrays["inside"][:, cells[0] // 2, cells[1] // 2].all()  # where the rows are
    assert not done.arrays["inside"][:, 0, 0].any()
    assert done.result["guarantee"]["epsilon"] == pytest.approx(1.0)
    corners = ensembles.grid(data.FACTS["moons"])[[0, ensembles.CELLS - 1]]
    assert corners[0, 0] == -corners[1, 0] < -2.4
    assert corners[0, 1] == corners[1, 1]


def test_parts_learn_what_the_figure_says(monkeypatch):
    from reproductions.dp_nf import ensembles

    import veilflow as vf

    made = [
        ensembles.build(method, data.FACTS["moons"], epsilon=1.0)
        for method in ensembles.METHODS.values()
    ]
    assert [m.flow for m in made] == ["mixture", vf.maf(blocks=5, hidden=(100, 100)), None]
    assert [m.num_components for m in made] == [3, None, None]
    assert {(m.parts, m.threshold) for m in made} == {(10, "uniform")}


@pytest.mark.parametrize("private", [True, False])
def test_only_what_private_steps_trained_is_in_bold(tmp_path, private, quick):
    only = ["moons/1.5/flow-normal"] if private else ["moons/2.25/mixture-3"]
    outcome, _ = quietly(tmp_path, only=only, splits=1)
    grid = [r for r in outcome.records if r.row == "private grid" and "Moons" in r.column]
    assert [(r.splits, r.sampling) for r in grid] == [(0, "")]  # must be reached, and was not run
    text = system.page_text(tmp_path, outcome.records)
    assert "| private grid, ours | not run | not run | not run |" in text
    assert "**not run**" not in text
    assert "**private grid" not in text
    if private:
        (line,) = [line for line in text.splitlines() if line.startswith("| **DP-NF, ours**")]
        assert line.endswith("** | not run | not run |")


def test_columns_are_named_after_the_data_and_the_epsilon():
    assert tables.column("lifesci", 0.5) == "Life Science, 0.5"
    assert tables.column("lifesci", math.inf) == "Life Science, inf"
