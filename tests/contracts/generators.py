"""Estimators that release densities of rows, tables and images, at their smallest."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import veilflow as vf
from tests.contracts import settings as kinds
from tests.contracts.estimator import (
    BAD_ROWS,
    BUDGET,
    CANARY,
    DOMAIN,
    FLOW,
    LABELS,
    RECORDS,
    ROWS,
    TRAINED,
    TRAINING,
    USUAL,
    WORD,
    Estimator,
    maker,
    sampled,
)
from tests.contracts.settings import Setting

SCHEMA = vf.Schema(x=vf.Numeric(0, 1), kind=vf.Categorical("a", "b"))
TABLE = pd.DataFrame({"x": ROWS[:, 0], "kind": ["a", "b"] * 6})
SPEC = vf.ImageSpec(height=6, width=6, classes=(0, 1))
IMAGES = np.random.default_rng(1).integers(0, 256, (12, 6, 6), np.uint8)


def density() -> Estimator:
    return Estimator(
        make=maker(
            vf.DensityFlow,
            budget=BUDGET,
            bounds=(0, 1),
            flow=FLOW,
            base="normal",
            start="whitening",
            training=vf.Training(steps=2, sampling_rate=0.5),
            seed=0,
        ),
        settings={
            **USUAL,
            **DOMAIN,
            **RECORDS,
            **TRAINED,
            "row_norm": Setting(kinds.POSITIVE, 2.0, {"bounds": None, "start": "whitening"}),
            "flow": Setting(kinds.OBJECT),
            "base": Setting(kinds.WORD),
            "start": Setting(kinds.WORD),
            "num_components": Setting(kinds.COUNT, 2),
            "count_clamped": Setting(kinds.FLAG, True),
            "rehearse": Setting(kinds.FLAG, True),
        },
        data=(ROWS,),
        hostile=BAD_ROWS,
        planned=lambda e: e.plan(2).ledger,
        answers=sampled,
    )


def training() -> Any:
    """What the contract checks of settings, for those of a training."""
    norms, rates = (
        kinds.Kind((*(x for x in kind.bad if x != (1.0,)), ("x",), (-1.0,)), kind.types)
        for kind in (kinds.NORM, kinds.POSITIVE)  # one for each of several networks is allowed
    )
    return SimpleNamespace(
        make=vf.Training,
        settings={
            **TRAINING,
            "clip_norm": Setting(norms, 2.0),
            "learning_rate": Setting(rates, 0.25),
            "batch_size": Setting(kinds.COUNT, 4),
            "noise_bands": Setting(kinds.COUNT, 2),
            "clipping": Setting(kinds.WORD),
            "sparsity": Setting(kinds.BELOW_ONE, 0.25),
            "optimizer": Setting(kinds.WORD),
            "schedule": Setting(kinds.WORD),
            "rate_decay": Setting(kinds.FRACTION, 0.5),
        },
    )


def mixture() -> Estimator:
    return Estimator(
        make=maker(
            vf.MixtureDensity, budget=BUDGET, bounds=(0, 1), num_components=2, steps=2, seed=0
        ),
        settings={
            **USUAL,
            **DOMAIN,
            **RECORDS,
            "num_components": Setting(kinds.COUNT, 2),
            "steps": Setting(kinds.COUNT, 2),
        },
        data=(ROWS,),
        hostile=BAD_ROWS,
        planned=lambda e: e.plan(2).ledger,
        answers=sampled,
    )


def table() -> Estimator:
    return Estimator(
        make=maker(
            vf.TableFlow,
            schema=SCHEMA,
            budget=BUDGET,
            warm_start=False,
            flow=vf.codes(hidden=(4,), most_bins=4),
            training=vf.Training(steps=2, sampling_rate=0.5),
            seed=0,
        ),
        settings={
            **USUAL,
            **RECORDS,
            **TRAINED,
            "schema": Setting(kinds.OBJECT),
            "warm_start": Setting(kinds.FLAG_OR_SHARE, 0.25),
            "pay_for_discovery": Setting(kinds.FLAG, True),
            "learn_structure": Setting(kinds.FLAG, False),
            "flow": Setting(kinds.OBJECT),
        },
        data=(TABLE,),
        hostile=(
            (pd.DataFrame({"x": [CANARY, 2.0], "kind": [WORD, "a"]}),),
            (pd.DataFrame({"x": [WORD, "0.5"], "kind": ["a", "a"]}),),
            (pd.DataFrame({"x": [None, 0.5], "kind": [None, WORD]}),),
            (pd.DataFrame({"y": [CANARY]}),),
            (np.full((2, 2), CANARY),),
        ),
        planned=lambda e: e.plan().ledger,
        answers=lambda model: (
            model.sample(5, seed=3).to_numpy().tolist(),
            model.log_prob(TABLE),
        ),
    )


def codes() -> Any:
    """What the contract checks of settings, for those of the flow of codes."""
    return SimpleNamespace(
        make=vf.codes,
        settings={
            "hidden": Setting(kinds.SIZES),
            "label_weight": Setting(kinds.POSITIVE, 2.0),
            "most_bins": Setting(kinds.COUNT, 4),
        },
    )


def images() -> Estimator:
    return Estimator(
        make=maker(
            vf.ImageFlow,
            spec=SPEC,
            budget=BUDGET,
            flow=vf.ImageArchitecture(size=(6, 6), channels=(3,), latent=3, blocks=1, hidden=()),
            training=vf.Training(steps=2, sampling_rate=0.5),
            seed=0,
        ),
        settings={
            **USUAL,
            **RECORDS,
            **TRAINED,
            "spec": Setting(kinds.OBJECT),
            "flow": Setting(kinds.OBJECT),
            "partition": Setting(kinds.WORD),
            "reconstruction": Setting(kinds.WORD),
            "temperature": Setting(kinds.POSITIVE, 2.0),
        },
        data=(IMAGES, LABELS),
        hostile=(
            (np.full((3, 6, 6), CANARY), LABELS[:3]),
            (IMAGES[:3], [WORD] * 3),
            (IMAGES[:3], np.full(3, int(CANARY))),
            (np.full((3, 7, 6), int(CANARY)), LABELS[:3]),
            (np.array([WORD], object), LABELS[:1]),
        ),
        planned=lambda e: e.plan().ledger,
        answers=lambda model: (model.sample(5, seed=3).pixels, model.log_prob(IMAGES, LABELS)),
        unit="image",
    )
