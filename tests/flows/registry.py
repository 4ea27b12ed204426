"""One registry of constructors: every bijection in it inherits the tests of the contract."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow.flows import (
    LU,
    AbstractBijection,
    ActNorm,
    Affine,
    AffineMap,
    Autoregressive,
    Chain,
    Coupling,
    Elementwise,
    FixedLinear,
    Invert,
    LogisticMixtureMap,
    Logit,
    LowRank,
    MaskedMLP,
    Permutation,
    PiecewiseLinear,
    Planar,
    PrivateLogDet,
    Radial,
    Scan,
    SharedBlocks,
    Sigmoid,
    SplineMap,
    Sylvester,
    Tanh,
    maf,
    nsf,
    realnvp,
    reverse,
)


def autoregressive(key: jax.Array, dim: int, activation="tanh", **options) -> Autoregressive:
    network = MaskedMLP.create(dim, 2, key=key, hidden=(8, 8), activation=activation, **options)
    return Autoregressive(network, AffineMap())


def block(key: jax.Array, dim: int) -> Chain:
    return Chain((ActNorm.create(dim), reverse(dim), autoregressive(key, dim)))


def coupling(key: jax.Array, dim: int, scalar_map=None, **options) -> Coupling:
    return Coupling.create(dim, scalar_map or AffineMap(), key=key, hidden=(8, 8), **options)


class Given(AbstractBijection):
    """A conditional bijection at one condition, so that it can be tested like the others."""

    bijection: AbstractBijection
    condition: tuple[float, ...] = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return self.bijection.dim

    def forward_and_log_det(self, z, condition=None):
        return self.bijection.forward_and_log_det(z, jnp.asarray(self.condition, z.dtype))

    def inverse_and_private_log_det(self, x, condition=None):
        return self.bijection.inverse_and_private_log_det(x, jnp.asarray(self.condition, x.dtype))

    def public_log_det(self):
        return self.bijection.public_log_det()


def sylvester(key: jax.Array, dim: int, **options) -> Sylvester:
    return Sylvester.create(dim, key=key, rank=min(dim, 3), **options)


def piecewise(dim: int) -> PiecewiseLinear:
    steps = np.random.default_rng(6).uniform(0.2, 1.5, size=(dim, 7))  # no knot at a round number
    return PiecewiseLinear.create(np.cumsum(steps, axis=1) - 3, border=2.0)


def covariance(dim: int) -> np.ndarray:
    factor = np.random.default_rng(5).normal(size=(dim, dim))
    return factor @ factor.T + np.eye(dim)


def shared_blocks(key: jax.Array, dim: int, linear=None) -> SharedBlocks:
    return SharedBlocks.create(
        dim, SplineMap(num_bins=3), 3, key=key, hidden=(6,), embedding=2, linear=linear
    )


BIJECTIONS: dict[str, Callable[[jax.Array, int], AbstractBijection]] = {
    "affine": lambda key, dim: Affine(shift=range(dim), scale=[0.5 + i for i in range(dim)]),
    "bounds": lambda key, dim: Affine.from_bounds([-1.0] * dim, [2.0 + i for i in range(dim)]),
    "permutation": lambda key, dim: Permutation(np.roll(range(dim), 1)),
    "reverse": lambda key, dim: reverse(dim),
    "actnorm": lambda key, dim: ActNorm.create(dim),
    "autoregressive": autoregressive,
    "autoregressive relu": lambda key, dim: autoregressive(key, dim, "relu"),
    "autoregressive, conditional": lambda key, dim: Given(
        autoregressive(key, dim, condition_dim=2), (0.5, -1.0)
    ),
    "invert autoregressive": lambda key, dim: Invert(autoregressive(key, dim)),
    "chain": block,
    "invert actnorm": lambda key, dim: Invert(ActNorm.create(dim)),
    "invert chain": lambda key, dim: Invert(block(key, dim)),
    "scan": lambda key, dim: Scan.create(lambda k: block(k, dim), 3, key=key),
    "scan without arrays": lambda key, dim: Scan.create(lambda _: reverse(dim), 3, key=key),
    "scan of scans": lambda key, dim: Scan.create(
        lambda k: Scan.create(lambda _: ActNorm.create(dim), 2, key=k), 2, key=key
    ),
    "maf": lambda key, dim: maf(dim, key=key, hidden=(8, 8)).bijection,
    "coupling": coupling,
    "coupling spline": lambda key, dim: coupling(key, dim, SplineMap()),
    "coupling, conditional": lambda key, dim: Given(
        coupling(key, dim, condition_dim=2), (0.5, -1.0)
    ),
    "invert coupling": lambda key, dim: Invert(coupling(key, dim, SplineMap(num_bins=3))),
    "elementwise spline": lambda key, dim: Elementwise.create(dim, SplineMap(), key=key),
    "elementwise mixture": lambda key, dim: Elementwise.create(dim, LogisticMixtureMap(), key=key),
    "radial": lambda key, dim: Radial.create(dim, num_bins=5),
    "nsf": lambda key, dim: nsf(dim, key=key, blocks=2, hidden=(8, 8), actnorm=True).bijection,
    "realnvp": lambda key, dim: realnvp(dim, key=key, blocks=3, hidden=(8, 8)).bijection,
    "shared blocks": lambda key, dim: shared_blocks(
        key, dim, lambda key: LowRank.create(dim, key=key)
    ),
    "shared blocks without linear maps": shared_blocks,
    "LU": lambda key, dim: LU.create(dim, key=key),
    "invert LU": lambda key, dim: Invert(LU.create(dim, key=key)),
    "scan LU": lambda key, dim: Scan.create(lambda k: LU.create(dim, key=k), 2, key=key),
    "low rank": lambda key, dim: LowRank.create(dim, key=key, rank=min(dim, 2)),
    "low rank, log-det private": lambda key, dim: PrivateLogDet.create(
        LowRank.create(dim, key=key)
    ),
    "fixed linear": lambda key, dim: FixedLinear.from_moments(np.arange(dim), covariance(dim)),
    "piecewise linear": lambda key, dim: piecewise(dim),
    "released start": lambda key, dim: Chain(
        (
            autoregressive(key, dim),
            FixedLinear.from_moments(np.arange(dim), covariance(dim)),
            piecewise(dim),
        )
    ),
    "planar": lambda key, dim: Planar.create(dim, key=key),
    "planar, turned around": lambda key, dim: Invert(Planar.create(dim, key=key)),
    "planar, conditional": lambda key, dim: Given(
        Planar.create(dim, key=key, condition_dim=2, hidden=(4,)), (0.5, -1.0)
    ),
    "scan planar": lambda key, dim: Scan.create(lambda k: Planar.create(dim, key=k), 3, key=key),
    "sylvester": sylvester,
    "sylvester, turned around": lambda key, dim: Invert(sylvester(key, dim)),
    "sylvester, conditional": lambda key, dim: Given(
        sylvester(key, dim, reflections=2, condition_dim=2, hidden=(4,)), (0.5, -1.0)
    ),
    "sigmoid": lambda key, dim: Sigmoid(dim),
    "logit": lambda key, dim: Chain(
        (Sigmoid(dim), Affine(shift=[0.25] * dim, scale=[0.5] * dim), Logit(dim))
    ),
    "tanh": lambda key, dim: Tanh(dim),
}

RECORD_IN_LOG_DET: tuple[type, ...] = (
    Autoregressive,
    Coupling,
    Elementwise,
    Logit,
    PiecewiseLinear,
    Planar,
    PrivateLogDet,
    Radial,
    SharedBlocks,
    Sigmoid,
    Sylvester,
    Tanh,
)
"""Bijections whose log-determinant depends on the record, or is clipped with what does; that of all
others is public."""
