"""Invertible maps, one to a file."""

from veilflow.flows.bijections.actnorm import ActNorm as ActNorm
from veilflow.flows.bijections.affine import Affine as Affine
from veilflow.flows.bijections.autoregressive import Autoregressive as Autoregressive
from veilflow.flows.bijections.chain import Chain as Chain
from veilflow.flows.bijections.coupling import Coupling as Coupling
from veilflow.flows.bijections.elementwise import Elementwise as Elementwise
from veilflow.flows.bijections.fixed_linear import FixedLinear as FixedLinear
from veilflow.flows.bijections.invert import Invert as Invert
from veilflow.flows.bijections.low_rank import LowRank as LowRank
from veilflow.flows.bijections.lu import LU as LU
from veilflow.flows.bijections.permute import Permutation as Permutation
from veilflow.flows.bijections.permute import reverse as reverse
from veilflow.flows.bijections.piecewise import PiecewiseLinear as PiecewiseLinear
from veilflow.flows.bijections.planar import Planar as Planar
from veilflow.flows.bijections.private_log_det import PrivateLogDet as PrivateLogDet
from veilflow.flows.bijections.scan import Scan as Scan
from veilflow.flows.bijections.shared_blocks import SharedBlocks as SharedBlocks
from veilflow.flows.bijections.squash import Logit as Logit
from veilflow.flows.bijections.squash import Sigmoid as Sigmoid
from veilflow.flows.bijections.squash import Tanh as Tanh
from veilflow.flows.bijections.sylvester import Sylvester as Sylvester

__all__ = [
    "LU",
    "ActNorm",
    "Affine",
    "Autoregressive",
    "Chain",
    "Coupling",
    "Elementwise",
    "FixedLinear",
    "Invert",
    "Logit",
    "LowRank",
    "Permutation",
    "PiecewiseLinear",
    "Planar",
    "PrivateLogDet",
    "Scan",
    "SharedBlocks",
    "Sigmoid",
    "Sylvester",
    "Tanh",
    "reverse",
]
