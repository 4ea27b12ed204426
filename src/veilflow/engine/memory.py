"""How many records to handle at once: a question of speed and memory, never of privacy."""

import math
from typing import Any

import jax

from veilflow.engine.observed import loose_size, num_parameters
from veilflow.engine.plan import TrainingPlan

_LIMIT = 512 * 2**20
"""Bytes that per-record gradients of one chunk may take."""
_CPU_CHUNK = 576
"""On a CPU, more records than this fall out of the cache."""


def choose_chunk(model: Any, plan: TrainingPlan, *, limit: int = _LIMIT) -> int:
    """Records handled at once, for this model on the present device.

    A CPU takes the expected batch in equal parts that fit its cache. An accelerator takes it in one go,
    with room for three standard deviations more, because a second go costs it as much as the first.
    Parameters outside layers, and clippings that look at every entry, need a copy of their gradient
    for every record: chunks shrink to keep those within `limit` bytes.
    """
    batch = plan.expected_batch_size
    if jax.default_backend() == "cpu":
        size = batch / math.ceil(batch / _CPU_CHUNK)
    else:
        size = batch + 3 * batch**0.5
    size = 32 * math.ceil(size / 32)  # whole vector registers
    per_record = num_parameters(model) if plan.clipping.materializes else loose_size(model)
    # sorting and random numbers of a sparsified gradient take a few copies of it
    bytes_per_record = 4 * per_record * (6 if plan.clipping.materializes else 2)
    if bytes_per_record:
        size = min(size, max(1, limit // bytes_per_record))
    return max(1, size)
