"""How good a model is, measured on real rows; what comes from private rows is as private as they are.

Nothing in this folder is paid for: its results are for the curator, for public or generated data, or
for a mechanism to release. Figures show histograms and densities, never single rows.
"""

from veilflow.evaluation.figures import Line, density_grid, draw_lines, draw_panels
from veilflow.evaluation.log_likelihood import LogLikelihood, mean_log_likelihood
from veilflow.evaluation.marginals import Marginal, compare_marginals, draw_marginals
from veilflow.evaluation.projection import Projection, principal_axes
from veilflow.evaluation.regression import KnnRegression, knn_mse, knn_regression
from veilflow.evaluation.roc import Roc, anomalies, draw_roc, roc_curve

__all__ = [
    "KnnRegression",
    "Line",
    "LogLikelihood",
    "Marginal",
    "Projection",
    "Roc",
    "anomalies",
    "compare_marginals",
    "density_grid",
    "draw_lines",
    "draw_marginals",
    "draw_panels",
    "draw_roc",
    "knn_mse",
    "knn_regression",
    "mean_log_likelihood",
    "principal_axes",
    "roc_curve",
]
