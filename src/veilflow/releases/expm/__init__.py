"""Draws from the exponential mechanism: densities over parameters, and samplers of them."""
