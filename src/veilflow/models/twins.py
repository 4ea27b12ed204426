"""Twins: generated rows that resemble the records as far as releases say, with something to learn.

A start (count, marginals, covariance, modes) is public once it is released. Rows drawn from it have
nothing that it does not know already, so whoever tries out a training on them learns that training
is useless. A twin therefore has structure of its own, of one of three kinds:

- "flow": rows of the start, moved by a random smooth map of the whole space.
- "bent": every mode has the same shape, bent and with long tails, instead of that of a normal.
- "sheet": every mode is a curved sheet of half as many dimensions, with a little noise.

Mean and covariance of a twin are those of the start, and so are the marginals through which it is
pushed. Twins are functions of released values and a public seed. They read no record and cost nothing.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow._core.chunks import apply_in_chunks
from veilflow.flows import (
    AbstractBase,
    AbstractBijection,
    Blend,
    Chain,
    Flow,
    GaussianMixture,
    ShapedMixture,
    StandardNormal,
)
from veilflow.models.domain import Domain
from veilflow.models.fitted_density import FittedDensityFlow
from veilflow.models.mixture import FittedMixtureDensity

KINDS = ("flow", "bent", "sheet")
"""The kinds of structure that a twin can have."""

Rows = Float[np.ndarray, "rows dim"]

_CHUNK = 4096
_FEATURES = 4
"""Features of a random map, for each column."""
_MOVE = 2.0
"""Length of the steps of a random map, in standard deviations."""
_BEND, _TAIL = 0.7, 0.3
"""Strength of bends, and deviation of the logarithm of a row's own scale."""
_WAVE, _THICKNESS = 0.7, 0.25
"""Frequency of a sheet, and its thickness in standard deviations."""


@dataclass(frozen=True)
class Start:
    """What was released before a training, from which twins are made.

    Example:
        >>> import veilflow as vf
        >>> model = vf.load("model.veil")  # doctest: +SKIP
        >>> rows = vf.Start.of(model).twin("bent", 10_000, seed=0)  # doctest: +SKIP

    Attributes:
        mixture: The modes; a single normal where no mixture was released.
        maps: Released maps from the coordinates of the mixture to flow coordinates, in their order.
        domain: The declared domain.
    """

    mixture: GaussianMixture
    maps: tuple[AbstractBijection, ...]
    domain: Domain

    @classmethod
    def of(cls, model: FittedDensityFlow | FittedMixtureDensity) -> "Start":
        """The start of a fitted model. What was trained after it is left out.

        Raises:
            TypeError: The model has no modes that are known.
        """
        if isinstance(model, FittedMixtureDensity):
            return cls(model.density, (), model.domain)
        base, maps = model.flow.base, model.flow.bijection
        assert isinstance(maps, Chain)
        # a shape is within the base; any other trained flow comes right after it
        trained = model.plan.flow is not None and not isinstance(base, ShapedMixture)
        return cls(_modes(base), tuple(maps.bijections)[trained:], model.domain)

    def twin(self, kind: str, num_rows: int, *, seed: int) -> Rows:
        """Generated rows in the units of the data, inside the domain.

        Args:
            kind: One of `KINDS`.
            num_rows: As many as were counted, or more to have some to hold out.
            seed: Public. It decides both the structure and the rows.
        """
        check.one_of(KINDS, kind=kind)
        check.count(num_rows=num_rows)
        rng = np.random.default_rng([KINDS.index(kind), seed])
        rows = _MAKERS[kind](self.mixture, num_rows, rng).astype(np.float32)
        if self.maps:
            rows = apply_in_chunks(lambda part: _through(self.maps, part), rows, size=_CHUNK)
        return self.domain.clamp(self.domain.decode(np.asarray(rows, np.float64)))


def _modes(base: AbstractBase | Flow) -> GaussianMixture:
    if isinstance(base, ShapedMixture):
        return base.mixture
    if isinstance(base, GaussianMixture):
        return base
    if isinstance(base, StandardNormal):
        dim = base.dim
        return GaussianMixture.create([1.0], np.zeros((1, dim)), np.eye(dim)[None])
    if isinstance(base, Blend):  # a grid and the mixture that smooths it
        for part in base.bases:
            if isinstance(part, GaussianMixture):
                return part
    raise TypeError(
        f"twins are made from a mixture of normals or from one normal, got {type(base).__name__}."
    )


def _moved(mixture: GaussianMixture, num_rows: int, rng: np.random.Generator) -> Rows:
    """Rows of the mixture, moved by a random smooth map."""
    mean, factor = _moments(mixture)
    rows = _placed(mixture, rng.normal(size=(num_rows, mixture.dim)), rng)
    standard = np.linalg.solve(factor, (rows - mean).T).T
    dim, size = mixture.dim, _FEATURES * mixture.dim
    weights, phases = rng.normal(size=(dim, size)), rng.uniform(-2, 2, size)
    steps = rng.normal(size=(size, dim)) * (_MOVE / size**0.5)
    moved = standard + np.tanh(standard @ weights + phases) @ steps
    return mean + _standardized(moved) @ factor.T


def _bent(mixture: GaussianMixture, num_rows: int, rng: np.random.Generator) -> Rows:
    """Modes that are all bent in the same way, with long tails."""
    dim = mixture.dim
    shape = rng.normal(size=(num_rows, dim))
    # each column is bent by those before it
    bends = np.tril(_BEND * rng.normal(size=(dim, dim)) / dim**0.5, -1)
    scales = np.exp(_TAIL * rng.normal(size=(num_rows, 1)))
    return _placed(mixture, _standardized(scales * (shape + (shape**2 - 1) @ bends.T)), rng)


def _sheets(mixture: GaussianMixture, num_rows: int, rng: np.random.Generator) -> Rows:
    """Modes that are curved sheets of half as many dimensions."""
    dim = mixture.dim
    inner, size = -(-dim // 2), 2 * dim
    waves, phases = _WAVE * rng.normal(size=(inner, size)), rng.uniform(0, 2 * np.pi, size)
    features = rng.normal(size=(size, dim))
    sheet = np.sin(rng.normal(size=(num_rows, inner)) @ waves + phases) @ features
    thick = _standardized(sheet) + _THICKNESS * rng.normal(size=(num_rows, dim))
    return _placed(mixture, _standardized(thick), rng)


_MAKERS = {"flow": _moved, "bent": _bent, "sheet": _sheets}


def _placed(mixture: GaussianMixture, shapes: Rows, rng: np.random.Generator) -> Rows:
    """Shapes with mean zero and unit covariance, each at a mode drawn by weight."""
    weights = np.exp(np.asarray(mixture.log_weights, np.float64))
    which = rng.choice(len(weights), len(shapes), p=weights / weights.sum())
    means, factors = np.asarray(mixture.means, float), np.asarray(mixture.factors, float)
    return means[which] + np.einsum("nij,nj->ni", factors[which], shapes)


def _moments(
    mixture: GaussianMixture,
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """The mean of a mixture, and a factor of its covariance."""
    weights = np.exp(np.asarray(mixture.log_weights, np.float64))
    means, factors = np.asarray(mixture.means, float), np.asarray(mixture.factors, float)
    mean = weights @ means
    apart = means - mean
    inside = np.einsum("k,kij,klj->il", weights, factors, factors)
    return mean, np.linalg.cholesky(inside + np.einsum("k,ki,kj->ij", weights, apart, apart))


def _standardized(rows: Rows) -> Rows:
    """Rows with mean zero and unit covariance."""
    centered = rows - rows.mean(axis=0)
    covariance = centered.T @ centered / len(rows) + 1e-9 * np.eye(rows.shape[1])
    return np.linalg.solve(np.linalg.cholesky(covariance), centered.T).T


@eqx.filter_jit
def _through(
    maps: tuple[AbstractBijection, ...], rows: Float[Array, "rows dim"]
) -> Float[Array, "rows dim"]:
    return jax.vmap(lambda row: Chain(maps).forward_and_log_det(row)[0])(jnp.asarray(rows))
