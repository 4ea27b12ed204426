"""Densities: bijections, base distributions, and flows made of the two. Nothing here is private."""

from veilflow.flows.architectures import iaf, maf, nsf, realnvp
from veilflow.flows.bases.histogram import Histogram
from veilflow.flows.bases.mixtures import Blend, GaussianMixture
from veilflow.flows.bases.shaped import ShapedMixture
from veilflow.flows.bases.simple import (
    AbstractBase,
    Logistic,
    ScaledNormal,
    StandardNormal,
    StudentT,
    Uniform,
    UniformBall,
)
from veilflow.flows.bijection import AbstractBijection
from veilflow.flows.bijections.autoregressive import Autoregressive, SharedBlocks
from veilflow.flows.bijections.composition import Chain, Invert, Scan
from veilflow.flows.bijections.coupling import Coupling
from veilflow.flows.bijections.elementwise import Elementwise, Logit, Sigmoid, Tanh
from veilflow.flows.bijections.fixed import (
    Affine,
    FixedLinear,
    Permutation,
    PiecewiseLinear,
    reverse,
)
from veilflow.flows.bijections.linear import LU, ActNorm, LowRank
from veilflow.flows.bijections.parameters import PrivateLogDet
from veilflow.flows.bijections.planar import Planar
from veilflow.flows.bijections.radial import Radial
from veilflow.flows.bijections.sylvester import Sylvester
from veilflow.flows.conditioner import MaskedMLP
from veilflow.flows.dequantizers import (
    AbstractDequantizer,
    UniformDequantizer,
    VariationalDequantizer,
)
from veilflow.flows.flow import Flow
from veilflow.flows.hflow import HFlow
from veilflow.flows.network import MLP
from veilflow.flows.scalar_maps.logistic_mixture import LogisticMixtureMap
from veilflow.flows.scalar_maps.simple import AbstractScalarMap, AffineMap, Composed
from veilflow.flows.scalar_maps.spline import SplineMap
from veilflow.flows.variables import Continuous, Listed, Variables

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
    "Logistic",
    "LogisticMixtureMap",
    "Logit",
    "LowRank",
    "MaskedMLP",
    "Permutation",
    "PiecewiseLinear",
    "Planar",
    "PrivateLogDet",
    "Radial",
    "ScaledNormal",
    "Scan",
    "ShapedMixture",
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
