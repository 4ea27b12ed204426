"""What is measured: the step of a plan, for one model or for models of parts, on generated records."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from veilflow import nn
from veilflow._core import check
from veilflow.audit.watched import Watched, has_count, watched
from veilflow.engine.observed import LossFn
from veilflow.engine.parts import held_in_common
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import State

DIM, WIDTH, ROWS = 3, 16, 12

HOSTILE = (1.0, -1.0, 0.0, 1e-38, 1e6, -1e6, 3e38, np.inf, np.nan)
"""Factors on the row that is added; the last two are not finite."""


class Probe(eqx.Module):
    """A model that is hard on a step: two networks of one shape, and an array outside of layers."""

    one: nn.Dense
    two: nn.Dense
    loose: Float[Array, "width dim"]


def make_probe() -> Probe:
    """The same weights every time."""
    keys = jax.random.split(jax.random.key(1), 2)
    one, two = (nn.Dense.create(DIM, WIDTH, key=key) for key in keys)
    return Probe(one, two, jnp.zeros((WIDTH, DIM)))


def make_probes(num_parts: int) -> Probe:
    """A probe for each part, stacked; all parts share the second network."""
    one = make_probe()
    many = jax.tree.map(lambda x: jnp.stack([x] * num_parts), one)
    return eqx.tree_at(shared, many, shared(one))


def shared(model: Probe) -> tuple[nn.Dense]:
    """What the probes of all parts share."""
    return (model.two,)


def steep(model: Probe, row: Float[Array, " dim"], key: object) -> Float[Array, ""]:
    """A loss whose gradient has a large norm in each network alone."""
    return 1e3 * jnp.sum(model.one(row) + model.two(row) + model.loose @ row)


def flat(model: Any, row: PyTree, key: object) -> Float[Array, ""]:
    """A loss without a gradient: only noise moves the model."""
    return jnp.zeros(())


def make_rows() -> Float[np.ndarray, "rows dim"]:
    """Generated rows whose gradients point one way, so that their sum is as large as possible."""
    return np.random.default_rng(0).uniform(0.5, 1.0, (ROWS, DIM)).astype(np.float32)


def make_parts(num_parts: int) -> Int[np.ndarray, " rows"]:
    """The part of each of these rows. If there are several parts, the last one is empty."""
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


CHUNK = 5
"""Records handled at once: so few that a dozen make full chunks and a remainder, as in a large run."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A plan, a model with its loss, generated records, and the number of parts if there are any.

    Models of parts are stacked, and their records come with the part of each, as in
    `engine.train_parts`.
    """

    plan: TrainingPlan
    model: Any
    loss_fn: LossFn
    records: PyTree
    num_parts: int | None = None
    in_common: PyTree = False
    """For each array of the model, whether all parts share it."""

    def start(self, *, loss_fn: LossFn | None = None, **changes: Any) -> tuple[Watched, State]:
        """The step and the state before it, after `changes` of the plan."""
        return watched(
            replace(self.plan, **changes),
            self.loss_fn if loss_fn is None else loss_fn,
            self.model,
            chunk_size=CHUNK,
            num_parts=self.num_parts,
            in_common=self.in_common,
        )

    def neighbors(self) -> tuple[list[int], PyTree]:
        """The part of an added record, and stacked data sets with one record more.

        For each part all of `HOSTILE` in order; then the same for a record outside all parts.
        """
        neighbors = with_one_more(self.records)
        if self.num_parts is None:
            return [0] * len(HOSTILE), neighbors
        data, part = neighbors
        times = self.num_parts + 1
        places = np.repeat(np.arange(times, dtype=np.int32), len(part))
        parts = np.concatenate([part] * times)
        parts[:, -1] = places
        repeated = jax.tree.map(lambda x: np.concatenate([x] * times), data)
        return places.tolist(), (repeated, parts)

    def elsewhere(self, moved: PyTree, place: int) -> list[np.ndarray]:
        """The entries of a difference of sums that a record in this part must not change."""
        common, own = eqx.partition(moved, self.in_common)
        others = np.arange(self.num_parts or 1) != place
        arrays = [np.asarray(x, float)[others] for x in jax.tree.leaves(own)]
        if place == self.num_parts:
            arrays += [np.asarray(x, float) for x in jax.tree.leaves(common)]
        return arrays

    def groups(self, released: PyTree) -> list[list[np.ndarray]]:
        """The released tensors of some steps, flattened; a list for each part."""
        flatten = lambda x: np.asarray(x, float).reshape(len(x), -1)  # noqa: E731
        if self.num_parts is None:
            return [[flatten(x) for x in jax.tree.leaves(released)]]
        common, own = (jax.tree.leaves(x) for x in eqx.partition(released, self.in_common))
        parts = [[flatten(x[:, i]) for x in own] for i in range(self.num_parts)]
        return [*parts, [flatten(x) for x in common]] if common else parts

    def divided(self, tree: PyTree) -> Iterator[tuple[str, PyTree, float]]:
        """The pieces of a sum with their own divisor: its name, the piece, and the expected divisor."""
        size = self.plan.expected_batch_size
        common, own = eqx.partition(tree, self.in_common)
        yield "divisor", own, size
        if self.num_parts is not None and jax.tree.leaves(common):
            yield "divisor of what is common", common, size * self.num_parts


def subject_of(
    plan: TrainingPlan,
    *,
    model: Any,
    loss_fn: LossFn | None,
    records: PyTree,
    num_parts: int | None,
    common: Callable[[Any], Sequence[PyTree]] | None,
) -> Subject:
    """What to measure; by default a model that is hard on a step.

    Raises:
        ValueError: If the model comes without its loss and records, or these do not match the number
            of parts, or models of parts cannot be trained by the plan.
    """
    if len({x is None for x in (model, loss_fn, records)}) > 1:
        raise ValueError("give model, loss_fn and records together, or none of them.")
    if num_parts is None and common is not None:
        raise ValueError("common is for models of parts. Give num_parts with it, or neither.")
    if num_parts is not None:
        check.count(num_parts=num_parts)
        if has_count(plan):
            raise ValueError(
                "models of parts are not trained with a clipping that carries a state. Use another."
            )
    if model is None:
        if common is not None:
            raise ValueError("common names arrays of a model. Give that model, or leave it out.")
        loss_fn, records = steep, make_rows()
        model = make_probe()
        if num_parts is not None:
            model, common = make_probes(num_parts), shared
            records = records, make_parts(num_parts)
    assert loss_fn is not None
    if num_parts is not None and not (isinstance(records, tuple) and len(records) == 2):
        raise ValueError("records of parts must be two: arrays, and the part of each record.")
    settings: dict[str, Any] = {"model": model, "loss_fn": loss_fn, "records": records}
    if num_parts is not None:
        in_common = held_in_common(model, num_parts=num_parts, common=common)
        settings |= {"num_parts": num_parts, "in_common": in_common}
    return Subject(plan=plan, **settings)
