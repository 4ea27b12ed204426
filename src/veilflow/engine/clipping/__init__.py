"""Clipping objects: how the gradients of records become one bounded sum."""

from veilflow.engine.clipping.adaptive import AdaptiveQuantile as AdaptiveQuantile
from veilflow.engine.clipping.by_group import PerGroup as PerGroup
from veilflow.engine.clipping.by_layer import PerLayer as PerLayer
from veilflow.engine.clipping.by_layer import PerUnit as PerUnit
from veilflow.engine.clipping.clipping import AbstractClipping as AbstractClipping
from veilflow.engine.clipping.flat import Automatic as Automatic
from veilflow.engine.clipping.flat import Flat as Flat
from veilflow.engine.clipping.sparsified import Sparsified as Sparsified

__all__ = [
    "AbstractClipping",
    "AdaptiveQuantile",
    "Automatic",
    "Flat",
    "PerGroup",
    "PerLayer",
    "PerUnit",
    "Sparsified",
]
