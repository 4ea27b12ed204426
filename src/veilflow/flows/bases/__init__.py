"""Base distributions."""
