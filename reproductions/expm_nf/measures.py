"""What tables show of a run: the name of each measure, which way is better, and where it stands."""

from reproductions.blocks import Measure, at

AUC = Measure("AUC", "higher", at("auc"), digits=4)
"""The median over seeds; of flows, over all draws."""
LOST = Measure("AUC lost to no privacy", "lower", at("auc"), digits=4)
"""The difference to the run without privacy on the same data."""
LOWEST = Measure("5 % of draws are below", "higher", at("lowest"), digits=3)
DISTANCE = Measure("total variation of marginals", "lower", at("distance"), digits=3)
DIVERGENCE = Measure("divergence in nats", "lower", at("divergence"), digits=4)
ESTIMATE = Measure("total variation by weights", "lower", at("estimate"), digits=3)
"""Estimated by importance weights, without the grid: what `vf.expm.diagnose` gives."""
PARETO_K = Measure("Pareto-k", "lower", at("pareto_k"), digits=2)
EFFECTIVE = Measure("effective share of draws", "higher", at("effective_share"), digits=3)
OBJECTIONS = Measure("objections of diagnostics", "higher", at("objections"), digits=0)
P_VALUE = Measure("p-value of the fit to the grid", "higher", at("p_value"), digits=3)
BOUND = Measure("epsilon is at least", "lower", at("lower_bound"), digits=2)
EXCESS = Measure("above the nominal epsilon by", "lower", at("excess"), digits=2)
NOISE = Measure("noise multiplier", "lower", at("noise"), digits=3)
ACCOUNTING = Measure("seconds to find the price", "lower", at("accounting"), digits=2)
FIRST = Measure("seconds of a first fit", "lower", at("first"), digits=2)
SECOND = Measure("seconds of a second fit", "lower", at("second"), digits=2)
