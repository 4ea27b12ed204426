"""A fitted posterior: draws, densities, moments and intervals, and the guarantee they carry."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.flows import Chain, FixedLinear, Flow, StandardNormal
from veilflow.models import artifact as artifacts
from veilflow.models.posterior.guides import Guide, skeleton
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger

_CHUNK = 4096
"""Draws made at once, by one compiled program."""
_MOMENT_DRAWS = 65_536
_MOST_NUMBERS = 10_000_000


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedPosterior:
    """A released posterior. All of its methods are post-processing: they cost nothing.

    Attributes:
        flow: The guide, a density over parameters.
        parameters: Their names.
        ledger: Every release that went into it.
        guarantee: What the ledger adds up to, with its assumptions.
        settings: Public settings and released facts of the fit.
    """

    flow: Flow = field(repr=False)
    parameters: tuple[str, ...]
    ledger: Ledger
    guarantee: Guarantee
    settings: dict[str, Any]

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        return self.flow.dim

    def sample(self, num_draws: int, *, seed: int | None = None) -> Float[np.ndarray, "draws dim"]:
        """Draws of the parameters.

        Args:
            num_draws: How many.
            seed: To draw the same again.
        """
        check.count(num_draws=num_draws)
        secret = Secret.from_seed(seed)
        parts = [
            np.asarray(_drawn(self.flow, secret.key("posterior", i)))
            for i in range(-(-num_draws // _CHUNK))
        ]
        return np.concatenate(parts)[:num_draws]

    def log_prob(self, thetas: Any) -> Float[np.ndarray, " draws"]:
        """The natural log of the density at each of some parameters.

        Args:
            thetas: One vector of parameters a row.
        """
        thetas = np.atleast_2d(np.asarray(thetas, np.float32))
        if thetas.ndim != 2 or thetas.shape[1] != self.dim:
            raise ValueError(f"thetas must have {self.dim} columns, got shape {thetas.shape}.")
        found = []
        for start in range(0, len(thetas), _CHUNK):
            part = thetas[start : start + _CHUNK]
            padded = np.zeros((_CHUNK, self.dim), np.float32)
            padded[: len(part)] = part
            found.append(np.asarray(_log_prob(self.flow, jnp.asarray(padded)))[: len(part)])
        return np.concatenate(found)

    @cached_property
    def _draws(self) -> Float[np.ndarray, "draws dim"]:
        return self.sample(_MOMENT_DRAWS, seed=0).astype(np.float64)

    @property
    def mean(self) -> Float[np.ndarray, " dim"]:
        """The mean of each parameter."""
        return self._draws.mean(axis=0)

    @property
    def covariance(self) -> Float[np.ndarray, "dim dim"]:
        """Covariances of the parameters."""
        return np.atleast_2d(np.cov(self._draws.T))

    @property
    def sd(self) -> Float[np.ndarray, " dim"]:
        """The standard deviation of each parameter."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def correlation(self) -> Float[np.ndarray, "dim dim"]:
        """Correlations of the parameters."""
        return self.covariance / np.outer(self.sd, self.sd)

    def interval(self, level: float = 0.95) -> Float[np.ndarray, "dim 2"]:
        """The interval of each parameter with so much of the mass, as much below it as above.

        Args:
            level: The mass within.
        """
        check.fraction(level=level)
        ends = [(1 - level) / 2, (1 + level) / 2]
        return np.quantile(self._draws, ends, axis=0).T

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to one `*.veil` file, all or nothing."""
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The posterior as plain data."""
        leaves = jax.tree.leaves(eqx.filter(self.flow, eqx.is_array))
        return artifacts.Artifact(
            model="FlowPosterior",
            manifest=self.settings,
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema={"parameters": list(self.parameters)},
            arrays={f"flow{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)},
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedPosterior":
        """The posterior that `to_artifact` described."""
        settings, names = artifact.manifest, artifact.schema["parameters"]
        guide, dim = Guide.from_json(settings["guide"]), settings["dim"]
        check.count(dim=dim)
        if type(names) is not list or len(names) != dim:
            raise ValueError("there must be a name for each parameter.")
        have = sum(array.size for array in artifact.arrays.values())
        # before anything is built: a file cannot ask for more work than it has numbers
        if have > _MOST_NUMBERS or dim * dim > have or max((0, *guide.hidden)) > have:
            raise ValueError("there are not as many numbers as the settings ask for.")
        bones = skeleton(guide, dim)
        shape = bones.bijection(jnp.zeros(bones.size))
        place = FixedLinear(factor=np.eye(dim), shift=np.zeros(dim))
        blank = Flow(StandardNormal(dim), Chain((shape, place)))
        arrays, rest = eqx.partition(blank, eqx.is_array)
        leaves, treedef = jax.tree.flatten(arrays)
        found = [artifact.arrays[f"flow{i}"] for i in range(len(leaves))]
        for array, want in zip(found, leaves, strict=True):
            if array.shape != want.shape or array.dtype != want.dtype:
                raise ValueError("arrays do not have the shapes the settings ask for.")
            if not np.isfinite(array).all():
                raise ValueError("arrays hold numbers that are not finite.")
        flow = eqx.combine(jax.tree.unflatten(treedef, map(jnp.asarray, found)), rest)
        maps = flow.bijection.bijections
        flow = Flow(flow.base, Chain((*maps[:-1], maps[-1].restored())))
        return cls(
            flow=flow,
            parameters=tuple(map(str, names)),
            ledger=artifact.ledger,
            guarantee=artifact.guarantee,
            settings=settings,
        )

    def __repr__(self) -> str:
        pairs = zip(self.parameters, self.mean, self.sd, strict=True)
        told = ", ".join(f"{name} {mean:.4g} ± {sd:.2g}" for name, mean, sd in pairs)
        return f"FittedPosterior({told}; {self.guarantee})"


@eqx.filter_jit
def _drawn(flow: Flow, key: Any) -> Float[Array, "draws dim"]:
    return jax.vmap(flow.sample)(jax.random.split(key, _CHUNK))


@eqx.filter_jit
def _log_prob(flow: Flow, thetas: Float[Array, "draws dim"]) -> Float[Array, " draws"]:
    return jax.vmap(flow.log_prob)(thetas)
