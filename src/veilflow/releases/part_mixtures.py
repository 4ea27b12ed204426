"""Mixtures of normals for all parts at once, by expectation-maximization without privacy.

Rows are processed in chunks of a public size. A part with no rows left adds zeros, and adding zero
leaves a sum unchanged to the last bit. So the mixture of a part does not depend on how many rows the
other parts have.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import fields
from veilflow._core.keys import Secret
from veilflow.flows import GaussianMixture
from veilflow.releases.part_densities import (
    Part,
    PartDensities,
    PartModels,
    centers_and_scales,
    standardized,
)
from veilflow.releases.release import Monitor

_CHUNK = 256
"""Rows of a part in one call of the compiled program."""
_FLOOR = 1e-3
"""Smallest variance in any direction, in units of the variance of the part."""
_PRIOR_ROWS = 2.0
"""Weight of a broad normal prior, in rows: no component collapses onto a single record."""


@dataclass(frozen=True, kw_only=True)
class PartMixtures(PartModels):
    """A mixture of normals for each part.

    Attributes:
        num_components: Components of each mixture.
        iterations: Iterations of expectation-maximization.
    """

    num_components: int
    iterations: int = 50

    def __post_init__(self) -> None:
        fields.convert(self, num_components=fields.count(), iterations=fields.count())

    @property
    def rounds(self) -> int:
        return self.iterations

    def train(
        self,
        parts: Sequence[Part],
        *,
        secret: Secret,
        flow: None = None,
        monitor: Monitor = lambda done: None,
    ) -> PartDensities:
        centers, scales = centers_and_scales(parts)
        scaled = standardized(parts, centers, scales)
        pieces = list(_pieces(scaled))
        mixtures = _first(scaled, self.num_components, secret)
        for done in range(self.iterations):
            totals = None
            for rows, weights in pieces:
                sums = _sums(mixtures, jnp.asarray(rows), jnp.asarray(weights))
                totals = sums if totals is None else jax.tree.map(jnp.add, totals, sums)
            assert totals is not None
            mixtures = _maximized(*(np.asarray(total, np.float64) for total in totals))
            monitor(done + 1)
        return PartDensities(mixtures, jnp.asarray(centers), jnp.asarray(scales))

    def num_numbers(self, dim: int, *, flow: None = None) -> int:
        return self.num_components * (1 + dim + 2 * dim**2) + 2 * dim

    def untrained(self, dim: int, num_parts: int, *, flow: None = None) -> PartDensities:
        k = self.num_components
        means = jnp.zeros((num_parts, k, dim))
        factors = jnp.zeros((num_parts, k, dim, dim))
        density = GaussianMixture(dim, jnp.zeros((num_parts, k)), means, factors, factors)
        around = jnp.zeros((num_parts, dim))
        return PartDensities(density, around, around + 1)


def _pieces(parts: Sequence[Part]) -> Any:
    """Blocks of (parts, chunk) rows with weights of 1, and of 0 after the last row of a part."""
    for start in range(0, max(1, *(len(part) for part in parts)), _CHUNK):
        rows = np.zeros((len(parts), _CHUNK, parts[0].shape[1]), np.float32)
        weights = np.zeros((len(parts), _CHUNK), np.float32)
        for j, part in enumerate(parts):
            block = part[start : start + _CHUNK]
            rows[j, : len(block)], weights[j, : len(block)] = block, 1.0
        yield rows, weights


def _first(parts: Sequence[Part], num_components: int, secret: Secret) -> GaussianMixture:
    """Initial means by k-means++: rows drawn by their squared distance to earlier ones."""
    dim = parts[0].shape[1]
    means = np.empty((len(parts), num_components, dim))
    for j, rows in enumerate(parts):
        rng = np.random.default_rng(secret.words("means", j, 1)[0])
        near = np.ones(len(rows))
        for k in range(num_components):
            if not len(rows):
                means[j, k] = rng.normal(size=dim)
                continue
            means[j, k] = rows[rng.choice(len(rows), p=near / near.sum())]
            away = np.square(rows - means[j, k]).sum(axis=1) + 1e-12
            near = away if k == 0 else np.minimum(near, away)
    weights = np.full(means.shape[:2], 1 / num_components)
    covariances = np.broadcast_to(np.eye(dim) / num_components, (*means.shape, dim))
    return _mixtures(weights, means, covariances)


def _maximized(count: np.ndarray, first: np.ndarray, second: np.ndarray) -> GaussianMixture:
    """The mixtures with these sums of responsibilities, rows and products of rows."""
    dim = first.shape[-1]
    total = count + _PRIOR_ROWS
    means = first / np.maximum(count, 1e-6)[..., None]
    # around the mean; the prior is a normal with the variance of the part at the same place
    scatter = second - count[..., None, None] * means[..., :, None] * means[..., None, :]
    covariances = (scatter + _PRIOR_ROWS * np.eye(dim)) / total[..., None, None]
    # float32 sums of distant rows may leave a direction with no variance, or a negative one
    widths, axes = np.linalg.eigh((covariances + np.swapaxes(covariances, -1, -2)) / 2)
    covariances = (axes * np.maximum(widths, _FLOOR)[..., None, :]) @ np.swapaxes(axes, -1, -2)
    return _mixtures(total / total.sum(axis=-1, keepdims=True), means, covariances)


def _mixtures(weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> GaussianMixture:
    """All mixtures as one module, with the part as first axis of every array."""
    factors = np.linalg.cholesky(covariances)
    arrays = np.log(weights), means, factors, np.tril(np.linalg.inv(factors))
    return GaussianMixture(
        means.shape[-1], *(jnp.asarray(np.asarray(array, np.float32)) for array in arrays)
    )


@eqx.filter_jit
def _sums(
    mixtures: GaussianMixture, rows: Float[Array, "parts rows dim"], weights: Array
) -> tuple[Array, Array, Array]:
    """Sums of responsibilities, and of rows and products weighted by them, by part and component."""

    def one_part(mixture: GaussianMixture, rows: Array, weights: Array) -> Any:
        share = jax.vmap(jax.grad(lambda logs, row: _log_prob(mixture, logs, row)), (None, 0))
        # selected, not multiplied: whatever the padding gives, even NaN, counts as zero
        counted = weights[:, None] > 0
        by_component = jnp.where(counted, jnp.nan_to_num(share(mixture.log_weights, rows)), 0.0)
        first = jnp.einsum("nk,nd->kd", by_component, rows)
        second = jnp.einsum("nk,nd,ne->kde", by_component, rows, rows)
        return by_component.sum(axis=0), first, second

    return jax.vmap(one_part)(mixtures, rows, weights)


def _log_prob(mixture: GaussianMixture, log_weights: Array, row: Array) -> Array:
    """The log-density; its gradient by the log weights is the vector of responsibilities."""
    return eqx.tree_at(lambda one: one.log_weights, mixture, log_weights).log_prob(row)
