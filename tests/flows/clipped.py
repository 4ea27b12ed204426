"""What every clipping must keep to, whatever the flow and whatever the rows."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from tests.engine.hostile import norm
from veilflow import engine
from veilflow.engine.observed import clipped_total, observe_gradients

CLIP_NORM = 0.3
CLIPPINGS = {
    "flat": engine.Flat(CLIP_NORM),
    "per layer": engine.PerLayer(CLIP_NORM),
    "per unit": engine.PerUnit(CLIP_NORM),
    "sparsified": engine.Sparsified(CLIP_NORM, sparsity=0.5),
}


def check_bounds(flow: Any, loss_fn: Callable[..., Any], batches: Iterable[Any]) -> None:
    """Assert that no row of six moves a clipped sum too far, and that some row moves it."""

    @jax.jit  # as in training, to the last bit; and as there, parameters are arguments
    def clipped(flow, rows, i):
        loss_key, clip_key = jax.random.split(jax.random.key(0))
        captured = observe_gradients(loss_fn, flow, rows, jnp.arange(6) == i, loss_key)
        return {
            name: clipped_total(
                lambda o, k, c=clipping: c.clip(o, c.init(), k),
                captured,
                jax.random.clone(clip_key),
            )
            for name, clipping in CLIPPINGS.items()
        }

    for rows in batches:
        shares = [clipped(flow, rows, i) for i in range(6)]
        for name, clipping in CLIPPINGS.items():
            lengths = [norm(share[name]) for share in shares]
            assert max(lengths) <= clipping.sensitivity
            assert max(lengths) > 0.5 * CLIP_NORM  # and leaves something
