"""Data to try things on: generators that need nothing, and real sets a user has at hand."""

from veilflow.datasets.real import available, load
from veilflow.datasets.toys import correlated, gaussians, moons, pinwheel

__all__ = ["available", "correlated", "gaussians", "load", "moons", "pinwheel"]
