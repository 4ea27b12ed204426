"""Estimators that release answers: classes, parameters, anomalies, missing cells; at their smallest."""

import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np

import veilflow as vf
from tests.contracts import settings as kinds
from tests.contracts.estimator import (
    BAD_ROWS,
    BUDGET,
    CANARY,
    DOMAIN,
    LABELS,
    RECORDS,
    ROWS,
    TRAINED,
    USUAL,
    WORD,
    Estimator,
    maker,
)
from tests.contracts.settings import Setting
from veilflow.models.detect.thresholds import together
from veilflow.privacy.ledger import Ledger


def classifier() -> Estimator:
    return Estimator(
        make=maker(
            vf.ExpMechClassifier,
            budget=vf.Budget(1.0, 0),
            prior=vf.GaussianPrior(1.0),
            sampler=vf.expm.ZoomSampler(num_candidates=8, rounds=2),
            bounds=(0, 1),
            seed=0,
        ),
        settings={
            **USUAL,
            **DOMAIN,
            **RECORDS,
            "prior": Setting(kinds.OBJECT),
            "sampler": Setting(kinds.OBJECT),
            "model": Setting(kinds.OBJECT),
            "loss": Setting(kinds.OBJECT),
            "num_models": Setting(kinds.COUNT, 2),
            "classes": Setting(kinds.OBJECT),
        },
        data=(ROWS, LABELS),
        hostile=(
            *((*rows, LABELS[:2]) for rows in BAD_ROWS),
            (ROWS[:3], [WORD] * 3),
            (ROWS[:3], np.full(3, CANARY)),
        ),
        planned=lambda e: e.plan(2).ledger,
        answers=lambda model: (model.thetas, model.predict_proba(ROWS)),
        seeded={"sampler": vf.expm.HmcSampler(warmup=2, steps=1, leapfrogs=1)},
        unit="record",
        opens=False,
    )


def log_likelihood(theta: Any, x: Any) -> Any:
    """Of a normal in each of two columns."""
    return -0.5 * jnp.sum((x - theta) ** 2)


def posterior() -> Estimator:
    return Estimator(
        make=maker(
            vf.FlowPosterior,
            log_likelihood=log_likelihood,
            parameters=2,
            budget=BUDGET,
            flow=vf.Guide(kind="full-rank", num_draws=2),
            training=vf.Training(steps=2),
            seed=0,
        ),
        settings={
            **USUAL,
            **RECORDS,
            **TRAINED,
            "log_likelihood": Setting(kinds.OBJECT),
            "log_prior": Setting(kinds.OBJECT),
            "parameters": Setting(kinds.Kind((*kinds.COUNT.bad, (), (1, 2))), 2),
            "start": Setting(kinds.FINITE, 0.5),
            "scale": Setting(kinds.NUMBERS),
            "flow": Setting(kinds.OBJECT, called="kind"),
            "precondition": Setting(kinds.FLAG, True),
        },
        data=(ROWS,),
        hostile=BAD_ROWS,
        planned=lambda e: e.plan().ledger,
        answers=lambda model: (model.sample(5, seed=3), model.log_prob(ROWS)),
        unit="record",
    )


@cache
def released() -> Any:
    """A density, for a detector to judge by."""
    estimator = vf.DensityFlow(budget=BUDGET, bounds=(0, 1), num_records=12, start="grid", seed=0)
    return estimator.fit(ROWS, progress=False)


def likelihood() -> Estimator:
    def make(**changes: Any) -> vf.LikelihoodDetector:
        return vf.LikelihoodDetector(changes.pop("model", released()), **changes)

    return Estimator(
        make=make,
        settings={
            "model": Setting(kinds.OBJECT),
            "false_alarm_rate": Setting(kinds.FRACTION, 0.25),
            "threshold": Setting(kinds.FINITE, 0.5),
            "label": Setting(kinds.ANYTHING),
        },
        data=(ROWS,),
        hostile=BAD_ROWS,
        fit=lambda detector, *rows, **run: detector.from_private(*rows, budget=BUDGET, **run),
        planned=lambda detector: together(detector.plan, detector.plan_private(BUDGET)).ledger,
        planner="plan_private",
        executed=lambda detector: make().plan_private(BUDGET),
        answers=lambda detector: (detector.threshold, detector.score(ROWS)),
        repeats=False,
        counts=False,
        opens=False,
    )


def _asked_out(ensemble: vf.FittedEnsemble) -> Ledger:
    """What it has spent when nothing is left to ask."""
    ensemble.query(ROWS[:4])
    return ensemble.ledger


def answering() -> Any:
    """What the contract checks of settings, for those of answers."""
    unlimited = {"max_queries": None, "method": "sparse_vector"}
    searches = {**unlimited, "max_anomalies": 2}
    return SimpleNamespace(
        make=maker(vf.Answering, max_queries=4),
        settings={
            "method": Setting(kinds.WORD),
            "max_queries": Setting(kinds.COUNT, 4),
            "max_anomalies": Setting(kinds.COUNT, 4, unlimited),
            "quorum": Setting(kinds.FRACTION, 0.75, searches),
            "renew": Setting(kinds.FLAG, True),
            "journal": Setting(kinds.Kind((1, True, math.nan, ()))),
        },
    )


def guide() -> Any:
    """The same, for those of a guide."""
    return SimpleNamespace(
        make=vf.Guide,
        settings={
            "kind": Setting(kinds.WORD),
            "blocks": Setting(kinds.COUNT, 2),
            "hidden": Setting(kinds.SIZES),
            "num_bins": Setting(kinds.COUNT, 4),
            "objective": Setting(kinds.WORD),
            "noise_aware": Setting(kinds.FLAG, True),
            "num_draws": Setting(kinds.COUNT, 2),
            "target": Setting(kinds.WORD),
        },
    )


def ensemble() -> Estimator:
    return Estimator(
        make=maker(
            vf.EnsembleDetector,
            budget=BUDGET,
            bounds=(0, 1),
            answers=vf.Answering(max_queries=4),
            parts=2,
            flow="mixture",
            num_components=1,
            seed=0,
        ),
        settings={
            **USUAL,
            **DOMAIN,
            "parts": Setting(kinds.COUNT, 2),
            "answers": Setting(kinds.OBJECT),
            "threshold": Setting(kinds.FINITE, 0.5),
            "flow": Setting(kinds.OBJECT),
            "num_components": Setting(kinds.COUNT, 2),
            **TRAINED,
        },
        data=(ROWS,),
        hostile=BAD_ROWS,
        planned=lambda e: e.plan(2).ledger,
        answers=lambda model: (model.votes(ROWS).open(), model.threshold),
        spent=_asked_out,
        counts=False,
        opens=False,
        saved="model.private",
    )


def imputer() -> Estimator:
    return Estimator(
        make=maker(vf.ChainedImputer, bounds=(0, 1), budget=BUDGET, seed=0),
        settings={**USUAL, "bounds": Setting(kinds.BOUNDS)},
        data=(ROWS,),
        hostile=BAD_ROWS,
        planned=lambda e: e.plan(2).ledger,
        answers=lambda model: (*model.normal, model.fill(ROWS, seed=1)),
        counts=False,
    )
