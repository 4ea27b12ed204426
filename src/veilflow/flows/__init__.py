"""Densities: bijections, base distributions, and flows made of the two. Nothing here is private."""

from veilflow.flows.architectures import maf as maf
from veilflow.flows.base import AbstractBase as AbstractBase
from veilflow.flows.bases import StandardNormal as StandardNormal
from veilflow.flows.bijection import AbstractBijection as AbstractBijection
from veilflow.flows.bijections import ActNorm as ActNorm
from veilflow.flows.bijections import Affine as Affine
from veilflow.flows.bijections import Autoregressive as Autoregressive
from veilflow.flows.bijections import Chain as Chain
from veilflow.flows.bijections import Invert as Invert
from veilflow.flows.bijections import Permutation as Permutation
from veilflow.flows.bijections import Scan as Scan
from veilflow.flows.bijections import reverse as reverse
from veilflow.flows.conditioner import MaskedMLP as MaskedMLP
from veilflow.flows.flow import Flow as Flow
from veilflow.flows.scalar_map import AbstractScalarMap as AbstractScalarMap
from veilflow.flows.scalar_maps import AffineMap as AffineMap

__all__ = [
    "AbstractBase",
    "AbstractBijection",
    "AbstractScalarMap",
    "ActNorm",
    "Affine",
    "AffineMap",
    "Autoregressive",
    "Chain",
    "Flow",
    "Invert",
    "MaskedMLP",
    "Permutation",
    "Scan",
    "StandardNormal",
    "maf",
    "reverse",
]
