"""How many records to handle at once: a question of speed and memory, never of privacy."""

from typing import Any

import equinox as eqx
import jax

from veilflow.engine.observed import loose_size
from veilflow.engine.plan import TrainingPlan

_LIMIT = 512 * 2**20
"""Bytes that per-record gradients of one chunk may take."""
_CPU_CHUNK = 256
"""On a CPU a chunk of this size keeps its activations in cache."""


def choose_chunk(model: Any, plan: TrainingPlan, *, limit: int = _LIMIT) -> int:
    """Records handled at once, for this model on the present device.

    An accelerator wants the whole batch, drawn with room for five standard deviations more, in one
    go. Parameters outside layers, and clippings that look at every entry, need a copy of their
    gradient for every record, and the chunk shrinks so that those stay within `limit` bytes.
    """
    batch = plan.expected_batch_size
    size = int(batch + 5 * batch**0.5) + 1
    if jax.default_backend() == "cpu":
        size = min(size, _CPU_CHUNK)
    trainable = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    per_record = sum(x.size for x in trainable) if plan.clipping.materializes else loose_size(model)
    # sorting and random numbers of a sparsified gradient take a few copies of it
    bytes_per_record = 4 * per_record * (6 if plan.clipping.materializes else 2)
    if bytes_per_record:
        size = min(size, max(1, limit // bytes_per_record))
    return max(1, size)
