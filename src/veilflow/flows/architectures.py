"""Flows ready to train: blocks of one kind over a base, all close to the identity.

From data to base each block is a map with a network, a fixed reordering of the coordinates and, if
asked for, an ActNorm. All blocks share one trace: compile time does not grow with them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows.base import AbstractBase
from veilflow.flows.bases.normal import StandardNormal
from veilflow.flows.bijection import AbstractBijection
from veilflow.flows.bijections.actnorm import ActNorm
from veilflow.flows.bijections.autoregressive import Autoregressive
from veilflow.flows.bijections.chain import Chain
from veilflow.flows.bijections.coupling import Coupling
from veilflow.flows.bijections.invert import Invert
from veilflow.flows.bijections.permute import Permutation, reverse
from veilflow.flows.bijections.scan import Scan
from veilflow.flows.conditioner import MaskedMLP
from veilflow.flows.flow import Flow
from veilflow.flows.network import Activation
from veilflow.flows.scalar_map import AbstractScalarMap
from veilflow.flows.scalar_maps.affine import AffineMap
from veilflow.flows.scalar_maps.composed import Composed
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
        dim: How many numbers an example has.
        key: Spent here, for the weights.
        blocks: How many blocks.
        hidden: Sizes of the hidden layers in each block's masked network.
        activation: "tanh" or "relu".
        condition_dim: How many numbers a condition has; 0 for a density without.
        base: The base distribution, of `dim` numbers; None for the standard normal.
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
    layer = partial(
        _autoregressive,
        dim,
        AffineMap(),
        hidden=hidden,
        activation=activation,
        condition_dim=condition_dim,
    )
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

    A spline leaves what is outside its box alone. So in each block an affine map, set by the same
    network, first brings the data into the box.

    Args:
        dim: How many numbers an example has.
        key: Spent here, for the weights.
        blocks: How many blocks.
        hidden: Sizes of the hidden layers in each block's masked network.
        activation: "tanh" or "relu".
        num_bins: How many bins a spline has.
        bound: Splines bend inside [-bound, bound].
        condition_dim: How many numbers a condition has; 0 for a density without.
        base: The base distribution, of `dim` numbers; None for the standard normal.
        actnorm: Whether each block ends with a trained scale and shift of every coordinate.

    Returns:
        The flow.

    Raises:
        ValueError: If a size is out of range, the activation unknown, or the base of another size.

    References:
        Durkan, Bekasov, Murray, Papamakarios, "Neural spline flows", 2019.
    """
    layer = partial(
        _autoregressive,
        dim,
        _affine_spline(num_bins, bound),
        hidden=hidden,
        activation=activation,
        condition_dim=condition_dim,
    )
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

    Args:
        dim: How many numbers an example has.
        key: Spent here, for the weights.
        blocks: How many blocks; each maps half of the coordinates, so it takes more of them than in
            an autoregressive flow.
        hidden: Sizes of the hidden layers in each block's network.
        activation: "tanh" or "relu".
        scalar_map: "affine", or "spline" for an affine map and a spline, as in `nsf`.
        num_bins: How many bins a spline has.
        bound: Splines bend inside [-bound, bound].
        condition_dim: How many numbers a condition has; 0 for a density without.
        base: The base distribution, of `dim` numbers; None for the standard normal.
        actnorm: Whether each block ends with a trained scale and shift of every coordinate.

    Returns:
        The flow.

    Raises:
        ValueError: If a size is out of range, a word unknown, or the base of another size.

    References:
        Dinh, Sohl-Dickstein, Bengio, "Density estimation using Real NVP", 2017.
    """
    check.one_of(("affine", "spline"), scalar_map=scalar_map)
    chosen = AffineMap() if scalar_map == "affine" else _affine_spline(num_bins, bound)
    layer = partial(
        Coupling.create,
        dim,
        chosen,
        hidden=hidden,
        activation=activation,
        condition_dim=condition_dim,
    )
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
    """An inverse autoregressive flow: `maf` turned around, for variational inference.

    A sample and its own density are one pass, which is what a variational bound needs. The density of
    a record goes coordinate by coordinate, in a direction in which taps are refused: to train on
    records take `maf`.

    Args:
        dim: How many numbers an example has.
        key: Spent here, for the weights.
        blocks: How many blocks.
        hidden: Sizes of the hidden layers in each block's masked network.
        activation: "tanh" or "relu".
        condition_dim: How many numbers a condition has; 0 for a density without.
        base: The base distribution, of `dim` numbers; None for the standard normal.
        actnorm: Whether each block has a trained scale and shift of every coordinate.

    Returns:
        The flow.

    Raises:
        ValueError: If a size is out of range, the activation unknown, or the base of another size.

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
    """Blocks of a layer, built from a key, a reordering and perhaps an ActNorm over a base."""
    check.count(blocks=blocks)
    norm = (ActNorm.create(order.dim),) if actnorm else ()
    scan = Scan.create(lambda key: Chain((*norm, order, layer(key=key))), blocks, key=key)
    return Flow(StandardNormal(order.dim) if base is None else base, scan)


def _autoregressive(
    dim: int, scalar_map: AbstractScalarMap, *, key: Key[Array, ""], **network: Any
) -> Autoregressive:
    """An autoregressive map with a masked network."""
    return Autoregressive(
        MaskedMLP.create(dim, scalar_map.num_params, key=key, **network), scalar_map
    )


def _affine_spline(num_bins: int, bound: float) -> Composed:
    """Data to base: first into the box, then through the spline."""
    return Composed((SplineMap(num_bins=num_bins, bound=bound), AffineMap()))


def _rolled(dim: int) -> Permutation:
    """Coordinates moved on by about a half.

    Exact halves would swap for ever, each coordinate seeing only those of the other half. In an even
    number of more than two they move one less, so that in time all meet.
    """
    check.count(dim=dim)
    step = dim // 2 - (dim > 2 and dim % 2 == 0)
    return Permutation(np.roll(range(dim), step))
