"""How long private inference takes: steps through the engine, rounds, and the circulation."""

import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import veilflow as vf
from benchmarks.records import Record, record

_SD, _REPEATS = 0.2, 5


def _log_likelihood(beta: jax.Array, subject: tuple[jax.Array, jax.Array]) -> jax.Array:
    w, x = subject
    mean = beta[0] + jnp.exp(beta[1] * w[0]) + jnp.log(w[1] + jnp.exp(beta[2]))
    off = x - (mean + beta[3] * jnp.exp(w[2]) + jnp.log(w[3] + jnp.exp(beta[4])))
    return -0.5 * (jnp.sum(off**2) - jnp.sum(off) ** 2 / (1 + _REPEATS)) / _SD**2


def _subjects(number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    w = rng.uniform(size=(number, 4)) * [1.0, 3.0, 0.5, 2.0]
    x = 2.5 + 0.3 * rng.standard_normal((number, _REPEATS))
    return w.astype(np.float32), x.astype(np.float32)


def run(*, quick: bool = False) -> list[Record]:
    from reproductions.dp_nf_vi import simulator

    number, steps, draws = (200, 4, 8) if quick else (6_000, 8_000, 1_000)
    subjects, budget = _subjects(number), vf.Budget(epsilon=5.0, delta=1e-6)
    common = {"log_likelihood": _log_likelihood, "parameters": 5, "budget": budget, "seed": 0}
    trained = vf.FlowPosterior(
        **common,
        training=vf.Training(steps=steps, batch_size=500),
        num_records=number,
        # the direction in which the paper runs its flow
        flow=vf.Guide(kind="iaf", num_draws=draws),
    )
    rounds = vf.FlowPosterior(**common)
    patients = 20 if quick else 1_000
    heart_rates = jnp.linspace(60.0, 100.0, patients)

    @jax.jit
    def cohort(rates: jax.Array) -> jax.Array:
        def one(rate: jax.Array) -> jax.Array:
            patient = simulator.Circulation(heart_rate=rate)
            return simulator.eight(simulator.simulate(patient, cycles=10))

        return jax.vmap(one)(rates)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        took = [_seconds(lambda e=e: e.fit(subjects, progress=False)) for e in (trained, rounds)]
    simulated = _seconds(lambda: jax.block_until_ready(cohort(heart_rates)))
    again = _seconds(lambda: jax.block_until_ready(cohort(heart_rates)))
    return [
        record(f"{steps} private steps, {draws} draws, batches of 500", took[0], "s", must=180),
        record(f"private rounds on {number} records", took[1], "s"),
        record(f"CVSim-6, ten beats of {patients} patients", simulated, "s", must=20),
        record(f"CVSim-6, ten beats of {patients} patients, compiled", again, "s"),
    ]


def _seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
