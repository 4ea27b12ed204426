"""Samples from a masked autoregressive flow against its own densities, and against flowjax.

54 features, 3 blocks, 2x424 tanh units, float32, batch 4096. Naively the network runs once for each
coordinate, as in flowjax, whose flow here has the same sizes (`masked_autoregressive_flow` with
`invert=True`, the direction in which its densities take one pass, as ours do). All take turns.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.records import PEERS_HINT, Record, record
from benchmarks.timing import Contestant, compare
from veilflow.flows import maf

FEATURES, BLOCKS, HIDDEN, BATCH, ROUNDS = 54, 3, (424, 424), 4096, 12
PART = 256
"""Samples whose hidden units fit the cache of a processor."""
MUST = {"density": 4.0, "flowjax": 10.0}


def run(*, quick: bool = False) -> list[Record]:
    """Measure all in turns."""
    dim, hidden, batch, rounds = (
        (6, (16, 16), 64, 2) if quick else (FEATURES, HIDDEN, BATCH, ROUNDS)
    )
    flow = maf(dim, key=jax.random.key(0), blocks=BLOCKS, hidden=hidden)
    rows = jax.random.normal(jax.random.key(1), (batch, dim))
    keys = jax.random.split(jax.random.key(2), batch)
    in_parts = lambda flow, keys: jax.lax.map(flow.sample, keys, batch_size=PART)  # noqa: E731
    contestants = {
        "log_prob": Contestant(_call(lambda flow, x: jax.vmap(flow.log_prob)(x), flow, rows)),
        "samples": Contestant(_call(lambda flow, keys: jax.vmap(flow.sample)(keys), flow, keys)),
        f"samples in parts of {PART}": Contestant(_call(in_parts, flow, keys)),
    }
    if find_spec("flowjax"):
        contestants["flowjax samples"] = Contestant(_flowjax(dim, hidden, batch), every=4)

    seconds = compare(contestants, rounds=rounds)
    setting = f"{dim} features, {BLOCKS} blocks, {hidden[0]} hidden"
    passes = seconds["samples"] / seconds["log_prob"]
    name = "times faster than flowjax's D-pass inverse"
    faster = None
    if "flowjax samples" in seconds:
        faster = seconds["flowjax samples"] / seconds["samples"]
    else:
        name += f" (skipped: {PEERS_HINT})"
    return [
        record(
            f"sampling / log_prob pass, {setting}",
            passes,
            "ratio",
            must=MUST["density"],
            peer="one log_prob pass of as many rows",
        ),
        record(
            f"{name}, {setting}",
            faster,
            "ratio",
            better="higher",
            must=MUST["flowjax"],
            peer="flowjax",
        ),
        *(record(f"{name}, batch {batch}", 1e3 * s, "ms") for name, s in seconds.items()),
    ]


def _call(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*args))


def _flowjax(dim: int, hidden: tuple[int, ...], batch: int) -> Callable[[], Any]:
    import equinox as eqx
    from flowjax.distributions import StandardNormal
    from flowjax.flows import masked_autoregressive_flow

    flow = masked_autoregressive_flow(
        jax.random.key(0),
        base_dist=StandardNormal((dim,)),
        flow_layers=BLOCKS,
        nn_width=hidden[0],
        nn_depth=len(hidden),
        nn_activation=jnp.tanh,
        invert=True,
    )
    sample = eqx.filter_jit(lambda flow, key: flow.sample(key, (batch,)))
    return lambda: jax.block_until_ready(sample(flow, jax.random.key(3)))
