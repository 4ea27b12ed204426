"""Layers that compute the gradient of every single record."""

from veilflow.nn.conv import Conv2d as Conv2d
from veilflow.nn.conv_transpose import ConvTranspose2d as ConvTranspose2d
from veilflow.nn.dense import Dense as Dense
from veilflow.nn.elementwise import Scale as Scale
from veilflow.nn.elementwise import Shift as Shift
from veilflow.nn.linear_maps import LowRankLinear as LowRankLinear
from veilflow.nn.linear_maps import LULinear as LULinear
from veilflow.nn.masked import MaskedDense as MaskedDense
from veilflow.nn.tap import AbstractLayer as AbstractLayer
from veilflow.nn.tap import Tap as Tap
from veilflow.nn.uses import Reused as Reused

__all__ = [
    "AbstractLayer",
    "Conv2d",
    "ConvTranspose2d",
    "Dense",
    "LULinear",
    "LowRankLinear",
    "MaskedDense",
    "Reused",
    "Scale",
    "Shift",
    "Tap",
]
