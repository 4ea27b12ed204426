"""ExpM+NF: training by the exponential mechanism, with and without the assumption."""
