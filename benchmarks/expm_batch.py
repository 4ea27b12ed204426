"""Sums of losses for many parameter vectors together, against one after another.

Logistic regression over 2,500 features, 4,000 records, 200 parameter vectors, float32. Once the plain
formula, which rounds as it likes, with the records on the device: mapped over all vectors, or compiled
for one and called 200 times. And once the exact sums of `Target.losses`, by which models are chosen,
from arrays on the host. All take turns, the slow ones fewer.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import veilflow as vf
from benchmarks.records import Record, record
from benchmarks.timing import Contestant, compare

FEATURES, RECORDS, VECTORS, ROUNDS = 2500, 4000, 200, 7
MUST = 8.0
"""For the sums that models are drawn by. What the plain formula gains depends on the memory's speed."""


def run(*, quick: bool = False) -> list[Record]:
    """Measure both in turns."""
    features, num, vectors, rounds = (
        (20, 50, 8, 1) if quick else (FEATURES, RECORDS, VECTORS, ROUNDS)
    )
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (num, features)).astype(np.float32)
    labels = rng.integers(0, 2, num).astype(np.int32)
    target = vf.expm.Target(
        network=vf.expm.Logistic(num_features=features),
        loss=vf.expm.BoundedLoss("l2"),
        prior=vf.GaussianPrior(1.0),
        epsilon=1.0,
    )
    thetas = rng.normal(size=(vectors, target.dim)).astype(np.float32) / features**0.5
    records = (rows, labels)
    on_device = jax.tree.map(jnp.asarray, records)
    vectors_on_device = [jnp.asarray(theta) for theta in thetas]
    mapped, one = jax.jit(jax.vmap(_plain, (0, None))), jax.jit(_plain)
    contestants = {
        "plain, together": Contestant(
            lambda: jax.block_until_ready(mapped(jnp.asarray(thetas), on_device))
        ),
        "plain, one after another": Contestant(
            lambda: [float(one(theta, on_device)) for theta in vectors_on_device]
        ),
        "exact, together": Contestant(lambda: target.losses(thetas, records)),
        "exact, one after another": Contestant(
            lambda: [target.losses(theta[None], records) for theta in thetas], every=rounds
        ),
    }
    seconds = compare(contestants, rounds=rounds)
    setting = f"{vectors} vectors, {num} records, {features} features"
    return [
        *(_faster(kind, seconds, setting) for kind in ("plain", "exact")),
        record(
            f"exact sums / plain sums, together, {setting}",
            seconds["exact, together"] / seconds["plain, together"],
            "ratio",
        ),
        *(record(f"{name}, {setting}", 1e3 * s, "ms") for name, s in seconds.items()),
    ]


def _faster(kind: str, seconds: dict[str, float], setting: str) -> Record:
    return record(
        f"times faster together, {kind} sums, {setting}",
        seconds[f"{kind}, one after another"] / seconds[f"{kind}, together"],
        "ratio",
        better="higher",
        must=MUST if kind == "exact" else None,
        peer="the same, one parameter vector after another",
    )


def _plain(theta: Array, records: tuple[Array, Array]) -> Array:
    rows, labels = records
    return jnp.sum(jnp.square(jax.nn.sigmoid(rows @ theta[:-1] + theta[-1]) - labels))
