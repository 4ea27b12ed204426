"""Invertible maps, one to a file."""

from veilflow.flows.bijections.actnorm import ActNorm as ActNorm
from veilflow.flows.bijections.affine import Affine as Affine
from veilflow.flows.bijections.autoregressive import Autoregressive as Autoregressive
from veilflow.flows.bijections.chain import Chain as Chain
from veilflow.flows.bijections.invert import Invert as Invert
from veilflow.flows.bijections.permute import Permutation as Permutation
from veilflow.flows.bijections.permute import reverse as reverse
from veilflow.flows.bijections.scan import Scan as Scan

__all__ = [
    "ActNorm",
    "Affine",
    "Autoregressive",
    "Chain",
    "Invert",
    "Permutation",
    "Scan",
    "reverse",
]
