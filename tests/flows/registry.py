"""One registry of constructors: every bijection in it inherits the tests of the contract."""

from collections.abc import Callable

import jax
import numpy as np

from veilflow.flows import (
    AbstractBijection,
    ActNorm,
    Affine,
    AffineMap,
    Autoregressive,
    Chain,
    Invert,
    MaskedMLP,
    Permutation,
    Scan,
    maf,
    reverse,
)


def autoregressive(key: jax.Array, dim: int, activation="tanh") -> Autoregressive:
    network = MaskedMLP.create(dim, 2, key=key, hidden=(8, 8), activation=activation)
    return Autoregressive(network, AffineMap())


def block(key: jax.Array, dim: int) -> Chain:
    return Chain((ActNorm.create(dim), reverse(dim), autoregressive(key, dim)))


BIJECTIONS: dict[str, Callable[[jax.Array, int], AbstractBijection]] = {
    "affine": lambda key, dim: Affine(shift=range(dim), scale=[0.5 + i for i in range(dim)]),
    "bounds": lambda key, dim: Affine.from_bounds([-1.0] * dim, [2.0 + i for i in range(dim)]),
    "permutation": lambda key, dim: Permutation(np.roll(range(dim), 1)),
    "reverse": lambda key, dim: reverse(dim),
    "actnorm": lambda key, dim: ActNorm.create(dim),
    "autoregressive": autoregressive,
    "autoregressive relu": lambda key, dim: autoregressive(key, dim, "relu"),
    "chain": block,
    "invert actnorm": lambda key, dim: Invert(ActNorm.create(dim)),
    "invert chain": lambda key, dim: Invert(block(key, dim)),
    "scan": lambda key, dim: Scan.create(lambda k: block(k, dim), 3, key=key),
    "scan without arrays": lambda key, dim: Scan.create(lambda _: reverse(dim), 3, key=key),
    "scan of scans": lambda key, dim: Scan.create(
        lambda k: Scan.create(lambda _: ActNorm.create(dim), 2, key=k), 2, key=key
    ),
    "maf": lambda key, dim: maf(dim, key=key, hidden=(8, 8)).bijection,
}
