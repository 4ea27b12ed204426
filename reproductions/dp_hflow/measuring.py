"""All that is measured of synthetic rows, by the protocol that also measured the peers.

What is measured here is about public benchmarks. On private rows every number below would be as
private as the rows.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from reproductions.dp_hflow.data import Data
from reproductions.metrics.marginals import compare_marginals
from veilflow import evaluation

if TYPE_CHECKING:
    import pandas as pd

CLASSIFIER_ROWS, MOST_ROWS = {"covertype": 50_000}, 200_000
"""At most so many rows for classifiers to learn from and to be tested on, by data set and elsewhere."""

SHOWN = {
    "adult": ("education", "marital_status", "occupation"),
    "covertype": ("Elevation", "Aspect", "Horizontal_Distance_To_Roadways"),
}
"""Columns in Figure 3. Of the paper's only Aspect is known by name."""
_BINS = 60


def measure(name: str, found: Data, synthetic: "pd.DataFrame", *, seed: int) -> dict[str, Any]:
    """Scores of nine classifiers, a discriminator's score, and distances, as plain JSON.

    Args:
        name: Name of the data set.
        found: Its rows.
        synthetic: Rows a model made, as many as training rows; or those, for the reference.
        seed: Seed of the classifiers, and of the draw of rows where there are too many.
    """
    train, test, schema = found
    most = CLASSIFIER_ROWS.get(name, MOST_ROWS)
    scores = evaluation.compare_classifiers(test, synthetic, schema, max_rows=most, seed=seed)
    return {
        "classifiers": scores.to_json(),
        "detection": evaluation.detection_score(test, synthetic, schema, seed=seed),
        **distances(train, synthetic, found, seed=seed),
    }


def distances(
    train: "pd.DataFrame", other: "pd.DataFrame", found: Data, *, seed: int
) -> dict[str, Any]:
    """How far rows are from the training rows: marginals, rank correlations, exact zeros."""
    marginals = evaluation.compare_table_marginals(train, other, found.schema).to_json()
    tau = evaluation.compare_rank_correlations(train, other, found.schema, seed=seed)
    zeros = evaluation.compare_value_shares(train, other, found.schema)
    return {
        "marginals": {k: v for k, v in marginals.items() if k != "two_way"},  # hundreds of pairs
        "rank_correlations": tau.to_json(),
        "zeros": {column: asdict(share) for column, share in zeros.items()},
    }


def histograms(name: str, found: Data, synthetic: "pd.DataFrame") -> dict[str, np.ndarray]:
    """Edges, real and synthetic shares of the columns that Figure 3 shows; of other sets, none."""
    arrays = {}
    for column in SHOWN.get(name, ()):
        real, made, bins, bounds = _cells(found, synthetic, column)
        (marginal,) = compare_marginals(real, made, bins=bins, bounds=bounds)
        for part in ("edges", "real", "synthetic"):
            arrays[f"{column}_{part}"] = getattr(marginal, part)
    return arrays


def _cells(
    found: Data, synthetic: "pd.DataFrame", name: str
) -> tuple[np.ndarray, np.ndarray, int, tuple[float, float]]:
    """A column of both tables as numbers, with bins that fit: listed values by place, gaps last."""
    column: Any = found.schema.columns[name]
    frames: Any = (found.train, synthetic)
    if column.has_position:
        real, made = (frame[[name]].to_numpy(dtype=np.float64) for frame in frames)
        return real, made, _BINS, (column.low, column.high)
    places = {value: place for place, value in enumerate(column.values)}
    gap = len(places)
    real, made = (
        np.array([places.get(cell, gap) for cell in frame[name]], dtype=np.float64)[:, None]
        for frame in frames
    )
    size = gap + column.nullable
    return real + 0.5, made + 0.5, size, (0.0, float(size))
