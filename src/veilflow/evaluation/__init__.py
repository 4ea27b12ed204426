"""How good a model is, measured on real rows; what comes from private rows is as private as they are.

Nothing in this folder is paid for: its results are for the curator, for public or generated data, or
for a mechanism to release.
"""

from veilflow.evaluation.classifiers import (
    CLASSIFIERS,
    ClassifierScores,
    Score,
    compare_classifiers,
)
from veilflow.evaluation.detection import detection_score
from veilflow.evaluation.rank_correlation import RankCorrelations, compare_rank_correlations
from veilflow.evaluation.roc import Roc, roc_curve
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
