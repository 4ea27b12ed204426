"""All measures of a synthetic table in one report, which is as private as the real rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.evaluation._cells import check_frames, numbers
from veilflow.evaluation.classifiers import ClassifierScores, compare_classifiers
from veilflow.evaluation.detection import detection_score
from veilflow.evaluation.rank_correlation import RankCorrelations, compare_rank_correlations
from veilflow.evaluation.regressors import RegressorScores, compare_regressors
from veilflow.evaluation.table_marginals import TableMarginals, compare_table_marginals
from veilflow.tabular.columns import Numeric
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ValueShare:
    """The share of rows with one exact value in a column. As private as the real rows.

    A model easily smears out a spike at zero.
    """

    real: float
    synthetic: float


@dataclass(frozen=True, kw_only=True)
class TableReport:
    """The quality of a synthetic table. As private as the real rows.

    Attributes:
        marginals: The total variation distance from the training rows.
        rank_correlations: Kendall's tau in the training rows and in the synthetic rows.
        classifiers: Scores on the test rows after training on synthetic rows; None without a label
            of classes.
        regressors: The same for a label that is a number or a moment; otherwise None.
        detection: The AUROC of trees that tell synthetic rows from test rows: 0.5 if they cannot.
        zeros: By numeric column, the share of exact zeros in the training rows and synthetic rows.
    """

    marginals: TableMarginals
    rank_correlations: RankCorrelations
    classifiers: ClassifierScores | None
    detection: float
    zeros: dict[str, ValueShare]
    regressors: RegressorScores | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "marginals": self.marginals.to_json(),
            "rank_correlations": self.rank_correlations.to_json(),
            "classifiers": None if self.classifiers is None else self.classifiers.to_json(),
            "regressors": None if self.regressors is None else self.regressors.to_json(),
            "detection": self.detection,
            "zeros": {name: asdict(share) for name, share in self.zeros.items()},
        }


def table_report(
    real_train: "pd.DataFrame",
    real_test: "pd.DataFrame",
    synthetic: "pd.DataFrame",
    schema: Schema,
    *,
    classifiers: Sequence[str] = (),
    binning: str = "equal",
    seed: int = 0,
) -> TableReport:
    """Compute every measure of a synthetic table. As private as the real rows.

    With `real_train` as `synthetic`, the report shows what real rows achieve; with `real_test`, the
    distance between two samples of the same distribution.

    Args:
        real_train: The rows to which the model was fitted.
        real_test: Rows that were held out.
        synthetic: Rows that the model sampled; as many as training rows, to make scores comparable.
        schema: The schema of all three tables.
        classifiers: Some of `CLASSIFIERS`; by default all nine.
        binning: The bins of numbers, as for `compare_table_marginals`.
        seed: The seed of all random choices.
    """
    scores = regressors = None
    if schema.label is not None and schema.columns[schema.label].has_position:
        regressors = compare_regressors(real_test, synthetic, schema, seed=seed)
    elif schema.label is not None:
        scores = compare_classifiers(
            real_test, synthetic, schema, classifiers=classifiers, seed=seed
        )
    return TableReport(
        regressors=regressors,
        marginals=compare_table_marginals(real_train, synthetic, schema, binning=binning),
        rank_correlations=compare_rank_correlations(real_train, synthetic, schema, seed=seed),
        classifiers=scores,
        detection=detection_score(real_test, synthetic, schema, seed=seed),
        zeros=compare_value_shares(real_train, synthetic, schema),
    )


def compare_value_shares(
    real: "pd.DataFrame", synthetic: "pd.DataFrame", schema: Schema, *, value: float = 0.0
) -> dict[str, ValueShare]:
    """The share of cells of each numeric column that are exactly `value`. As private as `real`.

    Missing cells count as cells with another value.

    Args:
        real: Real rows.
        synthetic: Rows that a model sampled.
        schema: The schema of both tables.
        value: The value to count.
    """
    check_frames(schema, real=real, synthetic=synthetic)
    shares = {}
    for name, column in schema.columns.items():
        if isinstance(column, Numeric):
            means = (np.mean(numbers(f, name, column) == value) for f in (real, synthetic))
            shares[name] = ValueShare(*map(float, means))
    return shares
