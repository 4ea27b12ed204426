"""DP-HFlow (Lee et al., 2022): the paper's four tables of mixed columns."""
