"""A fitted density flow: samples, log-densities, and the guarantee they carry."""

from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow.flows import Blend, Flow
from veilflow.models import artifact as artifacts
from veilflow.models.assembly import Assembly, restored
from veilflow.models.domain import Ball, Domain
from veilflow.models.fitted import AbstractFitted, read_schema
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedDensityFlow(AbstractFitted):
    """A released density. All of its methods are post-processing: they cost nothing.

    Attributes:
        domain: The declared bounds.
        columns: Names of the columns, where the rows had any.
        ledger: Every release that went into the model.
        guarantee: What the ledger adds up to, with its assumptions.
        settings: Public settings and released facts of the fit.
    """

    flow: Flow = field(repr=False)
    domain: Domain
    columns: tuple[str, ...] | None
    ledger: Ledger
    guarantee: Guarantee
    settings: dict[str, Any]

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self.flow.dim

    @property
    def density(self) -> Blend:
        """The released density over flow coordinates: the flow, and a thin floor under it."""
        assembly = Assembly.from_json(self.settings["assembly"])
        return assembly.floored(self.flow, ball=isinstance(self.domain, Ball))

    def to_artifact(self) -> artifacts.Artifact:
        """The model as plain data."""
        leaves = jax.tree.leaves(eqx.filter(self.flow, eqx.is_array))
        return artifacts.Artifact(
            model="DensityFlow",
            manifest=self.settings,
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema=self._schema(),
            arrays={f"flow{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)},
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedDensityFlow":
        """The model that `to_artifact` described."""
        settings = artifact.manifest
        assembly = Assembly.from_json(settings["assembly"])
        # before anything is built: a file cannot ask for more work than it has numbers
        if assembly.num_numbers != sum(x.size for x in artifact.arrays.values()):
            raise ValueError("there are not as many numbers as the settings ask for.")
        # shapes only: the arrays in the file say how much memory is needed, not its settings
        skeleton = assembly.skeleton()
        leaves, treedef = jax.tree.flatten(skeleton)
        arrays = [artifact.arrays[f"flow{i}"] for i in range(len(leaves))]
        for have, want in zip(arrays, leaves, strict=True):
            if have.shape != want.shape or have.dtype != want.dtype:
                raise ValueError("arrays do not have the shapes the settings ask for.")
            if not np.isfinite(have).all():
                raise ValueError("arrays hold numbers that are not finite.")
        domain, columns = read_schema(artifact.schema, assembly.dim)
        if assembly.border != domain.border:
            raise ValueError("the flow and its domain must end at the same border.")
        return cls(
            flow=restored(jax.tree.unflatten(treedef, [jnp.asarray(x) for x in arrays])),
            domain=domain,
            columns=columns,
            ledger=artifact.ledger,
            guarantee=artifact.guarantee,
            settings=settings,
        )
