"""Increasing maps of one number, one family to a file."""

from veilflow.flows.scalar_maps.affine import AffineMap as AffineMap

__all__ = ["AffineMap"]
