"""What the lessons share: one step of a small engine, and one small fit, each compiled once."""

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import veilflow as vf
from tests.flat import density_flow
from veilflow import engine, nn
from veilflow._core.keys import Secret
from veilflow.audit.replay import NOBODY
from veilflow.engine.blocks import step_words
from veilflow.engine.loop import noise_of
from veilflow.engine.step import Step

CLIP, NOISE, BATCH = 2.0, 3.0, 10.0
ROWS = np.random.default_rng(0).uniform(-1, 1, size=(8, 3)).astype(np.float32)
SIZE = 60


class Model(eqx.Module):
    """Two layers and an array that is in none: noise and clipping are over all three."""

    one: nn.Dense
    two: nn.Dense
    loose: jax.Array


@cache
def model() -> Model:
    rng = np.random.default_rng(1)
    layers = (nn.Dense.create(3, SIZE, key=jax.random.key(i)) for i in range(2))
    return Model(*layers, jnp.asarray(rng.normal(size=(SIZE, 3)), jnp.float32))


def steep(model: Model, row: jax.Array, key: jax.Array) -> jax.Array:
    """A loss whose gradient is far longer than the clip; a row of zeros has none in the weights."""
    return 1e3 * jnp.sum(model.one(row) - model.two(row) + model.loose @ row)


def plan(**changes: Any) -> engine.TrainingPlan:
    settings = {
        "clipping": engine.Flat(CLIP),
        "noise_multiplier": NOISE,
        "sampling_rate": 1.0,
        "expected_batch_size": BATCH,
        "steps": 100,
        "optimizer": engine.Optimizer(name="sgd", learning_rate=1.0, schedule="constant"),
    }
    return engine.TrainingPlan(**{**settings, **changes})


@cache
def _compiled(rate: float, clipping: Any) -> Any:
    trainable, fixed = eqx.partition(model(), eqx.is_inexact_array)
    chosen = plan(sampling_rate=rate, clipping=clipping)
    step = Step(chosen, steep, None, fixed, 4, noise_of(chosen, model()))
    start = step.init(trainable)

    def after(rows: Any, words: Any) -> tuple[Any, Any]:
        state = step(start, rows, words)
        return jax.tree.map(jnp.subtract, trainable, state.trainable), state.step

    def total(rows: Any, drawn: Any, words: Any) -> Any:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        return step.clipped_sum(trainable, start.clipping, rows, drawn, key).total

    return jax.jit(after), jax.jit(total)


def moved(
    rows: np.ndarray,
    *,
    rate: float = 1.0,
    seed: int = 0,
    step: int = 0,
    clipping: engine.AdaptiveQuantile | None = None,
) -> Any:
    """What one step of plain descent at rate 1 subtracts: the released sum over the batch size."""
    words = step_words(Secret.from_seed(seed), step, 1)[0]
    return _compiled(rate, clipping or engine.Flat(CLIP))[0](jnp.asarray(rows), words)[0]


def clipped_sum(rows: np.ndarray, drawn: Any = None) -> np.ndarray:
    """The sum of the clipped gradients of the rows that are drawn, before any noise."""
    drawn = np.ones(len(rows), bool) if drawn is None else np.asarray(drawn)
    words = Secret.from_seed(0).words("loss", 0, 1)[0]
    return flat(_compiled(1.0, engine.Flat(CLIP))[1](jnp.asarray(rows), drawn, words))


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(x, float)) for x in jax.tree.leaves(tree)])


# -- a fit -----------------------------------------------------------------------------------------

TABLE = np.random.default_rng(0).uniform(size=(37, 2))
EXTREME = np.concatenate([TABLE, [[1e9, -1e9]]])
BUDGET = vf.Budget(epsilon=1.0, delta=1e-6)


def estimator(**changes: Any) -> vf.DensityFlow:
    """Nobody is drawn into a batch: whatever differs between two fits was read past the ledger."""
    settings = {
        "budget": BUDGET,
        "bounds": (0, 1),
        "num_records": 37,
        "flow": vf.maf(blocks=1, hidden=(4,)),
        "base": "normal",
        "start": "none",
        "steps": 2,
        "sampling_rate": NOBODY,
        "seed": 0,
    }
    return density_flow(**{**settings, **changes})


@cache
def fitted(name: str = "table") -> vf.FittedDensityFlow:
    """On one of two neighbors."""
    rows = {"table": TABLE, "extreme": EXTREME}[name]
    return estimator().fit(rows, progress=False)
