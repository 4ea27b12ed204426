"""Flows ready to train."""

from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows.bases.normal import StandardNormal
from veilflow.flows.bijections.actnorm import ActNorm
from veilflow.flows.bijections.autoregressive import Autoregressive
from veilflow.flows.bijections.chain import Chain
from veilflow.flows.bijections.permute import reverse
from veilflow.flows.bijections.scan import Scan
from veilflow.flows.conditioner import Activation, MaskedMLP
from veilflow.flows.flow import Flow
from veilflow.flows.scalar_maps.affine import AffineMap


def maf(
    dim: int,
    *,
    key: Key[Array, ""],
    blocks: int = 5,
    hidden: tuple[int, ...] = (100, 100),
    activation: Activation = "tanh",
    actnorm: bool = False,
) -> Flow:
    """A masked autoregressive flow over a standard normal, close to the identity.

    From data to base each block is an affine autoregressive map, a reversal of the coordinates and,
    if asked for, an ActNorm. All blocks share one trace: compile time does not grow with them.

    Args:
        dim: How many numbers an example has.
        key: Spent here, for the weights.
        blocks: How many blocks.
        hidden: Sizes of the hidden layers in each block's masked network.
        activation: "tanh" or "relu".
        actnorm: Whether each block ends with a trained scale and shift of every coordinate.

    Returns:
        The flow.

    Raises:
        ValueError: If a size is below 1 or the activation is unknown.

    Example:
        >>> import jax
        >>> flow = maf(2, key=jax.random.key(0))
        >>> flow.log_prob(jax.numpy.zeros(2)).shape
        ()

    References:
        Papamakarios, Pavlakou, Murray, "Masked autoregressive flow for density estimation", 2017.
    """
    check.count(dim=dim, blocks=blocks)

    def block(key: Key[Array, ""]) -> Chain:
        network = MaskedMLP.create(dim, 2, key=key, hidden=hidden, activation=activation)
        norm = (ActNorm.create(dim),) if actnorm else ()
        return Chain((*norm, reverse(dim), Autoregressive(network, AffineMap())))

    return Flow(StandardNormal(dim), Scan.create(block, blocks, key=key))
