"""What is declared to follow from other columns holds in every synthetic row, and costs nothing."""

import json
import warnings
import zipfile
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import veilflow as vf
from tests.models.table import small
from veilflow._core.errors import ArtifactError
from veilflow.audit.canaries import table_canaries
from veilflow.audit.rows import points
from veilflow.cli.main import app
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.table.histograms import ColumnHistograms
from veilflow.reports.tables import table_sections
from veilflow.tabular import satisfied

ROWS = 300
COLUMNS = {
    "birth": vf.Numeric(19000101, 20251231, integer=True),
    "year": vf.Numeric(1900, 2025, integer=True),
    "net": vf.Numeric(0, 100, resolution=0.01),
    "tax": vf.Numeric(0, 100, resolution=0.01),
    "gross": vf.Numeric(0, 200, resolution=0.01),
    "length": vf.Numeric(0, 10),
    "width": vf.Numeric(0, 10),
    "clock": vf.Clock(),
    "code": vf.ListedNumeric(10, 20, 55),
    "town": vf.OpenCategorical(nullable=True),
    "visit": vf.Numeric(0, 50, integer=True, nullable=True),
    "doctor": vf.Categorical("x", "y", nullable=True),
    "sex": vf.Categorical("F", "M"),
    "gender": vf.Categorical("F", "M"),
}
CONSTRAINTS = (
    vf.Derived("year", "birth // 10000"),
    vf.Sum("gross", ["net", "tax"]),
    vf.Near("width", "length", 0.3),
    vf.Equal("gender", "sex"),
    vf.MissingTogether("visit", "doctor"),
    vf.MissingIf("town", when="visit"),
    vf.AtMost("tax", "net"),
)
SCHEMA = vf.Schema(COLUMNS, label="sex", constraints=CONSTRAINTS)


@lru_cache
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    birth = rng.integers(1930, 2010, ROWS) * 10_000 + 101
    net = rng.uniform(50, 99, ROWS).round(2)
    tax = (net * rng.uniform(0, 1, ROWS)).round(2)
    length = rng.uniform(1, 9, ROWS)
    sex = rng.choice(["F", "M"], ROWS)
    rows = pd.DataFrame({"birth": birth, "year": birth // 10_000, "net": net, "tax": tax})
    rows["gross"] = (net + tax).round(2)
    rows["length"], rows["width"] = length, length + rng.uniform(-0.3, 0.3, ROWS)
    rows["clock"] = rng.integers(0, 24, ROWS) * 100 + rng.integers(0, 60, ROWS)
    rows["code"] = rng.choice([10, 20, 55], ROWS)
    rows["town"] = rng.choice(["paris", "rome"], ROWS)
    rows["visit"], rows["doctor"] = 1.0 * rng.integers(0, 51, ROWS), rng.choice(["x", "y"], ROWS)
    rows["sex"] = rows["gender"] = sex
    gone = rng.uniform(size=ROWS) < 0.3
    rows.loc[gone, ["visit", "doctor", "town"]] = None
    return rows


def estimator(schema: vf.Schema = SCHEMA, **settings) -> vf.TableFlow:
    usual = {"num_records": ROWS, "warm_start": False, "seed": 1, "budget": small.BUDGET}
    training = vf.Training(steps=settings.pop("steps", 0))
    return vf.TableFlow(schema=schema, training=training, **{**usual, **settings})


@lru_cache
def fitted():
    with small.quick():
        return estimator(flow=vf.codes(hidden=(8,), most_bins=8)).fit(table(), progress=False)


def share_that_holds(rows: pd.DataFrame) -> float:
    gaps = rows[["visit", "doctor"]].isna()
    each = [
        rows.year == rows.birth // 10_000,
        rows.gross == (rows.net + rows.tax).round(2),
        (rows.width - rows.length).abs() <= 0.3,
        (rows.clock % 100 < 60) & rows.clock.between(0, 2359),
        rows.code.isin([10, 20, 55]),
        rows.gender == rows.sex,
        gaps.all(axis=1) | ~gaps.any(axis=1),
        rows.town.isna() | rows.visit.notna(),
        rows.tax <= rows.net,
    ]
    return float(np.mean(np.all(each, axis=0)))


def test_it_holds_in_every_row_in_files_and_after_loading(tmp_path):
    model = fitted()
    rows = model.sample(1000, seed=1)
    assert tuple(rows.columns) == tuple(COLUMNS) == model.columns
    assert share_that_holds(rows) == 1
    assert 0.1 < rows.visit.isna().mean() < 0.6
    assert satisfied(rows, model.schema).all()
    model.sample_to(tmp_path / "rows.csv", 1000, seed=1)
    assert share_that_holds(pd.read_csv(tmp_path / "rows.csv")) == 1
    model.save(tmp_path / "m.veil")
    again = vf.load(tmp_path / "m.veil")
    assert again.schema == model.schema
    pd.testing.assert_frame_equal(again.sample(200, seed=2), model.sample(200, seed=2))


def test_a_file_with_a_hostile_expression_is_refused(tmp_path):
    fitted().save(tmp_path / "m.veil")
    with zipfile.ZipFile(tmp_path / "m.veil") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    for name in ("schema.json", "manifest.json"):
        hostile = parts[name].replace(b"birth // 10000", b"__import__('os')")
        assert hostile != parts[name]
        with zipfile.ZipFile(tmp_path / "bad.veil", "w") as file:
            for other, content in parts.items():
                file.writestr(other, hostile if other == name else content)
        with pytest.raises(ArtifactError):
            vf.load(tmp_path / "bad.veil")


def test_what_follows_costs_nothing():
    plain = vf.Schema({n: c for n, c in COLUMNS.items() if n not in ("year", "gross", "gender")})
    settings = {"warm_start": True, "steps": 10}
    ours, theirs = (estimator(schema, **settings).plan() for schema in (SCHEMA, plain))
    for kind in (ColumnHistograms, Marginals):
        found, wanted = ours.release(kind), theirs.release(kind)
        assert getattr(found, "num_columns", 0) == getattr(wanted, "num_columns", 0)
    assert ours.release(ColumnHistograms).num_columns == len(COLUMNS) - 3
    assert len(ours.release(Marginals).most_codes) == len(COLUMNS) - 3
    assert ours.label == list(plain.names).index("sex")
    # the label of another name follows from the one that is learned
    assert (
        estimator(vf.Schema(COLUMNS, label="gender", constraints=CONSTRAINTS)).plan().label is None
    )


def test_scores_do_not_depend_on_what_follows():
    model, rows = fitted(), table().head(50)
    scores = model.log_prob(rows)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(model.log_prob(rows.assign(year=1999, gender="F")), scores)
    np.testing.assert_array_equal(model.log_prob(rows.drop(columns=["gross"])), scores)
    assert (model.log_prob(rows.assign(width=rows.length)) != scores).any()


def test_cells_that_are_learned_can_be_given_and_others_follow():
    model = fitted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about weights
        rows = model.sample(60, given={"clock": 930, "birth": 19800101, "visit": None}, seed=1)
        assert share_that_holds(rows) == 1
        assert (rows.clock == 930).all()
        assert (rows.year == 1980).all()
        assert rows[["visit", "doctor", "town"]].isna().all().all()
        assert model.sample(60, given={"town": "paris"}, seed=1).visit.notna().all()
    for name, others in (("year", "birth"), ("width", "length")):
        with pytest.raises(ValueError, match=f"Give {others} instead"):
            model.sample(1, given={name: 1})


def test_gaps_are_filled_and_what_follows_fits():
    rows = table().head(100).copy()
    filled = fitted().impute(rows.drop(columns=["gross"]), seed=1)
    assert not filled.isna().any().any()
    assert share_that_holds(filled) == 1
    kept = ["birth", "net", "tax", "length", "clock", "code", "sex"]
    pd.testing.assert_frame_equal(filled[kept], rows[kept], check_dtype=False)
    np.testing.assert_allclose(filled.width, rows.width, rtol=1e-12)


def test_detectors_audits_and_reports_know_what_follows():
    model, rows = fitted(), table()
    detector = vf.LikelihoodDetector(model=model)
    cells = detector.explain(rows.head(5))
    assert cells.shape == (5, len(COLUMNS))
    assert (cells[:, list(COLUMNS).index("year")] == 0).all()
    outside = rows.head(5).assign(net=-1.0)
    with pytest.warns(UserWarning, match="outside"):
        assert np.isinf(detector.score(outside)).all()
    assert len(points(model, rows.head(7))) == 7
    canaries = table_canaries(model.schema, 5, vocabularies=model.vocabularies, model=model)
    assert share_that_holds(canaries) == 1
    with pytest.raises(ValueError, match="column must be one of"):
        vf.audit.audit_attribute(model, rows.head(9), rows.tail(9), "year")


def test_a_report_shows_every_column():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sections = table_sections(fitted(), table(), None, max_rows=80, seed=0)
    drawn = {one["name"] for one in sections["table"]["columns"]}
    assert drawn == set(COLUMNS)


@pytest.mark.parametrize("flow", [vf.hflow(blocks=1, hidden=(8,))])
def test_the_flow_of_the_paper_learns_the_core_as_well(flow):
    model = estimator(flow=flow).fit(table(), progress=False)
    assert share_that_holds(model.sample(500, seed=1)) == 1


def test_bounds_that_are_not_declared_follow_from_discovered_ones(tmp_path):
    """`x` is discovered for a price; `y` and `z` follow, and have bounds for nothing."""
    schema = vf.Schema(
        x=vf.Numeric(integer=True),
        y=vf.Numeric(integer=True),
        z=vf.Numeric(nullable=True),
        constraints=[vf.Near("y", "x", 3), vf.Derived("z", "x / y")],
    )
    rng = np.random.default_rng(0)
    x = rng.integers(100, 200, ROWS)
    rows = pd.DataFrame({"x": x, "y": x + rng.integers(-3, 4, ROWS), "z": 0.0})
    plan = estimator(schema).plan()
    assert [one.purpose for one in plan.releases if "bounds" in one.purpose] == ["bounds of x"]
    model = estimator(schema).fit(rows, progress=False)
    bounds = {name: (column.low, column.high) for name, column in model.schema.columns.items()}
    low, high = bounds["x"]
    assert bounds["y"] == (low - 3, high + 3)
    drawn = model.sample(500, seed=1)
    assert ((drawn.x - drawn.y).abs() <= 3).all()
    some = drawn[drawn.y != 0]
    np.testing.assert_allclose(some.z.astype(float), some.x / some.y)
    model.save(tmp_path / "m.veil")
    assert vf.load(tmp_path / "m.veil").schema == model.schema


def test_the_command_line_fits_and_samples(tmp_path):
    SCHEMA.to_file(tmp_path / "schema.toml")
    table().to_csv(tmp_path / "rows.csv", index=False)
    paths = {
        name: str(tmp_path / name) for name in ("rows.csv", "schema.toml", "m.veil", "out.csv")
    }
    fit = ["fit", "table", paths["rows.csv"], "--schema", paths["schema.toml"], "--steps", "0"]
    fit += ["--warm-start", "none", "--num-records", str(ROWS), "--epsilon", "4", "--delta", "1e-4"]
    fit += ["--json", "--out", paths["m.veil"]]
    run = CliRunner()
    dry = run.invoke(app, [*fit, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert run.invoke(app, fit).exit_code == 0
    sample = ["sample", paths["m.veil"], "--num-rows", "800", "--out", paths["out.csv"], "--json"]
    result = run.invoke(app, sample)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)
    assert share_that_holds(pd.read_csv(paths["out.csv"])) == 1
