"""What training ten parts costs beside one model of all their records, and what an answer takes.

Both see the same number of rows in a step: 128 of each of the ten parts, or 1,280 of all.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import veilflow as vf
from benchmarks.records import Record, record
from benchmarks.timing import Contestant, clock, compare
from veilflow import flows

_PARTS, _BATCH = 10, 128
_BLOCKS, _HIDDEN = 3, (64,)
"""The default flow of an ensemble."""
_AT_ONCE = 50
"""Steps of one call of a compiled program."""
_BOUND, _RATE, _MUST = 3.0, 3e-3, 2.0


def run(*, quick: bool = False) -> list[Record]:
    """Training of flows, and the time of a query."""
    records, steps, rounds = (2_000, 2, 1) if quick else (27_000, 200, 5)
    found = []
    for dim in (2,) if quick else (2, 10):
        rows = np.random.default_rng(0).normal(size=(records, dim)).clip(-_BOUND, _BOUND)
        found += _training(rows, steps=steps, rounds=rounds)
    return [*found, *_answers(quick=quick)]


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
