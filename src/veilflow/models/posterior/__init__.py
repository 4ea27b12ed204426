"""DP-NF-VI: posteriors of a scientific model, learned from private records."""
