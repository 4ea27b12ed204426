"""TableFlow beside its peers: which cells are run, what is kept of them, and what is measured."""

import subprocess
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from benchmarks import __main__ as command
from benchmarks import (
    peer_cells,
    peer_data,
    peer_fit,
    peer_page,
    table_measures,
    table_peers,
)
from benchmarks.peer_cells import Cell
from benchmarks.structures import Kept

import veilflow as vf

ROWS = 400


def cell(method: str = "tableflow", epsilon: float | None = 1.0, **changes) -> Cell:
    given = {
        "table": "stones",
        "method": method,
        "epsilon": epsilon,
        "delta": None if epsilon is None else 1e-5,
        "rows": ROWS,
        "synthetic_rows": 10,
        "seed": 0 if epsilon is None else 1,
        "measures": {"total variation, 2 columns": 0.1234567, "gradient boosting, R2": 0.9},
        "machine": "a processor, 2 cores",
        "date": "2025-01-01",
        "commit": "abc1234",
    }
    return Cell(**(given | changes))


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Cells and pages in a folder of their own."""
    for function in (peer_cells.read, peer_cells.keep):
        monkeypatch.setattr(function, "__defaults__", (tmp_path,))
    monkeypatch.setattr(peer_page.write, "__defaults__", (tmp_path / "page.md", tmp_path, tmp_path))
    return tmp_path


@pytest.fixture
def fits(monkeypatch) -> list[tuple]:
    """Fits give back the training rows, but that of AIM fails and that of MST takes too long."""
    calls = []

    def fit(table, rows, method, epsilon, seed, *, limit):
        calls.append((table, method, epsilon, seed))
        if method == "aim":
            raise RuntimeError("dpmm failed: no reason")
        if method == "mst":
            raise subprocess.TimeoutExpired("mst", limit)
        return peer_fit.Fitted(peer_data.load(table, rows).train, 2.0, 0.5, {}, {"x": "1"})

    monkeypatch.setattr(table_peers, "fit", fit)
    monkeypatch.setattr(peer_data, "TEST", 500)
    peer_data.load.cache_clear()
    yield calls
    peer_data.load.cache_clear()


ARGUMENTS = ["--tables", "stones", "--epsilons", "0.1", "1", "--rows", str(ROWS)]


def test_finished_cells_are_not_run_again_and_ours_are_when_asked(results, fits, monkeypatch):
    monkeypatch.setattr(table_peers, "_commit", lambda: "first")
    assert command.main(["table_peers", *ARGUMENTS]) == 0
    first = [("stones", "real", None, 0)]
    for epsilon in (0.1, 1.0):
        first += [("stones", name, epsilon, 1) for name in table_peers.DEFAULT_METHODS]
    assert fits == first
    fits.clear()
    command.main(["table_peers", *ARGUMENTS])
    monkeypatch.setattr(table_peers, "_commit", lambda: "second")
    command.main(["table_peers", *ARGUMENTS])
    assert fits == []
    for _ in range(2):  # the second time they are of this commit
        command.main(["table_peers", *ARGUMENTS, "--again", "tableflow"])
    assert fits == [("stones", "tableflow", epsilon, 1) for epsilon in (0.1, 1.0)]
    kept = peer_cells.read()
    assert {c.commit for c in kept.values() if c.method == "tableflow"} == {"second"}
    assert {c.commit for c in kept.values() if c.method != "tableflow"} == {"first"}


def test_a_method_that_fails_leaves_a_cell_that_says_why(results, fits):
    command.main(["table_peers", *ARGUMENTS, "--limit", "9"])
    kept = peer_cells.read()
    assert kept["stones", "aim", 1.0, ROWS, 1].failed == "dpmm failed: no reason"
    assert kept["stones", "mst", 1.0, ROWS, 1].failed == "not done in 9 seconds"
    assert kept["stones", "aim", 1.0, ROWS, 1].measures == {}
    page = (results / "page.md").read_text("utf-8")
    assert "AIM, epsilon 1: dpmm failed: no reason" in page
    assert (results / f"table_peers_stones_{ROWS}.png").exists()


def test_cells_are_read_back_with_five_digits(results):
    peer_cells.keep(cell())
    peer_cells.keep(cell("real", None))
    peer_cells.keep(cell(commit="later"))
    kept = peer_cells.read()
    assert list(kept) == [("stones", "real", None, ROWS, 0), ("stones", "tableflow", 1.0, ROWS, 1)]
    assert (
        kept["stones", "tableflow", 1.0, ROWS, 1].measures["total variation, 2 columns"] == 0.12346
    )
    assert kept["stones", "tableflow", 1.0, ROWS, 1].commit == "later"


@pytest.mark.parametrize("text", ["{", "[1]", '[{"table": "x"}]'])
def test_a_file_without_cells_is_named(results, text):
    (results / "odd.json").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"odd\.json does not hold cells"):
        peer_cells.read()


def test_shortfalls_are_from_the_better_peer_whichever_way_is_better():
    name, score = "total variation, 2 columns", "gradient boosting, R2"
    cells = [
        cell(measures={name: 0.12, score: 0.9}),
        cell("aim", measures={name: 0.10, score: 0.5}),
        cell("mst", measures={name: 0.20, score: 0.6}),
        cell("aim", 3.0),  # without ours
        cell("tableflow", 10.0),  # without a peer
        cell("real", None),
    ]
    ((key, lost),) = peer_page.shortfalls(cells).items()
    assert key == ("stones", ROWS, 1.0)
    assert lost == pytest.approx({name: 0.2, score: -0.5})


def test_the_committed_page_is_what_the_committed_cells_say(tmp_path):
    written = peer_page.write(tmp_path / "page.md", tmp_path).read_text("utf-8")
    assert peer_page.PAGE.read_text("utf-8") == written
    for figure in tmp_path.glob("*.png"):
        assert (peer_page.IMAGES / figure.name).exists()
        assert f"images/{figure.name}" in written


def test_every_measure_is_best_for_fresh_rows_and_sees_columns_without_each_other(monkeypatch):
    monkeypatch.setattr(peer_data, "TEST", 3000)
    rng = np.random.default_rng(0)
    for name in ("stones", "flights"):
        found = peer_data.load(name, 3000)
        fresh, _ = table_measures.measure(name, found, found.train)
        frame = found.train
        alone = pd.DataFrame({c: frame[c].to_numpy()[rng.permutation(3000)] for c in frame})
        apart, _ = table_measures.measure(name, found, alone.astype(frame.dtypes.to_dict()))
        assert set(fresh) == set(apart) <= {*table_measures.LOWER, *table_measures.HIGHER}
        for measure in fresh:
            if measure == "total variation, 1 column":
                assert apart[measure] == pytest.approx(fresh[measure])
            elif measure in table_measures.LOWER:
                assert apart[measure] > 1.3 * fresh[measure], measure
            else:
                assert apart[measure] < fresh[measure], measure
    peer_data.load.cache_clear()


def test_histograms_follow_the_rows_and_a_heavy_value_has_a_bin_of_its_own():
    real = pd.DataFrame({"x": [0.0] * 500 + list(np.linspace(1, 2, 500))})
    schema = vf.Schema(x=vf.Numeric(0.0, 1e9), y=vf.Boolean(), label="y")
    halves = SimpleNamespace(zero=real.assign(x=0.0), moved=real.assign(x=real["x"] + 0.01))
    distance = {
        what: table_measures._distance([table_measures._coded(real, frame, "x", schema, 20)])
        for what, frame in vars(halves).items()
    }
    assert distance["zero"] == pytest.approx(0.5)
    assert distance["moved"] >= 0.5  # the zeros are gone, though by a billionth of the range


def test_each_structure_counts_as_kept_in_proportion():
    one = table_measures.as_real
    assert one(Kept("k", "n", 1.0, 1.0)) == 1
    assert one(Kept("k", "n", 0.0245, 0.0049)) == pytest.approx(0.2)
    assert one(Kept("k", "n", 0.02, 0.9)) == 0


def test_tables_without_a_name_are_refused():
    with pytest.raises(ValueError, match="the tables are adult, covertype"):
        peer_data.load("nothing", 5)
    with pytest.raises(SystemExit):
        command.main(["table_peers", "--tables", "nothing"])


@pytest.mark.slow
def test_a_table_flow_is_fitted_and_sampled_in_this_process(tmp_path, monkeypatch):
    monkeypatch.setattr(peer_fit, "SYNTHETIC", 50)
    monkeypatch.setattr(peer_data, "TEST", 10)
    path = tmp_path / "rows.parquet"
    done = peer_fit.fit_here("stones", 300, "marginals", 1.0, 1, path)
    assert list(pd.read_parquet(path)) == list(peer_data.load("stones", 300).schema.names)
    assert done["seconds"] > 0
    assert "training" not in done["settings"]["releases"]
