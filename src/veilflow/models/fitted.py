"""A fitted model: the plan that was executed, what was released, and one file that holds both."""

import dataclasses
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from veilflow._core import codec
from veilflow.models import artifact as artifacts
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.releases.plan import FitPlan

ARRAYS = {"arrays": True}
"""Metadata of the field that holds the arrays of a model, as any tree."""
STATE = {"state": True}
"""Metadata of a field that belongs to a running process and not to the file."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Fitted(ABC):
    """What `fit` returns. Everything that can be asked of it is post-processing, and costs nothing.

    A subclass adds public fields, which the codec can write, and one field of arrays.

    Attributes:
        plan: What was executed. A subclass with a plan of its own names its type: a file is read by
            it, also where nothing has imported the estimator.
        guarantee: What the plan's ledger adds up to, with its assumptions.
        facts: Released facts beside the arrays, such as a paid number of records.
    """

    kind: ClassVar[str]
    """The estimator's name: what stands for the model in files and reports."""

    plan: FitPlan
    guarantee: Guarantee
    facts: dict[str, Any]

    @property
    def ledger(self) -> Ledger:
        """Every release that went into the model."""
        return self.plan.ledger

    @classmethod
    @abstractmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> Any:
        """The tree of arrays with shapes in their places.

        Args:
            plan: Of the fit.
            public: The other fields of the model.
            num_numbers: How many numbers there are in all: what asks for more is refused here.

        Raises:
            ValueError: They do not make a model.
        """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `*.veil` file, all or nothing."""
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The model as plain data."""
        public, arrays = _split(type(self))
        return artifacts.Artifact(
            model=self.kind,
            manifest={"plan": codec.plain(self.plan), "facts": codec.plain(self.facts)},
            ledger=self.plan.ledger,
            guarantee=self.guarantee,
            schema={name: codec.plain(getattr(self, name)) for name in public},
            arrays=_named(getattr(self, arrays)),
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact, **state: Any) -> Self:
        """The model that `to_artifact` described.

        Args:
            artifact: As a file gave it.
            state: Fields that no file holds.

        Raises:
            ValueError: The parts do not belong together.
        """
        fields, arrays = _split(cls)
        plan = codec.restored(get_type_hints(cls)["plan"], artifact.manifest["plan"])
        if plan.ledger != artifact.ledger:
            raise ValueError("the ledger is not the one of the plan.")
        if set(artifact.schema) != set(fields):
            raise ValueError("the public fields are those of another model.")
        public = {
            name: codec.restored(kind, artifact.schema[name]) for name, kind in fields.items()
        }
        public["facts"] = dict(artifact.manifest["facts"])
        total = sum(array.size for array in artifact.arrays.values())
        tree = _filled(cls.shapes(plan, public, num_numbers=total), artifact.arrays)
        state[arrays] = cls.checked(tree)
        return cls(plan=plan, guarantee=artifact.guarantee, **public, **state)

    @classmethod
    def checked(cls, tree: Any) -> Any:
        """The arrays of a file, if they belong together; what follows from others is made again."""
        return tree

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._about()}; {self.guarantee})"

    def _about(self) -> str:
        """What the model is of, in a few words."""
        return f"{len(self.ledger.entries)} releases"


def _split(cls: type[Fitted]) -> tuple[dict[str, Any], str]:
    """The public fields of a model with their types, and the name of the field of arrays."""
    hints, own = get_type_hints(cls), {field.name for field in dataclasses.fields(Fitted)}
    every = [field for field in dataclasses.fields(cls) if "state" not in field.metadata]
    added = [field for field in every if field.name not in own]
    (arrays,) = (field.name for field in added if "arrays" in field.metadata)
    return {field.name: hints[field.name] for field in added if field.name != arrays}, arrays


def _named(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by their path in it."""
    leaves = jax.tree.leaves_with_path(tree)
    arrays = [(path, leaf) for path, leaf in leaves if isinstance(leaf, np.ndarray | jax.Array)]
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in arrays}


def _filled(shapes: Any, arrays: dict[str, np.ndarray]) -> Any:
    """`shapes` with arrays in the places of shapes.

    Raises:
        ValueError: Arrays are missing, left over, of another shape or kind, or not finite.
    """
    leaves, tree = jax.tree.flatten_with_path(shapes)
    wanted = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    if set(wanted) != set(arrays):
        raise ValueError("arrays do not have the names the settings ask for.")
    made = []
    for name, want in wanted.items():
        have = arrays[name]
        if have.shape != want.shape or have.dtype != want.dtype:
            raise ValueError("arrays do not have the shapes the settings ask for.")
        if not np.isfinite(have).all():
            raise ValueError("arrays hold numbers that are not finite.")
        # numbers of 64 bits are for the host: a device would halve them
        made.append(have if have.dtype.itemsize == 8 else jnp.asarray(have))
    return jax.tree.unflatten(tree, made)
