"""Increasing maps of one number, one family to a file."""

from veilflow.flows.scalar_maps.affine import AffineMap as AffineMap
from veilflow.flows.scalar_maps.composed import Composed as Composed
from veilflow.flows.scalar_maps.logistic_mixture import LogisticMixtureMap as LogisticMixtureMap
from veilflow.flows.scalar_maps.spline import SplineMap as SplineMap

__all__ = ["AffineMap", "Composed", "LogisticMixtureMap", "SplineMap"]
