import stat

import pandas as pd
import pytest

import veilflow as vf


@pytest.fixture
def table(veilflow, tmp_path):
    """A messy table in the current folder."""
    frame = pd.DataFrame(
        {
            "age": [1234, 5678, None],
            "name": ["SECRET", "SECRET", "SECRET2"],
            "seen": ["1912-03-04", "1999-01-01", "?"],
        }
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    return "data.csv"


def test_a_draft_is_written_for_its_owner_alone_and_no_value_is_printed(veilflow, table, tmp_path):
    done = veilflow("schema", table, "--out", "schema.toml")
    assert done.exit_code == 0, done.stderr
    for word in ("SECRET", "1234", "5678", "1912", "1999"):
        assert word not in done.stdout + done.stderr
    for word in ("age", "name", "seen", "numeric", "categorical", "datetime", "schema.toml"):
        assert word in done.stdout
    assert "NOT PUBLIC" in done.stderr
    path = tmp_path / "schema.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "low = 1234  # NOT PUBLIC" in path.read_text()
    draft = vf.Schema.from_file(path)
    assert set(draft.unconfirmed) == {"age", "name", "seen"}
    assert draft.confirm().columns["name"] == vf.Categorical("SECRET", "SECRET2")


def test_in_json_the_columns_are_listed_without_values(in_json, table):
    found = in_json("schema", table, "--out", "schema.toml", "--label", "name")
    assert found["out"] == "schema.toml"
    assert found["label"] == "name"
    assert found["public"] is False
    assert "NOT PUBLIC" in found["warning"]
    assert [c["kind"] for c in found["columns"]] == ["numeric", "categorical", "datetime"]
    assert found["columns"][0]["unconfirmed"] == list(vf.Numeric.facts)
    assert "SECRET" not in str(found)


def test_an_existing_schema_is_kept_unless_forced_and_then_becomes_private(
    veilflow, table, tmp_path
):
    path = tmp_path / "schema.toml"
    path.write_text("mine")
    path.chmod(0o644)
    assert veilflow("schema", table, "--out", "schema.toml").exit_code == 2
    assert path.read_text() == "mine"
    assert veilflow("schema", table, "--out", "schema.toml", "--force").exit_code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "agee"), "label must name a column"),
        (("--max-categories", 0), "max_categories must be at least 1"),
    ],
)
def test_settings_that_do_not_fit_are_usage_errors(words, message, veilflow, table):
    done = veilflow("schema", table, "--out", "schema.toml", *words)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_file_that_is_no_table_is_refused_without_showing_it(veilflow, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,SECRET\n1,2,SECRET\n")
    done = veilflow("schema", "t.csv", "--out", "schema.toml")
    assert done.exit_code == 2
    assert "SECRET" not in done.stderr
    assert not (tmp_path / "schema.toml").exists()
