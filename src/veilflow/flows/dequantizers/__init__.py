"""Distributions of the noise that makes numbers of codes, one to a file."""

from veilflow.flows.dequantizers.uniform import UniformDequantizer as UniformDequantizer
from veilflow.flows.dequantizers.variational import (
    VariationalDequantizer as VariationalDequantizer,
)

__all__ = ["UniformDequantizer", "VariationalDequantizer"]
