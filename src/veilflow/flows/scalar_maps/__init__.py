"""Increasing maps of one number, set by a few parameters."""
