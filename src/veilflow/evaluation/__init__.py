"""The quality of a model, measured on real rows; results from private rows are as private as they are.

Nothing in this folder is paid for. Its results are for the curator, for public or generated data, or
for a mechanism to release.
"""

from veilflow.evaluation.classifiers import (
    CLASSIFIERS,
    ClassifierScores,
    Score,
    compare_classifiers,
)
from veilflow.evaluation.detection import Roc, detection_score, roc_curve
from veilflow.evaluation.rank_correlation import RankCorrelations, compare_rank_correlations
from veilflow.evaluation.table_marginals import TableMarginals, compare_table_marginals
from veilflow.evaluation.table_report import (
    TableReport,
    ValueShare,
    compare_value_shares,
    table_report,
)

__all__ = [
    "CLASSIFIERS",
    "ClassifierScores",
    "RankCorrelations",
    "Roc",
    "Score",
    "TableMarginals",
    "TableReport",
    "ValueShare",
    "compare_classifiers",
    "compare_rank_correlations",
    "compare_table_marginals",
    "compare_value_shares",
    "detection_score",
    "roc_curve",
    "table_report",
]
