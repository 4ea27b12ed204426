"""The private gradient alone, without noise, against what others offer.

One clipped sum over a batch of 512 records, masked autoregressive flow of 10 features, 5 blocks,
2x256 hidden units, float32, two threads for PyTorch. jax-privacy differentiates our own flow, once as
it comes and once the way that suits it best here; Opacus gets the same flow in PyTorch, with samplers
for its masked layers written by hand, since it has none.
"""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from benchmarks import setting
from benchmarks.records import PEERS_HINT, Record, record
from benchmarks.timing import Contestant, compare
from veilflow.engine import Flat, TrainingPlan
from veilflow.engine.blocks import choose_chunk
from veilflow.engine.step import Step
from veilflow.flows import Chain, Flow, Scan
from veilflow.nn import MaskedDense

BATCH, ROUNDS, THREADS = 512, 20, 2
PAUSE = 0.3
"""PyTorch's threads spin for a while after their work."""
TUNED = "jax-privacy clipped_grad, one record at a time, unrolled blocks"
MUST = {
    "jax-privacy clipped_grad": 20.0,
    TUNED: None,
    "Opacus hooks": 25.0,
    "Opacus ghost clipping": 1.2,
}
AGREEMENT = 1e-5


def run(*, quick: bool = False) -> list[Record]:
    """Measure speed and agreement."""
    batch, rounds = (16, 2) if quick else (BATCH, ROUNDS)
    model = setting.flow((16, 16) if quick else setting.HIDDEN)
    rows = setting.records(batch)
    ours = clipped_sum(setting.loss_fn, model, rows, setting.CLIP_NORM)
    contestants = {"veilflow": Contestant(ours), "plain, JAX": Contestant(_plain(model, rows))}
    sums: dict[str, Callable[[], list[np.ndarray]]] = {}
    if find_spec("jax_privacy"):
        theirs = _jax_privacy(model, rows)
        contestants["jax-privacy clipped_grad"] = Contestant(theirs, every=4)
        sums["jax-privacy clipped_grad"] = lambda: jax.tree.leaves(theirs())
        # what we found to suit it best: blocks not scanned, and no vmap at all
        best = _jax_privacy(_unrolled(model), rows, microbatch_size=1)
        contestants[TUNED] = Contestant(best, every=4)
    if find_spec("torch") and find_spec("opacus"):
        import torch

        from benchmarks import torch_maf

        torch.set_num_threads(THREADS)
        warnings.filterwarnings("ignore", "Full backward hook is firing")  # as Opacus wants it
        host = np.asarray(rows)
        hooks = torch_maf.hooks(model, host, setting.CLIP_NORM)
        ghost = torch_maf.ghost(model, host, setting.CLIP_NORM)
        contestants["Opacus hooks"] = Contestant(hooks, every=4)
        contestants["Opacus ghost clipping"] = Contestant(ghost)
        contestants["plain, PyTorch"] = Contestant(torch_maf.plain(model, host))
        sums |= {"Opacus hooks": hooks, "Opacus ghost clipping": ghost}

    seconds = compare(contestants, rounds=rounds, pause=0.0 if quick else PAUSE)
    found = []
    for peer, must in MUST.items():
        ratio = seconds[peer] / seconds["veilflow"] if peer in seconds else None
        name = f"times faster than {peer}, batch {batch}"
        if ratio is None:
            name += f" (skipped: {PEERS_HINT})"
        found.append(record(name, ratio, "ratio", better="higher", must=must, peer=peer))
    for name, value in seconds.items():
        kind = "gradient" if name.startswith("plain") else "clipped sum"
        found.append(record(f"{kind}, batch {batch}: {name}", 1e3 * value, "ms"))

    worst = max(_error_of_kinds().values())
    what = "clipped sums, largest relative error, every kind of layer"
    found.append(record(what, worst, "ratio", must=AGREEMENT, peer="vmap(grad)"))
    for peer, call in sums.items():
        same = ours() if peer.startswith("jax") else _block_by_block(ours())
        error = relative_error(jax.tree.leaves(same), call())
        found.append(record("clipped sums, largest relative error, MAF", error, "ratio", peer=peer))
    return found


def clipped_sum(loss_fn: Any, model: Any, rows: Array, clip_norm: float) -> Callable[[], Any]:
    """A call that sums the clipped gradients of all `rows`, in chunks as training does."""
    plan = TrainingPlan(
        clipping=Flat(clip_norm=clip_norm),
        noise_multiplier=1.0,
        sampling_rate=1.0,
        expected_batch_size=len(rows),
        steps=1,
    )
    trainable, fixed = eqx.partition(model, eqx.is_inexact_array)
    chunk = min(choose_chunk(model, plan), len(rows))
    step = Step(plan, loss_fn, None, fixed, chunk)
    drawn, key = jnp.ones(len(rows), bool), jax.random.key(2)

    @jax.jit
    def total(trainable: Any, rows: Array) -> Any:
        return step.clipped_sum(trainable, plan.clipping.init(), rows, drawn, key).total

    return lambda: jax.block_until_ready(total(trainable, rows))


def relative_error(found: list[Any], wanted: list[Any]) -> float:
    """The largest difference in any array, over the largest entry of that array."""
    errors = [
        np.abs(np.float64(a) - np.float64(b)).max() / max(np.abs(np.float64(b)).max(), 1e-30)
        for a, b in zip(found, wanted, strict=True)
    ]
    return float(max(errors))


def _block_by_block(gradient: Flow) -> list[np.ndarray]:
    """A gradient of the flow in the order of its PyTorch twin: last block first, weight, bias."""
    is_layer = lambda node: isinstance(node, MaskedDense)  # noqa: E731
    layers = [x for x in jax.tree.leaves(gradient, is_leaf=is_layer) if is_layer(x)]
    return [
        np.asarray(leaf[block])
        for block in reversed(range(len(layers[0].weight)))
        for layer in layers
        for leaf in (layer.weight, layer.bias)
    ]


def _plain(model: Any, rows: Array) -> Callable[[], Any]:
    trainable, fixed = eqx.partition(model, eqx.is_inexact_array)

    @jax.jit
    def gradient(trainable: Any, rows: Array) -> Any:
        def loss(trainable: Any) -> Array:
            return -jnp.sum(jax.vmap(eqx.combine(trainable, fixed).log_prob)(rows))

        return jax.grad(loss)(trainable)

    return lambda: jax.block_until_ready(gradient(trainable, rows))


def _unrolled(model: Flow) -> Flow:
    """The same flow with its blocks one after the other instead of scanned."""
    scan = model.bijection
    assert isinstance(scan, Scan)
    blocks = [
        jax.tree.map(lambda x, i=i: x[i] if eqx.is_array(x) else x, scan.block)
        for i in range(scan.num_blocks)
    ]
    return Flow(model.base, Chain(tuple(blocks)))


def _jax_privacy(
    model: Any, rows: Array, *, microbatch_size: int | None = None
) -> Callable[[], Any]:
    from jax_privacy.clipping import clipped_grad

    trainable, fixed = eqx.partition(model, eqx.is_inexact_array)

    def loss(trainable: Any, row: Array) -> Array:
        return -eqx.combine(trainable, fixed).log_prob(row)

    gradient = clipped_grad(
        loss,
        l2_clip_norm=setting.CLIP_NORM,
        keep_batch_dim=False,
        microbatch_size=microbatch_size,
    )
    compiled = jax.jit(gradient)
    return lambda: jax.block_until_ready(compiled(trainable, rows))


def _error_of_kinds() -> dict[str, float]:
    """For every kind of layer: our clipped sum against clipping the gradients of `vmap(grad)`."""
    from tests.nn import layer_kinds

    rows = jax.random.normal(jax.random.key(3), (37, layer_kinds.IN))
    errors = {}
    for kind in layer_kinds.KINDS:
        model = layer_kinds.make(kind)
        gradients = eqx.filter_jit(
            jax.vmap(lambda row, m=model: eqx.filter_grad(layer_kinds.loss_fn)(m, row, None))
        )(rows)
        leaves = [np.float64(g) for g in jax.tree.leaves(gradients)]
        norms = np.sqrt(sum((g.reshape(len(rows), -1) ** 2).sum(1) for g in leaves))
        clip_norm = float(np.median(norms))  # half are clipped, half are not
        factor = np.minimum(1.0, clip_norm / norms)
        wanted = [np.tensordot(factor, g, axes=1) for g in leaves]
        found = clipped_sum(layer_kinds.loss_fn, model, rows, clip_norm)()
        errors[kind] = relative_error(jax.tree.leaves(found), wanted)
    return errors
