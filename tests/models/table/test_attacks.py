"""Attacks on a whole fit: what one record moves in every question, and what is paid for each answer.

Two fits of neighboring tables get the same answers, so that what they ask can be compared.
"""

import math
from collections import Counter
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.table import small
from veilflow._core.keys import Secret
from veilflow.models.table.hflow_density import HFlowDensity
from veilflow.privacy.events import Event
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms.undeclared import threshold_for
from veilflow.releases import count, training
from veilflow.releases.marginals import choice
from veilflow.releases.marginals import fit as marginal_fit
from veilflow.releases.release import Tools
from veilflow.releases.table import discovery, histograms
from veilflow.tabular.codec import encode

SCHEMA = small.SCHEMA.with_columns({"gain": vf.Numeric(nullable=True)})


class Question(NamedTuple):
    """What a mechanism was asked: the private part, and how far one record may move it."""

    name: str
    asked: Any
    allowed: float


def of_words(said, **_):
    return Question("words", Counter(said.open().tolist()), 1)


def of_bounds(cells, **_):
    numbers = np.nan_to_num(cells.open(), posinf=2.0**60, neginf=-(2.0**60))
    return Question("bounds", Counter((numbers + 0.0).tolist()), 1)


def of_count(rows, **_):
    return Question("count", Counter({"rows": len(rows.open())}), 1)


def of_sum(query, **_):
    return Question("sum", np.asarray(query.total), query.clip_norm)


def of_choice(scores, *, sensitivity, **_):
    return Question("choice", np.asarray(scores.open()), sensitivity)


def of_training(plan, loss, flow, records, **_):
    rows = zip(*(np.asarray(part) for part in jax.tree.leaves(records.open())), strict=True)
    return Question("training", Counter(b"".join(p.tobytes() for p in row) for row in rows), 1)


MECHANISMS = (
    (discovery, "discover_categories", of_words),
    (discovery, "private_bounds", of_bounds),
    (count, "count_records", of_count),
    (histograms, "gaussian_once", of_sum),
    (marginal_fit, "gaussian_once", of_sum),
    (choice, "choose", of_choice),
    (training, "train", of_training),
)


class Gauge:
    """Records questions and answers of one fit; plays the answers in the next, and compares."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.answers: list[Any] = []
        self.replayed: list[Question] | None = None

    def wrap(self, mechanism, question):
        def run(*args, **kwargs):
            if self.replayed is not None:
                self.replayed.append(question(*args, **kwargs))
                return self.answers[len(self.replayed) - 1]
            self.questions.append(question(*args, **kwargs))
            self.answers.append(mechanism(*args, **kwargs))
            return self.answers[-1]

        return run

    def moves(self) -> list[tuple[str, float, float]]:
        """For each question its name, how far it moved, and how far it may."""
        assert self.replayed is not None
        pairs = list(zip(self.questions, self.replayed, strict=True))
        assert all(one.name == two.name and one.allowed == two.allowed for one, two in pairs)
        return [(one.name, distance(one, two), one.allowed) for one, two in pairs]


def distance(one: Question, two: Question) -> float:
    if isinstance(one.asked, Counter):
        return sum(((one.asked - two.asked) + (two.asked - one.asked)).values())
    apart = one.asked - two.asked
    return float(np.abs(apart).max() if one.name == "choice" else np.linalg.norm(apart))


@pytest.fixture
def gauge(monkeypatch):
    gauge = Gauge()
    for module, name, question in MECHANISMS:
        monkeypatch.setattr(module, name, gauge.wrap(getattr(module, name), question))
    return gauge


def with_row(table: pd.DataFrame, **cells) -> pd.DataFrame:
    return pd.concat([table, table.iloc[[1]].assign(**cells)], ignore_index=True)


NEIGHBORS = {
    "one less": lambda table: table.iloc[1:],
    "one that is there already": lambda table: with_row(table),
    "outliers": lambda table: with_row(table, age=2.0**70, gain=-math.inf, seen="0001-01-01"),
    "gaps": lambda table: with_row(table, age=math.nan, gain=None, city="", grade="?"),
    "words of its own": lambda table: with_row(table, city="el dorado", gain=1e-310, age=-0.0),
    "cells of other types": lambda table: with_row(
        table, age="41", gain=True, city=5, smoker="yes", seen="2021-05-05"
    ),
    "first": lambda table: pd.concat([with_row(table, city=7.5)[-1:], table], ignore_index=True),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("settings", "neighbors"),
    [
        ({"hidden": (4,)}, tuple(NEIGHBORS)),
        ({"flow": vf.hflow(blocks=1, hidden=(4,), most_bins=8)}, ("outliers", "gaps")),
    ],
    ids=["codes", "hflow"],
)
def test_no_record_moves_a_question_further_than_is_paid_for(gauge, settings, neighbors):
    estimator = small.estimator(schema=SCHEMA, num_records=None, **settings)
    table = small.frame(200)
    model = estimator.fit(table, progress=False)
    assert {q.name for q in gauge.questions} == {
        "words", "bounds", "count", "sum", "choice", "training"
    }  # fmt: skip
    # what was asked costs no more than the ledger says
    ledger = Ledger()
    for answer in gauge.answers:
        assert isinstance(answer.event, Event)
        ledger = ledger.spend(answer.event, purpose="answer")
    delta = small.BUDGET.delta
    assert ledger.epsilon(delta=delta) <= model.guarantee.epsilon * (1 + 1e-6)
    assert model.guarantee.epsilon <= small.BUDGET.epsilon
    for name in neighbors:
        gauge.replayed = []
        estimator.fit(NEIGHBORS[name](table), progress=False)
        for question, moved, allowed in gauge.moves():
            assert moved <= allowed * (1 + 1e-9), (name, question)
        # and the record was there to be seen
        assert sum(moved > 0 for _, moved, _ in gauge.moves()) >= len(gauge.questions) - 1, name


@pytest.mark.parametrize("kind", ["codes", "hflow"])
def test_what_training_sees_of_a_record_does_not_depend_on_others(kind):
    model, table = small.fitted(), small.frame(60)
    density = model.density
    if kind == "hflow":
        architecture = vf.hflow(blocks=1, bins=4, hidden=(4,))
        density = HFlowDensity.create(model.coder, architecture, key=jax.random.key(0))

    def seen(some):
        rows = encode(some, model.schema, vocabularies=model.vocabularies)
        return [np.asarray(part) for part in jax.tree.leaves(density.records(rows))]

    hostile = with_row(table, age="1e300", gain=-math.inf, city=3, grade=None)
    for one, two in zip(seen(table), seen(hostile), strict=True):
        np.testing.assert_array_equal(one, two[:-1])
        assert np.isfinite(two).all()


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 500.0])
def test_a_word_of_one_record_passes_with_probability_at_most_delta(epsilon, delta):
    above = threshold_for(epsilon=epsilon, delta=delta) - 1  # what noise must add to a count of 1
    assert above >= 1
    log_tail = -epsilon * above - math.log1p(math.exp(-epsilon))
    assert log_tail <= math.log(delta)


@pytest.mark.parametrize("epsilon", [0.5, 200.0])
def test_a_word_of_one_record_is_hardly_ever_discovered(epsilon):
    schema = vf.Schema(city=vf.OpenCategorical())
    budget = vf.Budget(epsilon=epsilon, delta=0.2)
    plan = vf.TableFlow(schema=schema, budget=budget, num_records=41).plan()
    release, tools = plan.release(discovery.ColumnValues), Tools(Secret.fresh())
    said, runs = np.array(["rome"] * 40 + ["atlantis"], object), 400
    found = [release.run(Sensitive(said), tools).value for _ in range(runs)]
    hits = sum("atlantis" in words for words in found)
    share = release.delta
    assert share <= 0.2 * budget.delta
    # five deviations above the mean: a fair mechanism fails once in some million runs
    assert hits <= runs * share + 5 * math.sqrt(runs * share)
    assert epsilon < 1 or all("rome" in words for words in found)
