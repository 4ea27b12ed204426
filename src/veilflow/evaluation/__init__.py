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
from veilflow.evaluation.number_summaries import NumberSummary, compare_numbers
from veilflow.evaluation.rank_correlation import RankCorrelations, compare_rank_correlations
from veilflow.evaluation.regressors import (
    REGRESSORS,
    RegressorScore,
    RegressorScores,
    compare_regressors,
)
from veilflow.evaluation.structure import find_structure, share_kept
from veilflow.evaluation.table_marginals import TableMarginals, compare_table_marginals
from veilflow.evaluation.table_report import (
    TableReport,
    ValueShare,
    compare_value_shares,
    table_report,
)

__all__ = [
    "CLASSIFIERS",
    "REGRESSORS",
    "ClassifierScores",
    "NumberSummary",
    "RankCorrelations",
    "RegressorScore",
    "RegressorScores",
    "Roc",
    "Score",
    "TableMarginals",
    "TableReport",
    "ValueShare",
    "compare_classifiers",
    "compare_numbers",
    "compare_rank_correlations",
    "compare_regressors",
    "compare_table_marginals",
    "compare_value_shares",
    "detection_score",
    "find_structure",
    "roc_curve",
    "share_kept",
    "table_report",
]
