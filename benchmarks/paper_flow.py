"""How well the paper's flow of tables knows a class that follows from numbers in no simple way.

60,000 records of a generated survey (`cover`), 512 of them in a step. The figure is the mean
log-probability that the flow gives the class of a fresh row, given its ten numbers; the first line is
that of the shares of classes alone. Without noise there are 2,000 steps of Adam, with noise 800 of
AdaBelief, whose noise is that of 200,000 records at about epsilon 5.
"""

import sys
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import veilflow as vf
from benchmarks.generated_tables import cover
from benchmarks.records import Record, record
from veilflow.engine import Flat, Secret, TrainingPlan, train
from veilflow.engine.optimizer import Optimizer
from veilflow.privacy.guarantees import Sensitive

RECORDS, FRESH, BATCH, DRAWS, SEED = 60_000, 1500, 512, 16, 7
OPEN: dict[str, Any] = {
    "steps": 2000,
    "clipping": Flat(1e3),
    "noise_multiplier": 0.0,
    "private": False,
    "optimizer": Optimizer(name="adam", learning_rate=5e-3, schedule="cosine"),
}
NOISY: dict[str, Any] = {
    "steps": 800,
    "clipping": Flat(1.0),
    "noise_multiplier": 0.1,
    "ema_decay": 0.99,
    "optimizer": Optimizer(
        name="adabelief", learning_rate=4e-3, schedule="cosine", weight_decay=0.02
    ),
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one network for all blocks": ({"network": "conditional", "bins": 8}, OPEN),
    "a network for each block": ({"bins": 8}, OPEN),
    "a network for each block, 16 bins": ({"bins": 16}, OPEN),
    "one network for all blocks, noise": ({"network": "conditional", "bins": 8}, NOISY),
    "a network for each block, noise": ({"bins": 8}, NOISY),
    "a network for each block, noise, clip 10": ({"bins": 8}, NOISY | {"clipping": Flat(10.0)}),
    "a network for each block, noise, 16 bins": ({"bins": 16}, NOISY),
}


def run(*, quick: bool = False) -> list[Record]:
    """The shares alone, then each case."""
    num = 600 if quick else RECORDS
    frame, schema = cover(num + FRESH, seed=SEED)
    parts = [_encoded(part, schema) for part in (frame.head(num), frame.tail(FRESH))]
    found: list[Record] = []
    for name, (sizes, training) in list(CASES.items())[: 1 if quick else None]:
        density = _before_training(frame.head(num), schema, vf.hflow(**sizes)).density
        records, fresh = (density.records(part) for part in parts)
        shares = density.coder.columns[-1].mass
        if not found:
            alone = np.log(shares[np.asarray(fresh.codes[:, -1])]).mean()
            found.append(_record("shares alone", float(alone)))
        settings: dict[str, Any] = training | ({"steps": 2} if quick else {})
        rate = min(1.0, BATCH / num)
        plan = TrainingPlan(sampling_rate=rate, expected_batch_size=float(BATCH), **settings)
        trained = train(
            plan,
            density.loss,
            density.flow,
            Sensitive(jax.tree.map(np.asarray, records)),
            secret=Secret.from_seed(SEED),
            public_loss_fn=density.public_loss,
        )
        score = _of_class(density.loss, trained.value, fresh, len(shares))
        found.append(_record(name, float(score)))
        jax.clear_caches()
    return found


def _record(name: str, value: float) -> Record:
    print(f"{name}: {value:.4f}", file=sys.stderr, flush=True)
    return record(f"{name}: log-probability of the class", value, "nats", better="higher")


def _before_training(rows: Any, schema: vf.Schema, flow: Any) -> Any:
    """A model that knows the columns, before any step."""
    estimator = vf.TableFlow(
        schema=schema,
        budget=vf.Budget(epsilon=float("inf"), delta=1e-5),
        num_records=len(rows),
        warm_start=False,
        flow=flow,
        training=vf.Training(steps=0),
        seed=SEED,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vf.NotPrivateWarning)
        return estimator.fit(rows, progress=False)


def _encoded(rows: Any, schema: vf.Schema) -> Any:
    budget = vf.Budget(epsilon=1.0, delta=1e-5)
    read = vf.TableFlow(schema=schema, budget=budget).read(rows)
    return read.records.open().encoded(schema, {})


@eqx.filter_jit
def _of_class(loss: Any, flow: Any, fresh: Any, num_classes: int) -> Any:
    """The mean log-probability of the last column's code, given all other columns."""

    def one(both: tuple[Any, jax.Array]) -> jax.Array:
        row, key = both

        def joint(code: jax.Array) -> jax.Array:
            with_code = row._replace(codes=row.codes.at[-1].set(code))
            draws = jax.random.split(key, DRAWS)
            return jax.nn.logsumexp(-jax.vmap(lambda one: loss(flow, with_code, one))(draws))

        logits = jax.vmap(joint)(jnp.arange(num_classes))
        return jax.nn.log_softmax(logits)[row.codes[-1]]

    keys = jax.random.split(jax.random.key(SEED), len(fresh.codes))
    return jnp.mean(jax.lax.map(one, (fresh, keys), batch_size=128))
