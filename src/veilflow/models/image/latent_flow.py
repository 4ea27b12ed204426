"""The density of codes: a RealNVP whose blocks are scanned."""

from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows import (
    AffineMap,
    Chain,
    Composed,
    Coupling,
    Flow,
    Permutation,
    Scan,
    SplineMap,
    StandardNormal,
)
from veilflow.flows.network import Activation


def latent_flow(
    dim: int,
    *,
    key: Key[Array, ""],
    blocks: int = 9,
    hidden: tuple[int, ...] = (200, 200),
    activation: Activation = "relu",
    scalar_map: str = "affine",
    num_bins: int = 8,
    bound: float = 4.0,
    log_scale_bound: float = 1.0,
    condition_dim: int = 0,
) -> Flow:
    """A coupling flow over codes, close to the identity.

    The published flow masks every other coordinate, the same ones in each block, and reorders them at
    random in between; its networks take all coordinates and set parameters for all, and the mask
    hides half of both. Here a network has only the inputs and outputs that count: in a private step
    the others would get noise and no gradient.

    Args:
        dim: How many numbers a code has.
        key: Spent here, for the weights.
        blocks: How many couplings; coordinates that pass in one are mapped in the next.
        hidden: Sizes of the hidden layers in each block's network.
        activation: "tanh" or "relu".
        scalar_map: "affine", or "spline" for an affine map and a spline.
        num_bins: How many bins a spline has.
        bound: Splines bend inside [-bound, bound].
        log_scale_bound: An affine map's log-scale stays within this of zero; 1 as published.
        condition_dim: How many numbers a condition has; 0 for a density without.

    Returns:
        The flow.

    Raises:
        ValueError: If a size is out of range or a word unknown.
    """
    check.count(dim=dim, blocks=blocks)
    check.one_of(("affine", "spline"), scalar_map=scalar_map)
    affine = AffineMap(log_scale_bound=log_scale_bound)
    chosen = affine
    if scalar_map == "spline":  # data to base: first into the box, then through the spline
        chosen = Composed((SplineMap(num_bins=num_bins, bound=bound), affine))

    def block(key: Key[Array, ""]) -> Chain:
        coupling = Coupling.create(
            dim,
            chosen,
            key=key,
            hidden=hidden,
            activation=activation,
            condition_dim=condition_dim,
        )
        return Chain((_moved_on(dim), coupling))

    return Flow(StandardNormal(dim), Scan.create(block, blocks, key=key))


def _moved_on(dim: int) -> Permutation:
    """Halves change places, less one coordinate where they are equal: so each meets all in time."""
    step = dim // 2 - (dim > 2 and dim % 2 == 0)
    return Permutation((i - step) % dim for i in range(dim))
