"""The reproduction of DP-NF-VI: tables hold what runs say, and the study of divergences its result."""

import math

import numpy as np
import pytest
from reproductions.cache import Run
from reproductions.dp_nf_vi import divergences, measuring, paper, runs, tables
from reproductions.dp_nf_vi.data import Posterior
from reproductions.dp_nf_vi.runs import Finished, Task

from reproductions import dp_nf_vi

POSTERIOR = Posterior(np.arange(5.0), np.ones(5), np.eye(5))


def finished(task: Task) -> Finished:
    """What a run would bring, made up."""
    moved = Posterior(POSTERIOR.mean + 0.1, 1.2 * POSTERIOR.sd, POSTERIOR.correlation)
    result = {
        "posterior": moved.told(),
        **measuring.compared(moved, POSTERIOR),
        "two": measuring.compared(moved, POSTERIOR),
        "accuracy": 0.9,
        "mse": 20.0,
        "guarantee": {"epsilon": task.epsilon if task.epsilon < math.inf else "inf"}
        | {"accountant": "PLD", "delta": 1e-5},
    }
    return Finished(result, {"draws": np.random.default_rng(0).normal(size=(300, 5))}, 1.0)


def test_printed_posteriors_are_told_against_the_printed_reference():
    text = "0.1581 1.0022 0.8262 -1.1909 0.6088 0.0530 0.0036 0.0179 0.0151 0.0192"
    assert paper._errors(text).split() == ["0.00"] * 5
    assert paper._ratios(text).split() == ["2.00"] + ["1.00"] * 4
    assert set(paper._differences(paper._REFERENCE_PAIRS).split()) == {"0.00"}


def test_errors_of_a_mean_over_runs_cancel_and_those_of_runs_do_not():
    def found(task: Task) -> Run:
        moved = Posterior(POSTERIOR.mean + (-1) ** task.split, POSTERIOR.sd, POSTERIOR.correlation)
        done = finished(task)
        result = {**done.result, **measuring.compared(moved, POSTERIOR)}
        return Run.now(task.settings, Finished(result, {}, 1.0))

    for way, expected in (("error of the mean over runs", 0.0), ("error", 1.0)):
        key = ("6", "direct", "simulated regression, 5", f"beta0: {way}, in SDs")
        (made,) = tables.records(found, 2, [key])
        assert made.ours == pytest.approx(expected)


def test_an_imputation_has_a_cell_of_its_own():
    def found(task: Task) -> Run:
        result = {**finished(task).result, "imputation": task.split, "accuracy": task.split / 10}
        return Run.now(task.settings, Finished(result, {}, 1.0))

    cell = ("2", "synthetic, library's default", "cohort of 64, 8")
    keys = [(*cell, "accuracy, imputation 3"), (*cell, "accuracy")]
    third, every = sorted(tables.records(found, 5, keys), key=lambda record: record.splits)
    assert (third.ours, third.splits, third.paper) == (pytest.approx(0.3), 1, 0.88)
    assert (every.ours, every.splits) == (pytest.approx(0.3), 5)


def test_every_run_is_asked_for_once_and_has_a_name_of_its_own():
    asked = tables.tasks(paper.BLOCKS, 5)
    assert len({task.name for task in asked}) == len(asked) == len(set(asked))
    assert {task.data for task in asked} == {"regression", "cohort64", "cohort5000"}


def test_tables_and_page_are_made_from_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "perform", finished)
    only = ("regression/5", "cohort64")
    outcome = dp_nf_vi.reproduce(splits=1, only=only, out=tmp_path, say=lambda text: None)
    assert outcome.failures == []
    by_key = {record.key: record for record in outcome.made}
    error = by_key[
        ("targets", "direct", "simulated regression, 5", "largest error of a mean, in SDs")
    ]
    assert error.ours == pytest.approx(0.1)
    assert error.must == 1
    assert not error.misses
    ratio = by_key[("6", "direct", "simulated regression, 5", "beta0: SD ratio")]
    assert (ratio.ours, ratio.paper) == (pytest.approx(1.2), 9.72)
    text = dp_nf_vi.SYSTEM.page_text(tmp_path, outcome.records)
    assert "<= 1.6 holds" in text
    assert "not run" in text


def test_filters_and_tables_that_there_are_not_are_refused(tmp_path):
    for settings in ({"only": ("adult",)}, {"table": (9,)}, {"splits": 6}):
        with pytest.raises(ValueError):
            dp_nf_vi.reproduce(out=tmp_path, **settings)


@pytest.mark.parametrize("wide", [1.5, 3.0])
def test_wasserstein_keeps_the_correlation_of_a_wide_guide_and_kl_does_not(wide):
    names = divergences.DIVERGENCES
    best = {name: divergences.best_correlation(name, 0.5, 1.0, wide) for name in names}
    assert best["Wasserstein"] == pytest.approx(0.5, abs=0.02)
    assert best["KL(q || p)"] > 0.6
    assert best["integral of |p - q|"] > 0.6


def test_divergences_of_a_normal_from_itself_are_zero():
    same = divergences.covariance(0.3, 2.0)
    for far in divergences.DIVERGENCES.values():
        assert far(same, same) == pytest.approx(0.0, abs=1e-9)


def test_the_cut_of_a_classifier_is_chosen_on_its_own_rows():
    rng = np.random.default_rng(0)
    rows = rng.uniform(10, 30, size=(120, 19))
    assert measuring._accuracy(rows, rows[:40], seed=0) > 0.8
    assert measuring._fowlkes_mallows(np.array([True, False]), np.array([True, False])) == 1.0
