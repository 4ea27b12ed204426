"""Base distributions, one to a file."""

from veilflow.flows.bases.ball import UniformBall as UniformBall
from veilflow.flows.bases.blend import Blend as Blend
from veilflow.flows.bases.histogram import Histogram as Histogram
from veilflow.flows.bases.mixture import GaussianMixture as GaussianMixture
from veilflow.flows.bases.normal import ScaledNormal as ScaledNormal
from veilflow.flows.bases.normal import StandardNormal as StandardNormal
from veilflow.flows.bases.student_t import StudentT as StudentT
from veilflow.flows.bases.uniform import Uniform as Uniform

__all__ = [
    "Blend",
    "GaussianMixture",
    "Histogram",
    "ScaledNormal",
    "StandardNormal",
    "StudentT",
    "Uniform",
    "UniformBall",
]
