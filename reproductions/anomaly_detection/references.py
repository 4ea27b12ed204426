"""A flow without privacy beside the private ones: as large and as long as they are.

The library's own default without privacy is larger and takes five times the steps. On a processor it
was not waited for; and one would not know what of a difference is privacy.
"""

import math
from typing import Any

import numpy as np

import veilflow as vf
from reproductions.anomaly_detection import fits, sets
from reproductions.dp_nf import estimators
from veilflow import evaluation

STEPS, BATCH = 2000, 1024
"""As the planner has them for the private flows here."""


def perform(name: str, *, split: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Fit a flow without privacy and measure what it tells apart."""
    case = sets.load(name, split)
    estimator = vf.DensityFlow(
        budget=vf.Budget(math.inf, case.facts.delta),
        num_records=len(case.records),
        flow=vf.maf(blocks=5, hidden=(100, 100)),
        training=vf.Training(steps=STEPS, batch_size=BATCH),
        **case.facts.domain,
    )
    model = estimators.fit(estimator, case.records)
    detector = vf.LikelihoodDetector(model)
    ordinary, strange = detector.score(case.ordinary), detector.score(case.anomalies)
    curve = evaluation.roc_curve(-ordinary, -strange)
    result = {
        "auroc": curve.auroc,
        "precision": fits.average_precision(ordinary, strange),
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
    return result, {"roc": fits._thinned(curve)}
