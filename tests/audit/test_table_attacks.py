"""Attacks on a fitted table: by density, by nearness, by guessing a column."""

import pytest

import veilflow as vf
from tests.models.table import small
from veilflow import audit
from veilflow.audit.canaries import table_canaries
from veilflow.audit.rows import points

SCHEMA = vf.Schema(
    age=vf.Numeric(17, 90, integer=True, nullable=True),
    sex=vf.Categorical("F", "M"),
    grade=vf.Ordinal("a", "b", "c", nullable=True),
)


@pytest.fixture(autouse=True)
def _quick():
    with small.quick():
        yield


@pytest.fixture(scope="module")
def rows():
    return small.frame(200, seed=0)[list(SCHEMA.names)], small.frame(200, seed=1)


@pytest.fixture(scope="module")
def model(rows):
    estimator = small.estimator(schema=SCHEMA, num_records=200, steps=0)
    with small.quick():
        return estimator.fit(rows[0], progress=False)


@pytest.mark.parametrize("method", ["density", "synthetic"])
def test_a_private_table_is_not_refuted(model, rows, method):
    synthetic = model.sample(500, seed=0) if method == "synthetic" else None
    result = audit.audit(model, *rows, method=method, synthetic=synthetic)
    assert not result.exceeds_claim
    assert result.claimed == model.guarantee.epsilon
    assert result.internal


@pytest.mark.parametrize("column", SCHEMA.names)
def test_columns_of_every_kind_are_guessed(model, rows, column, monkeypatch):
    monkeypatch.setattr("veilflow.audit.attributes.drawn_rows", lambda m, s: m.sample(200, seed=s))
    result = audit.audit_attribute(model, *(frame.iloc[:40] for frame in rows), column)
    assert not result.exceeds_claim
    assert 0 <= result.scores["accuracy_members"] <= 1
    assert 0 < result.scores["accuracy_baseline"] < 1


def test_a_column_that_is_not_there_is_refused(model, rows):
    with pytest.raises(ValueError, match="column must be one of age, sex, grade"):
        audit.audit_attribute(model, *rows, "no such column")


def test_points_of_rows_lie_in_a_unit_box(model, rows):
    found = points(model, rows[0])
    # a position and whether there is one, two corners, three and that of a gap
    assert found.shape == (200, 1 + 2 + 2 + 4)
    assert found.min() >= 0
    assert found.max() <= 1


def test_canaries_of_a_model_are_rows_it_can_score(model):
    canaries = table_canaries(SCHEMA, 10, model=model)
    usual = model.log_prob(model.sample(200, seed=0)).mean()
    assert (model.log_prob(canaries) < usual).all()
