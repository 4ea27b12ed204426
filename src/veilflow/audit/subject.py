"""What is measured: the step of a plan, for one model or for models of parts, on generated records."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from veilflow._core import check
from veilflow.audit import probe
from veilflow.audit.watched import Watched, has_count, watched
from veilflow.engine.observed import LossFn
from veilflow.engine.parts import held_in_common
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import State

CHUNK = 5
"""Records handled at once: so few that a dozen make a full chunk and a rest, as in a large run."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A plan, a model with its loss, and generated records; of parts, how many there are.

    Models of parts are stacked, and their records come with the part of each, as for
    `engine.train_parts`.
    """

    plan: TrainingPlan
    model: Any
    loss_fn: LossFn
    records: PyTree
    num_parts: int | None = None
    in_common: PyTree = False
    """Of each array of the model, whether all parts have it in common."""

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
        """Data sets with one record more, stacked, and the part that record is in.

        For each part all of `probe.HOSTILE` in order; then the same for a record outside all parts.
        """
        found = probe.with_one_more(self.records)
        if self.num_parts is None:
            return [0] * len(probe.HOSTILE), found
        data, part = found
        times = self.num_parts + 1
        places = np.repeat(np.arange(times, dtype=np.int32), len(part))
        parts = np.concatenate([part] * times)
        parts[:, -1] = places
        repeated = jax.tree.map(lambda x: np.concatenate([x] * times), data)
        return places.tolist(), (repeated, parts)

    def elsewhere(self, moved: PyTree, place: int) -> list[np.ndarray]:
        """Of a difference of sums, what a record in this part has nothing to do with."""
        common, own = eqx.partition(moved, self.in_common)
        others = np.arange(self.num_parts or 1) != place
        found = [np.asarray(x, float)[others] for x in jax.tree.leaves(own)]
        if place == self.num_parts:
            found += [np.asarray(x, float) for x in jax.tree.leaves(common)]
        return found

    def groups(self, released: PyTree) -> list[list[np.ndarray]]:
        """The released tensors of some steps, flat; those of each part apart from others."""
        flat = lambda x: np.asarray(x, float).reshape(len(x), -1)  # noqa: E731
        if self.num_parts is None:
            return [[flat(x) for x in jax.tree.leaves(released)]]
        common, own = (jax.tree.leaves(x) for x in eqx.partition(released, self.in_common))
        found = [[flat(x[:, i]) for x in own] for i in range(self.num_parts)]
        return [*found, [flat(x) for x in common]] if common else found

    def divided(self, tree: PyTree) -> Iterator[tuple[str, PyTree, float]]:
        """The pieces of a sum that have a divisor each: its name, the piece, and what it must be."""
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
    """What to measure; a model that is hard on a step where none is given.

    Raises:
        ValueError: The model comes without its loss and records, or these are not of so many parts,
            or the plan is one that parts are not trained by.
    """
    given = (model is not None, loss_fn is not None, records is not None)
    if len(set(given)) > 1:
        raise ValueError("give model, loss_fn and records together, or none of them.")
    if num_parts is None and common is not None:
        raise ValueError("common is for models of parts. Give num_parts with it, or neither.")
    if num_parts is not None:
        check.count(num_parts=num_parts)
        if has_count(plan):
            raise ValueError(
                "models of parts are not trained with a clipping that carries a state. Measure a plan "
                "without."
            )
    if model is None:
        if common is not None:
            raise ValueError("common names arrays of a model. Give that model, or leave it out.")
        loss_fn, records = probe.steep, probe.make_rows()
        model = probe.make_probe()
        if num_parts is not None:
            model, common = probe.make_probes(num_parts), probe.in_common
            records = records, probe.make_parts(num_parts)
    assert loss_fn is not None
    if num_parts is not None and not (isinstance(records, tuple) and len(records) == 2):
        raise ValueError("records of parts must be two: arrays, and the part of each record.")
    settings: dict[str, Any] = {"model": model, "loss_fn": loss_fn, "records": records}
    if num_parts is not None:
        in_common = held_in_common(model, num_parts=num_parts, common=common)
        settings |= {"num_parts": num_parts, "in_common": in_common}
    return Subject(plan=plan, **settings)
