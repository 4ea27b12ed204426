"""Densities: bijections, base distributions, and flows made of the two. Nothing here is private."""

from veilflow.flows.architectures import iaf as iaf
from veilflow.flows.architectures import maf as maf
from veilflow.flows.architectures import nsf as nsf
from veilflow.flows.architectures import realnvp as realnvp
from veilflow.flows.base import AbstractBase as AbstractBase
from veilflow.flows.bases import Blend as Blend
from veilflow.flows.bases import GaussianMixture as GaussianMixture
from veilflow.flows.bases import Histogram as Histogram
from veilflow.flows.bases import ScaledNormal as ScaledNormal
from veilflow.flows.bases import StandardNormal as StandardNormal
from veilflow.flows.bases import StudentT as StudentT
from veilflow.flows.bases import Uniform as Uniform
from veilflow.flows.bijection import AbstractBijection as AbstractBijection
from veilflow.flows.bijections import LU as LU
from veilflow.flows.bijections import ActNorm as ActNorm
from veilflow.flows.bijections import Affine as Affine
from veilflow.flows.bijections import Autoregressive as Autoregressive
from veilflow.flows.bijections import Chain as Chain
from veilflow.flows.bijections import Coupling as Coupling
from veilflow.flows.bijections import Elementwise as Elementwise
from veilflow.flows.bijections import FixedLinear as FixedLinear
from veilflow.flows.bijections import Invert as Invert
from veilflow.flows.bijections import Logit as Logit
from veilflow.flows.bijections import LowRank as LowRank
from veilflow.flows.bijections import Permutation as Permutation
from veilflow.flows.bijections import PiecewiseLinear as PiecewiseLinear
from veilflow.flows.bijections import Planar as Planar
from veilflow.flows.bijections import Scan as Scan
from veilflow.flows.bijections import Sigmoid as Sigmoid
from veilflow.flows.bijections import Sylvester as Sylvester
from veilflow.flows.bijections import Tanh as Tanh
from veilflow.flows.bijections import reverse as reverse
from veilflow.flows.conditioner import MaskedMLP as MaskedMLP
from veilflow.flows.flow import Flow as Flow
from veilflow.flows.network import MLP as MLP
from veilflow.flows.scalar_map import AbstractScalarMap as AbstractScalarMap
from veilflow.flows.scalar_maps import AffineMap as AffineMap
from veilflow.flows.scalar_maps import Composed as Composed
from veilflow.flows.scalar_maps import LogisticMixtureMap as LogisticMixtureMap
from veilflow.flows.scalar_maps import SplineMap as SplineMap

__all__ = [
    "LU",
    "MLP",
    "AbstractBase",
    "AbstractBijection",
    "AbstractScalarMap",
    "ActNorm",
    "Affine",
    "AffineMap",
    "Autoregressive",
    "Blend",
    "Chain",
    "Composed",
    "Coupling",
    "Elementwise",
    "FixedLinear",
    "Flow",
    "GaussianMixture",
    "Histogram",
    "Invert",
    "LogisticMixtureMap",
    "Logit",
    "LowRank",
    "MaskedMLP",
    "Permutation",
    "PiecewiseLinear",
    "Planar",
    "ScaledNormal",
    "Scan",
    "Sigmoid",
    "SplineMap",
    "StandardNormal",
    "StudentT",
    "Sylvester",
    "Tanh",
    "Uniform",
    "iaf",
    "maf",
    "nsf",
    "realnvp",
    "reverse",
]
