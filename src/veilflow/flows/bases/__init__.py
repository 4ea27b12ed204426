"""Base distributions, one to a file."""

from veilflow.flows.bases.normal import StandardNormal as StandardNormal

__all__ = ["StandardNormal"]
