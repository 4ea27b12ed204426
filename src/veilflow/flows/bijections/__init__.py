"""Invertible maps."""
