"""What hangs together in a table is found from released numbers, and holds in what is drawn."""

import json
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.table import small
from veilflow._core.keys import Secret
from veilflow.models.estimator import Fit
from veilflow.models.table import code_density, table_parts, warm_start
from veilflow.models.table.found import found_in
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.release import Tools
from veilflow.releases.table.histograms import ColumnHistograms
from veilflow.releases.table.pairs import Answered, PairCounts
from veilflow.releases.table.questions import GapsOf, RelationOf
from veilflow.tabular.constraints import Constraint, Derived, MissingIf, MissingTogether, Near

ROWS = 20_000
BUDGET = vf.Budget(2.0, 1e-5)
SCHEMA = vf.Schema(
    length=vf.Numeric(0.0, 50.0, resolution=0.01),
    width=vf.Numeric(0.0, 50.0, resolution=0.01),
    cents=vf.Numeric(0, 9999, integer=True),
    euros=vf.Numeric(0.0, 100.0, resolution=0.01),
    clock=vf.Numeric(0, 2359, integer=True),
    hour=vf.Numeric(0, 23, integer=True),
    minute=vf.Numeric(0, 59, integer=True),
    visit=vf.Numeric(0, 100, integer=True, nullable=True),
    doctor=vf.Categorical("a", "b", nullable=True),
    bill=vf.Numeric(0.0, 10.0, nullable=True),
    income=vf.Numeric(0, 1000, integer=True, nullable=True),
    zeros=vf.Numeric(0, 9999, integer=True),
    other_zeros=vf.Numeric(0, 9999, integer=True),
    sex=vf.Categorical("F", "M"),
    label="sex",
)
FOUND = {
    Derived("euros", "cents / 100"),
    Derived("clock", "hour * 100 + minute"),
    MissingTogether("visit", "doctor", "bill"),
    MissingIf("income", when="visit"),
}


@lru_cache
def frame(n: int = ROWS, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    length = np.round(np.clip(rng.normal(20, 6, n), 1, 48), 2)
    cents, clock = rng.integers(0, 10_000, n), rng.integers(0, 24, n)
    minute, no_visit = rng.integers(0, 60, n), rng.uniform(size=n) < 0.08
    no_income = no_visit | (rng.uniform(size=n) < 0.4)
    zeros = [np.where(rng.uniform(size=n) < 0.99, 0, rng.integers(0, 9999, n)) for _ in range(2)]
    whole = lambda values, gaps: pd.Series(values).astype("Int64").mask(gaps)  # noqa: E731
    return pd.DataFrame(
        {
            "length": length,
            "width": np.round(length + rng.normal(0, 0.05, n), 2),
            "cents": cents,
            "euros": cents / 100,
            "clock": 100 * clock + minute,
            "hour": clock,
            "minute": minute,
            "visit": whole(rng.integers(0, 100, n), no_visit),
            "doctor": np.where(no_visit, None, rng.choice(["a", "b"], n)),
            "bill": np.where(no_visit, np.nan, rng.uniform(0, 10, n)),
            "income": whole(rng.integers(0, 1000, n), no_income),
            "zeros": zeros[0],
            "other_zeros": zeros[1],
            "sex": rng.choice(["F", "M"], n),
        }
    )


def estimator(**settings: Any) -> vf.TableFlow:
    usual = {
        "schema": SCHEMA,
        "budget": BUDGET,
        "num_records": ROWS,
        "flow": vf.codes(hidden=(8,), most_bins=8),
        "training": vf.Training(steps=3),
        "seed": 1,
    }
    return vf.TableFlow(**{**usual, **settings})


@pytest.fixture
def untrained(monkeypatch):
    """Fits without the work of training."""
    monkeypatch.setattr(warm_start, "pretrain", lambda flow, *_, **__: flow)
    with small.quick():
        yield monkeypatch


@lru_cache
def fitted() -> Any:
    with pytest.MonkeyPatch.context() as patch, small.quick():
        patch.setattr(warm_start, "pretrain", lambda flow, *_, **__: flow)
        patch.setattr(code_density, "_BALANCE_ROWS", 8192)
        return estimator().fit(frame(), progress=False)


def test_relations_and_gaps_are_found_and_nothing_else():
    found = set(fitted().schema.constraints)
    (near,) = [one for one in found if isinstance(one, Near)]
    assert found - {near} == FOUND
    assert (near.column, near.of) == ("width", "length")
    assert 0.05 < near.within < 1.0


def test_what_was_found_holds_in_every_drawn_row():
    with small.quick():
        drawn = fitted().sample(4000, seed=2)
    np.testing.assert_allclose(drawn["euros"], drawn["cents"] / 100)
    np.testing.assert_array_equal(drawn["hour"], drawn["clock"] // 100)
    np.testing.assert_array_equal(drawn["minute"], drawn["clock"] % 100)
    assert np.abs(drawn["width"] - drawn["length"]).max() < 1.0
    gaps = drawn[["visit", "doctor", "bill"]].isna().to_numpy()
    assert (gaps.all(axis=1) == gaps.any(axis=1)).all()
    assert drawn["income"].isna()[gaps[:, 0]].all()
    # and as often as in the records
    assert gaps[:, 0].mean() == pytest.approx(0.08, abs=0.02)
    assert drawn["income"].isna().mean() == pytest.approx(0.45, abs=0.04)


def test_what_was_found_is_no_longer_learned():
    model = fitted()
    assert "euros" not in model.order
    assert "width" in model.order
    assert model.columns == SCHEMA.names
    assert model.schema.core.columns["width"].high < 1.0
    assert len(model.num_codes) == len(SCHEMA.names) - 2


def test_rows_are_scored_as_what_is_learned_of_them():
    model, rows = fitted(), frame().head(50)
    scores = model.log_prob(rows)
    assert np.isfinite(scores).all()


def test_a_model_comes_back_from_its_file(tmp_path):
    path = tmp_path / "m.veil"
    fitted().save(path)
    again = vf.load(path)
    assert again.schema == fitted().schema
    rows = frame().head(50)
    np.testing.assert_array_equal(again.log_prob(rows), fitted().log_prob(rows))


@pytest.mark.filterwarnings("ignore:the given cells")
def test_given_cells_keep_the_rules():
    with small.quick():
        drawn = fitted().sample(200, given={"visit": None}, seed=3)
    assert drawn[["visit", "doctor", "bill", "income"]].isna().all(axis=None)


def test_the_plan_says_what_it_costs_and_a_switch_leaves_it_out():
    plan = estimator().plan()
    purposes = [release.purpose for release in plan.releases]
    assert purposes == [
        "histograms of columns",
        "details of columns",
        "pairs of columns",
        "histograms of differences",
        "marginals",
        "warm start",
        "training",
    ]
    shares = {purpose: share for purpose, _, share in plan.ledger.shares(BUDGET.delta)}
    assert "pairs of columns" in str(plan)
    assert shares["pairs of columns"] < 0.12
    without = estimator(learn_structure=False).plan()
    assert without.release(PairCounts) is None
    assert without.differences is None
    assert fitted().plan == plan
    assert fitted().ledger == plan.ledger


@pytest.mark.parametrize(
    "settings",
    [
        {"num_records": 2000},
        {"num_records": None},
        {"budget": vf.Budget(0.1, 1e-5)},
        {"flow": vf.hflow()},
        {"schema": vf.Schema(x=vf.Numeric(0, 1), sex=vf.Categorical("F", "M", nullable=True))},
    ],
    ids=[
        "few records",
        "an unknown number",
        "a low budget",
        "another flow",
        "one column of a kind",
    ],
)
def test_where_answers_would_be_noise_or_there_is_nothing_to_ask_nothing_is_paid(settings):
    assert estimator(**settings).plan().release(PairCounts) is None


def test_more_records_allow_more_questions():
    numbers = [
        estimator(num_records=n).plan().release(PairCounts).num_questions
        for n in (15_000, 20_000, 40_000, 10**6)
    ]
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1] <= 48


def test_fewer_columns_cost_what_was_planned(untrained):
    """Tables of marginals are planned for all columns, and measured on those that are learned."""
    model = estimator(training=vf.Training(steps=0)).fit(frame(), progress=False)
    assert model.plan == estimator(training=vf.Training(steps=0)).plan()
    assert len(model.plan.release(Marginals).most_codes) == len(SCHEMA.names)
    assert len(model.schema.core.names) < len(SCHEMA.names)


def test_an_interrupted_fit_asks_nothing_twice(untrained, tmp_path):
    asked: list[str] = []
    run = PairCounts.run

    def counting(self, *args, **known):
        asked.append(self.purpose)
        return run(self, *args, **known)

    def broken(*args, **known):
        raise KeyboardInterrupt

    untrained.setattr(PairCounts, "run", counting)
    usual, path = Marginals.run, tmp_path / "run.ckpt"
    untrained.setattr(Marginals, "run", broken)
    with pytest.raises(KeyboardInterrupt):
        estimator().fit(frame(), progress=False, checkpoint=path)
    untrained.setattr(Marginals, "run", usual)
    model = estimator().fit(frame(), progress=False, checkpoint=path)
    assert asked == ["pairs of columns"]
    assert set(model.schema.constraints) >= FOUND


def test_a_file_cannot_add_a_constraint(tmp_path):
    model = estimator(learn_structure=False).plan()
    extra = vf.Schema(SCHEMA.columns, label="sex", constraints=[Derived("euros", "cents / 100")])
    with pytest.raises(ValueError, match="neither declared nor looked for"):
        table_parts._check_discovered(model, extra, {})
    bad = vf.Schema(SCHEMA.columns, label="sex", constraints=[vf.AtMost("length", "width")])
    with pytest.raises(ValueError, match="of a kind that is not looked for"):
        table_parts._check_discovered(estimator().plan(), bad, {})


# -- questions and answers -------------------------------------------------------------------------


def asked_of(table: pd.DataFrame, schema: vf.Schema) -> tuple[Any, ...]:
    """The questions that follow from the histograms of a table."""
    setting = estimator(schema=schema, budget=vf.Budget(float("inf"), 1e-5))
    plan = setting.plan()
    secret = Secret.from_seed(0)
    fit = Fit(plan, setting.read(table), secret)
    release = plan.release(ColumnHistograms)
    query = setting.query(release, fit)
    fit.released[release.purpose] = release.run(query.records, Tools(secret), **query.known).value
    return table_parts.questions(fit)


def test_unrelated_columns_are_not_asked():
    rng = np.random.default_rng(5)
    schema = vf.Schema(
        a=vf.Numeric(0, 1000, integer=True),
        b=vf.Numeric(-5.0, 5.0),
        c=vf.Numeric(0, 9, integer=True),
    )
    table = pd.DataFrame(
        {
            "a": rng.integers(0, 1000, ROWS),
            "b": rng.normal(size=ROWS),
            "c": np.zeros(ROWS, int),
        }
    )
    assert asked_of(table, schema) == ()


def answered(counts: list[float], question: Any, deviation: float = 2.0) -> Answered:
    return Answered(question, np.array(counts, np.float64), deviation)


COLUMNS = {
    "a": vf.Numeric(0, 99, integer=True, nullable=True),
    "b": vf.Numeric(0, 99, integer=True, nullable=True),
    "c": vf.Numeric(0, 99, integer=True, nullable=True),
    "odd name": vf.Numeric(0, 99, integer=True, nullable=True),
}


def found(*answers: Answered, most_near: int = 3) -> tuple[Constraint, ...]:
    return found_in(answers, COLUMNS, num_records=1000, most_near=most_near)


def test_no_column_follows_from_one_that_follows():
    same = [
        answered([0, 0, 0, 0, 1000], RelationOf(column, of, ("x",)))
        for column, of in ((1, 0), (2, 1), (0, 2))
    ]
    assert found(*same) == (Derived("b", "a"),)


def test_names_stand_in_expressions_as_they_have_to():
    assert found(answered([0, 0, 0, 0, 1000], RelationOf(0, 3, ("100 - x",)))) == (
        Derived("a", "100 - `odd name`"),
    )


def test_a_number_of_two_parts_follows_from_them_if_both_are_there():
    front = answered([0, 0, 0, 0, 1000], RelationOf(1, 0, ("x // 60",)))
    back = answered([0, 0, 0, 0, 1000], RelationOf(2, 0, ("x % 60",)))
    gaps = MissingTogether("b", "c")
    assert found(front, back) == (Derived("a", "b * 60 + c"), gaps)
    assert found(front) == (Derived("b", "a // 60"),)
    other = answered([0, 0, 0, 0, 1000], RelationOf(2, 0, ("x % 100",)))
    assert found(front, other) == (Derived("b", "a // 60"), Derived("c", "a % 100"))
    third = answered([0, 0, 0, 0, 1000], RelationOf(3, 0, ("x + 1",)))
    assert len(found(front, back, third)) == 3  # what follows from the whole keeps it


def test_what_most_rows_hold_is_no_relation():
    question = RelationOf(1, 0, ("x",), (2.0,))
    assert found(answered([100, 0, 0, 0, 900, 0], question)) == ()
    assert found(answered([0, 0, 0, 1000, 0, 0], question)) == ()  # nothing but gaps


def test_an_answer_that_noise_could_give_is_no_relation():
    question = RelationOf(1, 0, ("x",), (2.0,))
    assert found(answered([0, 0, 0, 0, 1000, 0], question)) == (Derived("b", "a"),)
    assert found(answered([0, 0, 0, 0, 1000, 0], question, deviation=100.0)) == ()


def test_the_nearest_distance_is_taken_and_no_more_than_planned():
    near = [
        answered([0, 0, 0, 0, 10, 0, 900, 90], RelationOf(column, 0, ("x",), (1.0, 2.0, 4.0)))
        for column in (1, 2)
    ]
    assert found(*near) == (Near("b", "a", 4.0), Near("c", "a", 4.0))
    assert found(*near, most_near=1) == (Near("b", "a", 4.0),)
    sure = answered([0, 0, 0, 0, 10, 0, 990, 0], RelationOf(1, 0, ("x",), (1.0, 2.0, 4.0)))
    assert found(sure) == (Near("b", "a", 2.0),)


def test_gaps_are_grouped_and_followed():
    together = answered([900, 2, -3, 100], GapsOf(0, 1))
    implied = answered([700, 1, 200, 100], GapsOf(1, 2))
    assert found(together, implied) == (MissingTogether("a", "b"), MissingIf("c", when="a"))
    assert found(answered([800, 50, 50, 100], GapsOf(0, 1))) == ()
    assert found(answered([1000, 3, -4, 5], GapsOf(0, 1))) == ()  # of too few gaps


def test_every_row_gives_one_answer():
    table = frame().head(500)
    rows = estimator().read(table).records.map(lambda raw: raw.encoded(SCHEMA, {}))
    columns, names = tuple(SCHEMA.columns.values()), SCHEMA.names
    questions = (
        GapsOf(names.index("visit"), names.index("income")),
        RelationOf(
            names.index("width"), names.index("length"), ("x", "x + 1", "1 - x"), (0.02, 0.5)
        ),
        RelationOf(names.index("visit"), names.index("income"), ("x // 10",), ()),
    )
    release = PairCounts(num_questions=3, noise_multiplier=0.0)
    sizes = [column.num_codes() for column in columns]
    value = release.run(
        Sensitive(rows.open()),
        Tools(Secret.from_seed(0)),
        questions=questions,
        columns=columns,
        written=columns,
        sizes=sizes,
    ).value
    json.dumps(value["asked"])  # plain values: a checkpoint keeps them
    answers = release.result(value)
    assert [one.question for one in answers] == list(questions)
    assert [one.counts.sum() for one in answers] == [500] * 3
    apart = np.abs(table["width"] - table["length"])
    assert answers[1].counts[4] == (apart < 0.005).sum()
    gaps = table["visit"].isna(), table["income"].isna()
    assert answers[0].counts[1] == (gaps[0] & ~gaps[1]).sum() == 0
    assert answers[2].counts[3] == (gaps[0] & gaps[1]).sum() > 0
