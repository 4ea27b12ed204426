"""Flows ready to train: equal blocks over a base distribution, initialized close to the identity.

From data to base each block is a map with a network, a fixed permutation of the coordinates and,
optionally, an ActNorm. All blocks share one trace, so compile time does not grow with their number.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows.bases.simple import AbstractBase, StandardNormal
from veilflow.flows.bijection import AbstractBijection
from veilflow.flows.bijections.autoregressive import Autoregressive
from veilflow.flows.bijections.composition import Chain, Invert, Scan
from veilflow.flows.bijections.coupling import Coupling
from veilflow.flows.bijections.fixed import Permutation, reverse
from veilflow.flows.bijections.linear import ActNorm
from veilflow.flows.bijections.parameters import PrivateLogDet
from veilflow.flows.flow import Flow
from veilflow.flows.network import Activation
from veilflow.flows.scalar_maps.simple import AffineMap, Composed
from veilflow.flows.scalar_maps.spline import SplineMap


def maf(
    dim: int,
    *,
    key: Key[Array, ""],
    blocks: int = 5,
    hidden: tuple[int, ...] = (100, 100),
    activation: Activation = "tanh",
    condition_dim: int = 0,
    base: AbstractBase | None = None,
    actnorm: bool = False,
) -> Flow:
    """A masked autoregressive flow: blocks of affine autoregressive maps and reversals.

    Args:
        dim: Size of an example.
        key: Spent here, for the weights.
        blocks: Number of blocks.
        hidden: Sizes of the hidden layers in each block's masked network.
        activation: "tanh" or "relu".
        condition_dim: Size of the condition; 0 for an unconditional density.
        base: The base distribution, of size `dim`; None for the standard normal.
        actnorm: Whether each block ends with a trained scale and shift of every coordinate.

    Returns:
        The flow.

    Raises:
        ValueError: If a size is out of range, the activation unknown, or the base of another size.

    Example:
        >>> import jax
        >>> flow = maf(2, key=jax.random.key(0))
        >>> flow.log_prob(jax.numpy.zeros(2)).shape
        ()

    References:
        Papamakarios, Pavlakou, Murray, "Masked autoregressive flow for density estimation", 2017.
    """
    network = {"hidden": hidden, "activation": activation, "condition_dim": condition_dim}
    layer = partial(Autoregressive.create, dim, AffineMap(), **network)
    return _flow(layer, reverse(dim), key=key, blocks=blocks, base=base, actnorm=actnorm)


def nsf(
    dim: int,
    *,
    key: Key[Array, ""],
    blocks: int = 5,
    hidden: tuple[int, ...] = (100, 100),
    activation: Activation = "tanh",
    num_bins: int = 8,
    bound: float = 4.0,
    condition_dim: int = 0,
    base: AbstractBase | None = None,
    actnorm: bool = False,
) -> Flow:
    """A neural spline flow: blocks of autoregressive splines and reversals.

    A spline is the identity outside its box. In each block an affine map, set by the same network,
    therefore brings the data into the box first.

    A spline has `num_bins` bins and is nonlinear inside [-bound, bound]. The other arguments, and what
    is raised, are those of `maf`.

    References:
        Durkan, Bekasov, Murray, Papamakarios, "Neural spline flows", 2019.
    """
    network = {"hidden": hidden, "activation": activation, "condition_dim": condition_dim}
    layer = partial(Autoregressive.create, dim, _affine_spline(num_bins, bound), **network)
    return _flow(layer, reverse(dim), key=key, blocks=blocks, base=base, actnorm=actnorm)


def realnvp(
    dim: int,
    *,
    key: Key[Array, ""],
    blocks: int = 8,
    hidden: tuple[int, ...] = (100, 100),
    activation: Activation = "tanh",
    scalar_map: Literal["affine", "spline"] = "affine",
    num_bins: int = 8,
    bound: float = 4.0,
    condition_dim: int = 0,
    base: AbstractBase | None = None,
    actnorm: bool = False,
) -> Flow:
    """A coupling flow, in which samples are as cheap as densities.

    Each block maps half of the coordinates, so more blocks are needed than in an autoregressive flow.
    `scalar_map` is "affine", or "spline" for an affine map and a spline, with bins as in `nsf`. The
    other arguments, and what is raised, are those of `maf`.

    References:
        Dinh, Sohl-Dickstein, Bengio, "Density estimation using Real NVP", 2017.
    """
    check.one_of(("affine", "spline"), scalar_map=scalar_map)
    mapped = AffineMap() if scalar_map == "affine" else _affine_spline(num_bins, bound)
    network = {"hidden": hidden, "activation": activation, "condition_dim": condition_dim}
    layer = partial(Coupling.create, dim, mapped, **network)
    return _flow(layer, _rolled(dim), key=key, blocks=blocks, base=base, actnorm=actnorm)


def iaf(
    dim: int,
    *,
    key: Key[Array, ""],
    blocks: int = 5,
    hidden: tuple[int, ...] = (100, 100),
    activation: Activation = "tanh",
    condition_dim: int = 0,
    base: AbstractBase | None = None,
    actnorm: bool = False,
) -> Flow:
    """An inverse autoregressive flow: the inverse of `maf`, for variational inference.

    A sample and its density take one pass, which is what a variational bound needs. The density of a
    record is computed coordinate by coordinate, in a direction in which taps are refused: use `maf` to
    train on records.

    The arguments, and what is raised, are those of `maf`.

    References:
        Kingma, Salimans, Jozefowicz, Chen, Sutskever, Welling, "Improved variational inference with
        inverse autoregressive flow", 2016.
    """
    flow = maf(
        dim,
        key=key,
        blocks=blocks,
        hidden=hidden,
        activation=activation,
        condition_dim=condition_dim,
        base=base,
        actnorm=actnorm,
    )
    return Flow(flow.base, Invert(flow.bijection))


def _flow(
    layer: Callable[..., AbstractBijection],
    order: Permutation,
    *,
    key: Key[Array, ""],
    blocks: int,
    base: AbstractBase | None,
    actnorm: bool,
) -> Flow:
    """Blocks of a layer, built from a key, a permutation and optionally an ActNorm, over a base."""
    check.count(blocks=blocks)
    # scales and their log-determinant are clipped as one; see PrivateLogDet
    norm = (PrivateLogDet.create(ActNorm.create(order.dim)),) if actnorm else ()
    scan = Scan.create(lambda key: Chain((*norm, order, layer(key=key))), blocks, key=key)
    return Flow(StandardNormal(order.dim) if base is None else base, scan)


def _affine_spline(num_bins: int, bound: float) -> Composed:
    """From data to base: into the box by an affine map, then through the spline."""
    return Composed((SplineMap(num_bins=num_bins, bound=bound), AffineMap()))


def _rolled(dim: int) -> Permutation:
    """The permutation that shifts the coordinates by about half of their number.

    With exact halves, each coordinate would only ever see those of the other half. An even number of
    more than two coordinates is shifted by one less, so that after some blocks all have met.
    """
    check.count(dim=dim)
    step = dim // 2 - (dim > 2 and dim % 2 == 0)
    return Permutation(np.roll(range(dim), step))
