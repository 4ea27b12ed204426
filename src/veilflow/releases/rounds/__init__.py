"""Rounds of gradients and curvatures: where a posterior lies, and how wide it is."""
