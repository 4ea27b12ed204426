"""How long one waits for the compiler, before a first private step and before a first sample.

The step is that of a neural spline flow of 100 features and 5 blocks, 2x100 hidden units, through
`engine.train`; it is traced, compiled and taken in a fresh process, imports apart. Samplers are flows
of 3 blocks and 2x424 hidden units at batch 1024, traced and compiled only.
"""

import json
import sys
from statistics import median

import jax

from benchmarks import setting
from benchmarks.records import Record, record
from benchmarks.timing import clock, in_fresh_process
from veilflow.engine import Flat, Secret, TrainingPlan, train
from veilflow.flows import maf, nsf
from veilflow.privacy.guarantees import Sensitive

FEATURES, BLOCKS, BATCH, NUM_RECORDS = 100, 5, 512, 24_000
SAMPLERS = [("affine", 54), ("affine", 100), ("spline", 54), ("spline", 100)]
REPEATS, MUST = 3, 25.0


def run(*, quick: bool = False) -> list[Record]:
    """Measure, each time in a fresh process."""
    features, repeats = (5, 1) if quick else (FEATURES, REPEATS)
    steps = [in_fresh_process("benchmarks.compile", "step", str(features)) for _ in range(repeats)]
    name = f"first private step compiled, {features} features, {BLOCKS} spline blocks"
    found = [record(name, median(steps), "s", must=MUST)]
    for kind, dim in SAMPLERS[:1] if quick else SAMPLERS:
        seconds = in_fresh_process("benchmarks.compile", kind, str(dim))
        found.append(record(f"sampling compiled, {dim} features, {kind} blocks", seconds, "s"))
    return found


def first_step(features: int) -> float:
    """Seconds to trace, compile and take one private step."""
    flow = nsf(features, key=jax.random.key(0), blocks=BLOCKS)
    rows = jax.random.normal(jax.random.key(1), (NUM_RECORDS, features))
    plan = TrainingPlan(
        clipping=Flat(clip_norm=1.0),
        noise_multiplier=1.0,
        sampling_rate=BATCH / NUM_RECORDS,
        expected_batch_size=BATCH,
        steps=1,
    )
    jax.block_until_ready((flow, rows))
    return clock(
        lambda: train(
            plan,
            setting.loss_fn,
            flow,
            Sensitive(rows),
            secret=Secret.from_seed(0),
            public_loss_fn=setting.public_loss_fn,
        )
    )


def sampler(kind: str, features: int) -> float:
    """Seconds to trace and compile a batch of samples."""
    make = {"affine": maf, "spline": nsf}[kind]
    flow = make(features, key=jax.random.key(0), blocks=3, hidden=(424, 424))
    keys = jax.random.split(jax.random.key(1), 1024)
    sample = jax.jit(lambda flow, keys: jax.vmap(flow.sample)(keys))
    return clock(lambda: sample.lower(flow, keys).compile())


if __name__ == "__main__":
    what, size = sys.argv[1], int(sys.argv[2])
    print(json.dumps(first_step(size) if what == "step" else sampler(what, size)))
