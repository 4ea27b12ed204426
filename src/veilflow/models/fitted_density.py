"""A fitted density flow: samples, log-densities, and the guarantee they carry."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.flows import Blend, Flow
from veilflow.models import artifact as artifacts
from veilflow.models import domain as domains
from veilflow.models.assembly import Assembly
from veilflow.models.domain import Domain
from veilflow.models.sampling import AbstractSampler, blocks
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.tabular.io import read_rows

_CHUNK = 4096
"""Rows handled at once, by one compiled program."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedDensityFlow(AbstractSampler):
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
        return Assembly.from_json(self.settings["assembly"]).floored(self.flow)

    def _blocks(self, num_rows: int, secret: Secret) -> Iterator[Float[np.ndarray, "rows dim"]]:
        return blocks(self.density, self.domain, num_rows, secret)

    def log_prob(self, rows: Any) -> Float[np.ndarray, " rows"]:
        """The natural logarithm of the density at each row, in the units of the data.

        The result for private rows is as private as the rows are.

        Args:
            rows: Array, frame or file, as for `fit`; also single rows.
        """
        values = read_rows(rows, columns=self.columns).values
        if values.shape[1] != self.dim:
            raise ValueError(f"rows must have {self.dim} columns, got {values.shape[1]}.")
        coordinates = np.clip(self.domain.encode(values), -1e30, 1e30).astype(np.float32)
        result = np.empty(len(values))
        for start in range(0, len(values), _CHUNK):
            part = coordinates[start : start + _CHUNK]
            padded = np.zeros((_CHUNK, self.dim), np.float32)
            padded[: len(part)] = part
            result[start : start + _CHUNK] = np.asarray(
                _log_prob(self.density, jnp.asarray(padded))
            )[: len(part)]
        # far away the square of a coordinate overflows: the density there is zero
        return np.nan_to_num(result, nan=-np.inf, neginf=-np.inf) - self.domain.log_scale(self.dim)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `*.veil` file, all or nothing."""
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The model as plain data."""
        leaves = jax.tree.leaves(eqx.filter(self.flow, eqx.is_array))
        return artifacts.Artifact(
            model="DensityFlow",
            manifest=self.settings,
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema={
                "columns": None if self.columns is None else list(self.columns),
                "domain": self.domain.to_json(),
            },
            arrays={f"flow{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)},
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedDensityFlow":
        """The model that `to_artifact` described."""
        settings, columns = artifact.manifest, artifact.schema["columns"]
        assembly = Assembly.from_json(settings["assembly"])
        # before anything is built: a file cannot ask for more work than it has numbers
        if assembly.num_numbers != sum(x.size for x in artifact.arrays.values()):
            raise ValueError("there are not as many numbers as the settings ask for.")
        dim = assembly.dim
        # shapes only: the arrays in the file say how much memory is needed, not its settings
        skeleton = assembly.skeleton()
        leaves, treedef = jax.tree.flatten(skeleton)
        arrays = [artifact.arrays[f"flow{i}"] for i in range(len(leaves))]
        for have, want in zip(arrays, leaves, strict=True):
            if have.shape != want.shape or have.dtype != want.dtype:
                raise ValueError("arrays do not have the shapes the settings ask for.")
            if not np.isfinite(have).all():
                raise ValueError("arrays hold numbers that are not finite.")
        domain = domains.from_json(artifact.schema["domain"])
        domain.check_dim(dim)
        if columns is not None and (type(columns) is not list or len(columns) != dim):
            raise ValueError("columns must name every number of a row.")
        return cls(
            flow=jax.tree.unflatten(treedef, [jnp.asarray(x) for x in arrays]),
            domain=domain,
            columns=None if columns is None else tuple(map(str, columns)),
            ledger=artifact.ledger,
            guarantee=artifact.guarantee,
            settings=settings,
        )

    def __repr__(self) -> str:
        names = self.dim if self.columns is None else ", ".join(self.columns)
        return f"FittedDensityFlow(columns: {names}; {self.guarantee})"


@eqx.filter_jit
def _log_prob(density: Blend, rows: jax.Array) -> jax.Array:
    return jax.vmap(density.log_prob)(rows)
