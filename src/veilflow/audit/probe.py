"""A model and rows that are hard on a step: two networks, a loose array, gradients of every size."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from veilflow import nn

DIM, WIDTH, ROWS = 3, 16, 12

HOSTILE = (1.0, -1.0, 0.0, 1e-38, 1e6, -1e6, 3e38, np.inf, np.nan)
"""What a row that is added may be a multiple of; the last two are not finite."""


class Probe(eqx.Module):
    """Two networks of the same shape, and an array outside of layers."""

    one: nn.Dense
    two: nn.Dense
    loose: Float[Array, "width dim"]


def make_probe() -> Probe:
    """The same weights every time."""
    keys = jax.random.split(jax.random.key(1), 2)
    one, two = (nn.Dense.create(DIM, WIDTH, key=key) for key in keys)
    return Probe(one, two, jnp.zeros((WIDTH, DIM)))


def make_probes(num_parts: int) -> Probe:
    """A probe for each part, stacked; all parts have the second network in common."""
    one = make_probe()
    many = jax.tree.map(lambda x: jnp.stack([x] * num_parts), one)
    return eqx.tree_at(in_common, many, in_common(one))


def in_common(model: Probe) -> tuple[nn.Dense]:
    """What the probes of all parts have in common."""
    return (model.two,)


def steep(model: Probe, row: Float[Array, " dim"], key: object) -> Float[Array, ""]:
    """A loss whose gradient is long in each network alone."""
    return 1e3 * jnp.sum(model.one(row) + model.two(row) + model.loose @ row)


def flat(model: Any, row: PyTree, key: object) -> Float[Array, ""]:
    """A loss without a gradient: what moves the model is noise."""
    return jnp.zeros(())


def make_rows() -> Float[np.ndarray, "rows dim"]:
    """Generated rows whose gradients point one way, so that their sum is as long as it can be."""
    return np.random.default_rng(0).uniform(0.5, 1.0, (ROWS, DIM)).astype(np.float32)


def make_parts(num_parts: int) -> Int[np.ndarray, " rows"]:
    """The part of each of these rows. The last part has none, where there are several."""
    return (np.arange(ROWS) % max(1, num_parts - 1)).astype(np.int32)


def with_one_more(records: PyTree) -> PyTree:
    """Neighbors of `records`: each with one record added, tame or hostile; stacked on a first axis."""

    def of_leaf(leaf: np.ndarray) -> np.ndarray:
        leaf = np.asarray(leaf)
        with np.errstate(invalid="ignore", over="ignore"):
            factors = HOSTILE if np.issubdtype(leaf.dtype, np.inexact) else (1,) * len(HOSTILE)
            added = [np.asarray(leaf[0] * factor, leaf.dtype) for factor in factors]
        return np.stack([np.concatenate([leaf, one[None]]) for one in added])

    return jax.tree.map(of_leaf, records)
