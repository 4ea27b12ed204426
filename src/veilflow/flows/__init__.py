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
from veilflow.flows.bases import UniformBall as UniformBall
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
from veilflow.flows.bijections import PrivateLogDet as PrivateLogDet
from veilflow.flows.bijections import Scan as Scan
from veilflow.flows.bijections import SharedBlocks as SharedBlocks
from veilflow.flows.bijections import Sigmoid as Sigmoid
from veilflow.flows.bijections import Sylvester as Sylvester
from veilflow.flows.bijections import Tanh as Tanh
from veilflow.flows.bijections import reverse as reverse
from veilflow.flows.conditioner import MaskedMLP as MaskedMLP
from veilflow.flows.dequantizer import AbstractDequantizer as AbstractDequantizer
from veilflow.flows.dequantizers import UniformDequantizer as UniformDequantizer
from veilflow.flows.dequantizers import VariationalDequantizer as VariationalDequantizer
from veilflow.flows.flow import Flow as Flow
from veilflow.flows.hflow import HFlow as HFlow
from veilflow.flows.network import MLP as MLP
from veilflow.flows.scalar_map import AbstractScalarMap as AbstractScalarMap
from veilflow.flows.scalar_maps import AffineMap as AffineMap
from veilflow.flows.scalar_maps import Composed as Composed
from veilflow.flows.scalar_maps import LogisticMixtureMap as LogisticMixtureMap
from veilflow.flows.scalar_maps import SplineMap as SplineMap
from veilflow.flows.variables import Continuous as Continuous
from veilflow.flows.variables import Listed as Listed
from veilflow.flows.variables import Variables as Variables

__all__ = [
    "LU",
    "MLP",
    "AbstractBase",
    "AbstractBijection",
    "AbstractDequantizer",
    "AbstractScalarMap",
    "ActNorm",
    "Affine",
    "AffineMap",
    "Autoregressive",
    "Blend",
    "Chain",
    "Composed",
    "Continuous",
    "Coupling",
    "Elementwise",
    "FixedLinear",
    "Flow",
    "GaussianMixture",
    "HFlow",
    "Histogram",
    "Invert",
    "Listed",
    "LogisticMixtureMap",
    "Logit",
    "LowRank",
    "MaskedMLP",
    "Permutation",
    "PiecewiseLinear",
    "Planar",
    "PrivateLogDet",
    "ScaledNormal",
    "Scan",
    "SharedBlocks",
    "Sigmoid",
    "SplineMap",
    "StandardNormal",
    "StudentT",
    "Sylvester",
    "Tanh",
    "Uniform",
    "UniformBall",
    "UniformDequantizer",
    "Variables",
    "VariationalDequantizer",
    "iaf",
    "maf",
    "nsf",
    "realnvp",
    "reverse",
]
