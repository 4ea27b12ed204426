"""Flows for all parts at once, trained by Adam without privacy."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from veilflow._core import fields
from veilflow._core.keys import Secret, wrap
from veilflow.releases.part_densities import (
    Part,
    PartDensities,
    PartModels,
    centers_and_scales,
    standardized,
)
from veilflow.releases.release import Monitor

_STEPS = 50
"""Steps in one call of the compiled program."""
_LARGEST_GRADIENT = 10.0

# without a learning rate, so that one compiled program serves every schedule
_OPTIMIZER = optax.chain(
    optax.zero_nans(), optax.clip_by_global_norm(_LARGEST_GRADIENT), optax.scale_by_adam()
)


class Architecture(Protocol):
    """A kind of flow and its sizes; hashable, because programs are compiled for each."""

    def build(self, dim: int, *, key: Any) -> Any:
        """A new flow."""
        ...

    def num_parameters(self, dim: int) -> int:
        """The number of trained parameters."""
        ...


@dataclass(frozen=True, kw_only=True)
class PartFlows(PartModels):
    """A flow for each part.

    Attributes:
        steps: Steps of Adam, with cosine decay.
        batch_size: Rows of a part in a step, drawn with replacement.
        learning_rate: The initial learning rate.
    """

    steps: int
    batch_size: int
    learning_rate: float

    def __post_init__(self) -> None:
        fields.convert(
            self, steps=fields.count(), batch_size=fields.count(), learning_rate=fields.positive
        )

    @property
    def rounds(self) -> int:
        return self.steps

    def train(
        self,
        parts: Sequence[Part],
        *,
        flow: Architecture,
        secret: Secret,
        monitor: Monitor = lambda done: None,
    ) -> PartDensities:
        dim, steps = parts[0].shape[1], self.steps
        centers, scales = centers_and_scales(parts)
        scaled = standardized(parts, centers, scales)
        flows = _fresh(flow, dim, wrap(secret.words("part", 0, len(parts))))
        draws = [np.random.default_rng(secret.words("batches", j, 1)[0]) for j in range(len(parts))]
        state = eqx.filter_vmap(_OPTIMIZER.init)(eqx.filter(flows, eqx.is_inexact_array))
        # cosine decay, down to zero for the steps that fill up the last block; zero for an empty part
        done = np.minimum(np.arange(steps + _STEPS) / steps, 1.0)
        rates = self.learning_rate * np.cos(np.pi / 2 * done) ** 2
        trained = np.array([len(rows) > 0 for rows in scaled])
        for start in range(0, steps, _STEPS):
            batches = np.zeros((_STEPS, len(parts), self.batch_size, dim), np.float32)
            for j, (rows, rng) in enumerate(zip(scaled, draws, strict=True)):
                if len(rows):
                    batches[:, j] = rows[rng.integers(len(rows), size=(_STEPS, self.batch_size))]
            now = np.asarray(rates[start : start + _STEPS, None] * trained, np.float32)
            flows, state = _steps(flows, state, jnp.asarray(batches), jnp.asarray(now))
            monitor(min(start + _STEPS, steps))
        return PartDensities(flows, jnp.asarray(centers), jnp.asarray(scales))

    def num_numbers(self, dim: int, *, flow: Architecture) -> int:
        return flow.num_parameters(dim) + 2 * dim

    def untrained(self, dim: int, num_parts: int, *, flow: Architecture) -> PartDensities:
        keys = jax.random.split(jax.random.key(0), num_parts)
        around = jnp.zeros((num_parts, dim))
        return PartDensities(_fresh(flow, dim, keys), around, around + 1)


@eqx.filter_jit
def _fresh(flow: Architecture, dim: int, keys: Array) -> Any:
    return eqx.filter_vmap(lambda key: flow.build(dim, key=key))(keys)


@eqx.filter_jit
def _steps(flows: Any, state: Any, batches: Array, rates: Array) -> Any:
    """Several steps; a step with a rate of zero changes nothing."""
    moving, still = eqx.partition(flows, eqx.is_inexact_array)

    def loss(params: Any, rows: Array) -> Array:
        return -jnp.mean(jax.vmap(eqx.combine(params, still).log_prob)(rows))

    def one_part(params: Any, state: Any, rows: Array, rate: Array) -> Any:
        updates, after = _OPTIMIZER.update(jax.grad(loss)(params, rows), state, params)
        moved = jax.tree.map(lambda p, u: p - rate * u, params, updates), after
        return jax.tree.map(lambda new, old: jnp.where(rate > 0, new, old), moved, (params, state))

    def step(carry: Any, drawn: Any) -> Any:
        return jax.vmap(one_part)(*carry, *drawn), None

    (moving, state), _ = jax.lax.scan(step, (moving, state), (batches, rates))
    return eqx.combine(moving, still), state
