"""How good a model is, measured on real rows; what comes from private rows is as private as they are.

Nothing in this folder is paid for: its results are for the curator, for public or generated data, or
for a mechanism to release. Figures show histograms and densities, never single rows.
"""

from veilflow.evaluation.classifiers import (
    CLASSIFIERS,
    ClassifierScores,
    Score,
    compare_classifiers,
)
from veilflow.evaluation.detection import detection_score
from veilflow.evaluation.figures import Line, density_grid, draw_lines, draw_panels
from veilflow.evaluation.images import (
    IMAGE_CLASSIFIERS,
    IMAGE_EPOCHS,
    IMAGE_MEASURES,
    ImageClassifierScores,
    ImageFidelity,
    OodAuroc,
    PrecisionRecall,
    compare_image_classifiers,
    compare_images,
    frechet_distance,
    inception_features,
    ood_auroc,
    precision_recall,
    small_features,
)
from veilflow.evaluation.log_likelihood import LogLikelihood, mean_log_likelihood
from veilflow.evaluation.marginals import Marginal, compare_marginals, draw_marginals
from veilflow.evaluation.projection import Projection, principal_axes
from veilflow.evaluation.rank_correlation import RankCorrelations, compare_rank_correlations
from veilflow.evaluation.regression import KnnRegression, knn_mse, knn_regression
from veilflow.evaluation.roc import Roc, anomalies, draw_roc, roc_curve
from veilflow.evaluation.table_marginals import TableMarginals, compare_table_marginals
from veilflow.evaluation.table_report import TableReport, table_report
from veilflow.evaluation.value_shares import ValueShare, compare_value_shares

__all__ = [
    "CLASSIFIERS",
    "IMAGE_CLASSIFIERS",
    "IMAGE_EPOCHS",
    "IMAGE_MEASURES",
    "ClassifierScores",
    "ImageClassifierScores",
    "ImageFidelity",
    "KnnRegression",
    "Line",
    "LogLikelihood",
    "Marginal",
    "OodAuroc",
    "PrecisionRecall",
    "Projection",
    "RankCorrelations",
    "Roc",
    "Score",
    "TableMarginals",
    "TableReport",
    "ValueShare",
    "anomalies",
    "compare_classifiers",
    "compare_image_classifiers",
    "compare_images",
    "compare_marginals",
    "compare_rank_correlations",
    "compare_table_marginals",
    "compare_value_shares",
    "density_grid",
    "detection_score",
    "draw_lines",
    "draw_marginals",
    "draw_panels",
    "draw_roc",
    "frechet_distance",
    "inception_features",
    "knn_mse",
    "knn_regression",
    "mean_log_likelihood",
    "ood_auroc",
    "precision_recall",
    "principal_axes",
    "roc_curve",
    "small_features",
    "table_report",
]
