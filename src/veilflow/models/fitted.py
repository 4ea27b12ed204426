"""A fitted model: the plan that was executed, what was released, and the file that holds both."""

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
"""Metadata of the field that holds the arrays of a model, in a tree of any form."""
STATE = {"state": True}
"""Metadata of a field that belongs to a process and not to the file."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Fitted(ABC):
    """What `fit` returns. Its methods are post-processing and cost nothing.

    A subclass adds public fields, which the codec can write, and one field of arrays.

    Attributes:
        plan: The plan that was executed. A subclass with a plan of its own declares its type, by which
            a file is read even if nothing has imported the estimator.
        guarantee: The guarantee of the plan's ledger, with its assumptions.
        facts: Released facts other than arrays, such as the number of records.
    """

    kind: ClassVar[str]
    """The estimator's name, which stands for the model in files and reports."""

    plan: FitPlan
    guarantee: Guarantee
    facts: dict[str, Any]

    @property
    def ledger(self) -> Ledger:
        """Every release that went into the model."""
        return self.plan.ledger

    @classmethod
    @abstractmethod
    def shapes(cls, plan: Any, public: dict[str, Any], *, num_numbers: int) -> Any:
        """The tree of arrays, with shapes in place of arrays.

        Args:
            plan: The plan of the fit.
            public: The other fields of the model.
            num_numbers: The number of numbers in the file. Settings that would need more are refused
                here, before anything is built.

        Raises:
            ValueError: The plan and the fields do not belong to one model.
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
            artifact: The contents of a file.
            state: The fields that no file holds.

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
        """The arrays of a file, checked; those that follow from others are computed again."""
        return tree

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._about()}; {self.guarantee})"

    def _about(self) -> str:
        """The subject of the model, in a few words."""
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
    """`shapes` with arrays in place of shapes.

    Raises:
        ValueError: Arrays are missing, left over, of another shape or kind, or not finite.
    """
    leaves, tree = jax.tree.flatten_with_path(shapes)
    wanted = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    if set(wanted) != set(arrays):
        raise ValueError("arrays do not have the names the settings require.")
    filled = []
    for name, shape in wanted.items():
        array = arrays[name]
        if array.shape != shape.shape or array.dtype != shape.dtype:
            raise ValueError("arrays do not have the shapes the settings require.")
        if not np.isfinite(array).all():
            raise ValueError("arrays hold numbers that are not finite.")
        # 64-bit numbers stay on the host: a device would round them to 32 bits
        filled.append(array if array.dtype.itemsize == 8 else jnp.asarray(array))
    return jax.tree.unflatten(tree, filled)
