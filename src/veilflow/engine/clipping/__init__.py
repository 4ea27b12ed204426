"""Clipping: from the gradients of records to one sum of bounded sensitivity."""

from veilflow.engine.clipping.by_part import PerGroup as PerGroup
from veilflow.engine.clipping.by_part import PerLayer as PerLayer
from veilflow.engine.clipping.by_part import PerUnit as PerUnit
from veilflow.engine.clipping.by_part import Sparsified as Sparsified
from veilflow.engine.clipping.clipping import AbstractClipping as AbstractClipping
from veilflow.engine.clipping.whole import AdaptiveQuantile as AdaptiveQuantile
from veilflow.engine.clipping.whole import Automatic as Automatic
from veilflow.engine.clipping.whole import Flat as Flat

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
