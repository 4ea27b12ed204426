"""A whole training run: the number of steps that epsilon 1 affords on the Life Science set.

16,900 private steps at batch 100 of a flow of 10 features, 5 blocks and 2x100 hidden units over 24,060
records, through `engine.train`; compilation included.
"""

import time

from benchmarks import setting
from benchmarks.records import Record, record
from veilflow.engine import Flat, Secret, TrainingPlan, train
from veilflow.privacy.guarantees import Sensitive

NUM_RECORDS, BATCH, STEPS, HIDDEN = 24_060, 100, 16_900, (100, 100)
MUST = 180.0


def run(*, quick: bool = False) -> list[Record]:
    """Train once; a quick run does a tenth of it and extrapolates, and is not written."""
    steps = STEPS // 10 if quick else STEPS
    plan = TrainingPlan(
        clipping=Flat(clip_norm=3.0),
        noise_multiplier=2.1,
        sampling_rate=BATCH / NUM_RECORDS,
        expected_batch_size=BATCH,
        steps=steps,
    )
    marks: list[tuple[int, float]] = []
    start = time.perf_counter()
    train(
        plan,
        setting.loss_fn,
        setting.flow(HIDDEN),
        Sensitive(setting.records(NUM_RECORDS)),
        secret=Secret.fresh(),
        public_loss_fn=setting.public_loss_fn,
        monitor=lambda done: marks.append((done, time.perf_counter() - start)),
    )
    first = next(seconds for done, seconds in marks if done)  # the first block compiles
    total = first + (marks[-1][1] - first) * STEPS / steps
    name = f"{STEPS:,} private steps at batch {BATCH}, 2x{HIDDEN[0]} MAF"
    return [
        record(name + (", extrapolated" if quick else ""), total, "s", must=MUST),
        record("one step of it, compilation apart", 1e3 * (total - first) / STEPS, "ms"),
        record("until its first step is done", first, "s"),
    ]
