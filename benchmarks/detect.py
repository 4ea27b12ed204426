"""Detectors on generated rows: what they tell apart, how well thresholds hold, what ensembles take.

- Areas under the ROC of the density of `LikelihoodDetector.estimator`, of a flow as it comes, and of
  three normals, on the sets of `generated_anomalies.py`.
- False alarms at thresholds from samples, with and without the second fit, on sets of `generated.py`.
- Training ten parts beside one model of all their records, and the time of an answer. Both see the same
  number of rows in a step: 128 of each of the ten parts, or 1,280 of all.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import veilflow as vf
from benchmarks import generated, generated_anomalies
from benchmarks.records import Record, record
from benchmarks.timing import Contestant, clock, compare
from veilflow import evaluation, flows

_PARTS, _BATCH = 10, 128
_BLOCKS, _HIDDEN = 3, (64,)
"""The default flow of an ensemble."""
_AT_ONCE = 50
"""Steps of one call of a compiled program."""
_BOUND, _RATE, _MUST = 3.0, 3e-3, 2.0
_EPSILONS, _DELTA = (1.0, 4.0), 1e-5
_TESTED, _NORMALS = 5_000, 3
_THRESHOLDS = ("rings", "petals", "spirals", "fingerprints", "bent", "sheets", "clusters")
_ALARMS, _FRESH = 0.05, 20_000


def run(*, quick: bool = False) -> list[Record]:
    """Areas, false alarms, training of ensembles, and the time of a query."""
    records, steps, rounds = (2_000, 2, 1) if quick else (27_000, 200, 5)
    found = [*_areas(quick=quick), *_alarms(quick=quick)]
    for dim in (2,) if quick else (2, 10):
        rows = np.random.default_rng(0).normal(size=(records, dim)).clip(-_BOUND, _BOUND)
        found += _training(rows, steps=steps, rounds=rounds)
    return [*found, *_answers(quick=quick)]


def _areas(*, quick: bool) -> list[Record]:
    """What each density tells apart, and how far that of a detector is ahead of normals."""
    records = 1_000 if quick else 12_000
    found = []
    for name in list(generated_anomalies.SETS)[: 1 if quick else None]:
        for epsilon in _EPSILONS[: 1 if quick else None]:
            drawn = generated_anomalies.draw(name, records, _TESTED, seed=0)
            rows, ordinary, odd, domain = drawn
            settings = {"budget": vf.Budget(epsilon, _DELTA), "seed": 0, **domain}
            known = {"num_records": records, "training": _training_of(quick), **settings}
            densities = {
                "density of a detector": vf.LikelihoodDetector.estimator(**known),
                "flow as it comes": vf.DensityFlow(**known),
                f"{_NORMALS} normals": vf.MixtureDensity(num_components=_NORMALS, **settings),
            }
            areas = []
            for what, estimator in densities.items():
                model = estimator.fit(rows, progress=False)
                area = evaluation.roc_curve(model.log_prob(ordinary), model.log_prob(odd)).auroc
                areas.append(area)
                title = f"{name}, epsilon {epsilon:g}, {records} records: AUROC, {what}"
                found.append(record(title, area, "", better="higher"))
            title = f"{name}, epsilon {epsilon:g}: AUROC above {_NORMALS} normals by"
            found.append(record(title, areas[0] - areas[-1], "", better="higher", must=0.0))
    return found


def _training_of(quick: bool) -> vf.Training:
    return vf.Training(steps=2) if quick else vf.Training()


def _alarms(*, quick: bool) -> list[Record]:
    """False alarms on rows of no fit, beside those that were asked for."""
    records = 1_000 if quick else 12_000
    budget, found = vf.Budget(_EPSILONS[-1], _DELTA), []
    for name in _THRESHOLDS[: 1 if quick else None]:
        rows, domain = generated.draw(name, records + _FRESH, seed=0)
        estimator = vf.LikelihoodDetector.estimator(
            budget=budget, num_records=records, training=_training_of(quick), seed=0, **domain
        )
        model = estimator.fit(rows[:records], progress=False)
        detector = vf.LikelihoodDetector(model, false_alarm_rate=_ALARMS)
        for way, refit in {"samples alone": False, "a second fit": True}.items():
            made = detector.from_samples(_FRESH, refit=refit, seed=1)
            ratio = float(made.predict(rows[records:]).mean()) / _ALARMS
            title = f"{name}, epsilon {budget.epsilon:g}: false alarms by {way}, asked {_ALARMS:g}"
            found.append(record(title, ratio, "x asked", better="lower"))
    return found


def _training(rows: np.ndarray, *, steps: int, rounds: int) -> list[Record]:
    ensemble = vf.EnsembleDetector(
        budget=vf.Budget(1.0, 0.0),
        bounds=(-_BOUND, _BOUND),
        parts=_PARTS,
        answers=vf.Answering(max_queries=1),
        flow=vf.nsf(blocks=_BLOCKS, hidden=_HIDDEN),
        training=vf.Training(steps=steps, batch_size=_BATCH, learning_rate=_RATE),
        seed=0,
    )
    took = compare(
        {
            "ensemble": Contestant(lambda: ensemble.fit(rows, progress=False)),
            "one": Contestant(lambda: _one_flow(rows, steps)),
        },
        rounds=rounds,
    )
    what = f"flows of {_PARTS} parts, {rows.shape[1]} columns, {len(rows)} records, {steps} steps"
    ratio = took["ensemble"] / took["one"]
    return [
        record(f"{what}: training", took["ensemble"], "s"),
        record(f"{what}: beside one flow of all records", ratio, "x", must=_MUST),
    ]


def _one_flow(rows: np.ndarray, steps: int) -> Any:
    """The same flow, trained by Adam without privacy on all records."""
    flow = flows.nsf(rows.shape[1], key=jax.random.key(0), blocks=_BLOCKS, hidden=_HIDDEN)
    state = _ADAM.init(eqx.filter(flow, eqx.is_inexact_array))
    rng, scaled = np.random.default_rng(0), np.asarray(rows, np.float32)
    for _ in range(0, steps, _AT_ONCE):
        picked = rng.integers(len(rows), size=(_AT_ONCE, _PARTS * _BATCH))
        flow, state = _steps(flow, state, jnp.asarray(scaled[picked]))
    return jax.block_until_ready(eqx.filter(flow, eqx.is_array))


_ADAM = optax.adam(_RATE)


@eqx.filter_jit
def _steps(flow: Any, state: Any, batches: jax.Array) -> Any:
    moving, still = eqx.partition(flow, eqx.is_inexact_array)

    def loss(params: Any, batch: jax.Array) -> jax.Array:
        return -jnp.mean(jax.vmap(eqx.combine(params, still).log_prob)(batch))

    def step(carry: Any, batch: jax.Array) -> Any:
        params, state = carry
        updates, state = _ADAM.update(jax.grad(loss)(params, batch), state)
        return (eqx.apply_updates(params, updates), state), None

    (moving, state), _ = jax.lax.scan(step, (moving, state), batches)
    return eqx.combine(moving, still), state


def _answers(*, quick: bool) -> list[Record]:
    asked = 20 if quick else 1_000
    ensemble = vf.EnsembleDetector(
        budget=vf.Budget(8.0, 1e-6),
        bounds=(-_BOUND, _BOUND),
        answers=vf.Answering(max_queries=2 * asked),
        flow="mixture",
        parts=100,
        seed=0,
    ).fit(vf.datasets.moons(5_000, seed=0), progress=False)
    rows = vf.datasets.moons(asked, seed=1).clip(-_BOUND, _BOUND)
    ensemble.query(rows)  # compiles
    seconds = clock(lambda: ensemble.query(rows))
    return [record("an answer by 100 parts, exponential", 1e3 * seconds / asked, "ms")]
