"""A private model of a table of codes, from noisy marginals of a few columns at a time."""

from veilflow.releases.marginals.fit import private_marginal_model
from veilflow.releases.marginals.model import MarginalModel
from veilflow.releases.marginals.plan import MarginalPlan

__all__ = ["MarginalModel", "MarginalPlan", "private_marginal_model"]
