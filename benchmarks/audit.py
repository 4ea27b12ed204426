"""How sharp the audits are, and how often they would accuse an engine that is right.

The right engine is audited 200 times at epsilon 1 and 4. A bound with 95 % confidence may be above the
claim in 5 % of the runs, and no more. What broken engines are caught by is counted, too.
"""

import warnings

import jax
import numpy as np

import veilflow as vf
from benchmarks.records import Record, record
from veilflow import audit, engine, flows

_DELTA, _CANARIES = 1e-5, 1000
_PLAN = engine.TrainingPlan(
    clipping=engine.Flat(1.0),
    noise_multiplier=1.0,
    sampling_rate=0.25,
    expected_batch_size=250,
    steps=16,
)
_RUNS = {"full batches": (1.0, 8), "Poisson batches": (0.1, 50)}
"""Sampling rate and steps."""


def run(*, quick: bool = False) -> list[Record]:
    """All figures; a few minutes on two cores."""
    runs = 3 if quick else 200
    return [
        *_false_alarms(runs, _CANARIES if not quick else 100),
        *_measured(1 if quick else 5, quick=quick),
        *_of_parts(quick=quick),
        *_of_a_flow(quick=quick),
        *_released(quick=quick),
    ]


def _false_alarms(runs: int, canaries: int) -> list[Record]:
    found = []
    for name, (rate, steps) in _RUNS.items():
        # the tighter bound is exact where the engine is a Gaussian mechanism
        bounds = ("one-run", "one-run-f-dp") if rate == 1 else ("one-run",)
        for epsilon in (1.0, 4.0):
            plan = audit.with_epsilon(
                engine.TrainingPlan(
                    clipping=engine.Flat(1.0),
                    noise_multiplier=1.0,
                    sampling_rate=rate,
                    expected_batch_size=rate * canaries,
                    steps=steps,
                ),
                epsilon,
                _DELTA,
            )
            scorer = audit.canary_scorer(plan, canaries)
            for bound in bounds:
                settings = {"delta": _DELTA, "num_canaries": canaries, "bound": bound}
                results = [
                    audit.audit_gradients(plan, seed=seed, scorer=scorer, **settings)
                    for seed in range(runs)
                ]
                above = np.mean([result.exceeds_claim for result in results])
                lower, middle = np.quantile([r.lower_bound for r in results], [0.1, 0.5])
                what = f"right engine, epsilon {epsilon:g}, {name}, {bound}"
                must = 1.5 if epsilon == 4 and bound == "one-run-f-dp" else None
                higher = {"better": "higher", "must": must}
                found += [
                    record(f"{what}: bounds above the claim in {runs} runs", above, "", must=0.05),
                    record(
                        f"{what}, {canaries} canaries: median bound", middle, "epsilon", **higher
                    ),
                    record(f"{what}: nine in ten bounds are above", lower, "epsilon", **higher),
                ]
    return found


def _measured(seeds: int, *, quick: bool) -> list[Record]:
    """What `engine_check` says of the right engine, and of those that the tests break on purpose."""
    from tests.audit.broken_engines import BROKEN

    steps = 64 if quick else 256
    accused = sum(
        len(audit.engine_check(_PLAN, seed=seed, steps=steps).failed) for seed in range(seeds)
    )
    caught, chosen = 0, list(BROKEN.values())[: 2 if quick else None]
    for broken, part, check in chosen:
        with broken():
            caught += check in audit.engine_check(_PLAN, parts=[part], steps=steps).failed
    return [
        record(f"right engine: failed checks in {seeds} measurements", accused, "checks", must=0),
        record(
            f"broken engines caught, of {len(chosen)}",
            caught,
            "engines",
            better="higher",
            must=len(chosen),
        ),
    ]


def _of_parts(*, quick: bool) -> list[Record]:
    """The same for models of parts that are trained side by side."""
    parts = ["sensitivity"] if quick else ["sensitivity", "scale", "noise"]
    report = audit.engine_check(_PLAN, num_parts=3, parts=parts)
    moved = next(c.measured for c in report.checks if c.name == "sensitivity")
    ratio = moved / _PLAN.clipping.sensitivity
    return [
        # differences of sums that were rounded after the noise was added
        record(
            "right step of 3 parts: sensitivity, measured over claimed", ratio, "", must=1.00001
        ),
        record("right step of 3 parts: failed checks", len(report.failed), "checks", must=0),
    ]


def _of_a_flow(*, quick: bool) -> list[Record]:
    """White-box, with rows as canaries in the training of a flow."""
    canaries, steps = (20, 2) if quick else (300, 20)
    plan = engine.TrainingPlan(
        clipping=engine.Flat(1.0),
        noise_multiplier=1.0,
        sampling_rate=1.0,
        expected_batch_size=canaries / 2,
        steps=steps,
    )
    plan = audit.with_epsilon(plan, 4.0, _DELTA)
    flow = flows.maf(4, blocks=2, hidden=(64,), key=jax.random.key(0))
    rows = np.random.default_rng(0).uniform(-3, 3, (canaries, 4)).astype(np.float32)
    result = audit.audit_training(plan, _flow_loss, flow, rows, delta=_DELTA, seed=0)
    return [
        record(
            f"flow trained on {canaries} rows as canaries, epsilon 4, one-run: bound",
            result.lower_bound,
            "epsilon",
            better="higher",
        ),
        record("the same: area under the curve", result.scores["auc"], "", better="higher"),
    ]


def _released(*, quick: bool) -> list[Record]:
    """Black-box, a released density with the settings a user gets."""
    number = 100 if quick else 2000
    rng = np.random.default_rng(0)
    rows = np.clip(0.5 + 0.15 * rng.normal(size=(2 * number, 4)), 0, 1)
    inside = audit.fair_coins(len(rows), seed=1)
    estimator = vf.DensityFlow(
        budget=vf.Budget(epsilon=1.0, delta=1e-6), bounds=(0, 1), num_records=number, seed=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(rows[inside], progress=False)
    found = []
    for method in ("density", "synthetic"):
        result = audit.audit(model, rows[inside], rows[~inside], method=method)
        what = f"released density of {number} rows, epsilon 1, {result.method}"
        found.append(record(f"{what}: bound", result.lower_bound, "epsilon", must=1.0))
        found.append(record(f"{what}: area under the curve", result.scores["auc"], ""))
    return found


def _flow_loss(flow, row: jax.Array, key: object) -> jax.Array:
    return -flow.private_log_prob(row)
