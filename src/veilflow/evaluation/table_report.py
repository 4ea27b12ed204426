"""All measures of a synthetic table in one report; as private as the real rows it was made with."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.evaluation._cells import check_frames, numbers
from veilflow.evaluation.classifiers import ClassifierScores, compare_classifiers
from veilflow.evaluation.detection import detection_score
from veilflow.evaluation.rank_correlation import RankCorrelations, compare_rank_correlations
from veilflow.evaluation.table_marginals import TableMarginals, compare_table_marginals
from veilflow.tabular.columns import Numeric
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ValueShare:
    """Which part of the rows has one exact value in a column. As private as the real rows.

    A spike at zero is easily smeared out by a model.
    """

    real: float
    synthetic: float


@dataclass(frozen=True, kw_only=True)
class TableReport:
    """What a synthetic table is worth. As private as the real rows.

    Attributes:
        marginals: Total variation from the training rows, of columns and of pairs.
        rank_correlations: Kendall's tau beside that of the training rows.
        classifiers: Trained on synthetic rows, tested on the test rows; None without a label.
        detection: How well trees tell synthetic rows from test rows: 0.5 if they cannot.
        zeros: By numeric column, the share of exact zeros, beside that of the training rows.
    """

    marginals: TableMarginals
    rank_correlations: RankCorrelations
    classifiers: ClassifierScores | None
    detection: float
    zeros: dict[str, ValueShare]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "marginals": self.marginals.to_json(),
            "rank_correlations": self.rank_correlations.to_json(),
            "classifiers": None if self.classifiers is None else self.classifiers.to_json(),
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
    seed: int = 0,
) -> TableReport:
    """Measure a synthetic table in every way there is. As private as the real rows.

    With `real_train` as `synthetic` it tells what real rows reach; with `real_test`, how far two
    draws of the same kind are apart.

    Args:
        real_train: The rows the model was fitted to.
        real_test: Rows held out.
        synthetic: Rows the model made, as many as training rows if scores are to be compared.
        schema: Of all three.
        classifiers: Which of `CLASSIFIERS`; all nine where not given.
        seed: Of all that is drawn.
    """
    scores = None
    if schema.label is not None:
        scores = compare_classifiers(
            real_test, synthetic, schema, classifiers=classifiers, seed=seed
        )
    return TableReport(
        marginals=compare_table_marginals(real_train, synthetic, schema),
        rank_correlations=compare_rank_correlations(real_train, synthetic, schema, seed=seed),
        classifiers=scores,
        detection=detection_score(real_test, synthetic, schema, seed=seed),
        zeros=compare_value_shares(real_train, synthetic, schema),
    )


def compare_value_shares(
    real: "pd.DataFrame", synthetic: "pd.DataFrame", schema: Schema, *, value: float = 0.0
) -> dict[str, ValueShare]:
    """The share of cells that are exactly `value`, of every numeric column. As private as `real`.

    Missing cells are among all cells, and are no value.

    Args:
        real: Real rows.
        synthetic: Rows a model made.
        schema: Of both.
        value: The value to look for.
    """
    check_frames(schema, real=real, synthetic=synthetic)
    shares = {}
    for name, column in schema.columns.items():
        if isinstance(column, Numeric):
            found = [np.mean(numbers(f, name, column) == value) for f in (real, synthetic)]
            shares[name] = ValueShare(real=float(found[0]), synthetic=float(found[1]))
    return shares
