"""Labels as what a classifier may have by heart: is it surer of those it was fitted on?"""

from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow.models.expm.inputs import places_of

_LEAST = 1e-300


def label_scores(model: Any, records: Any) -> Float[np.ndarray, " records"]:
    """The log of the chance that a classifier gives to the true label of each record.

    Args:
        model: A fitted classifier.
        records: Features as for its `fit`, and the label of each record.
    """
    if not (isinstance(records, tuple) and len(records) == 2):
        raise ValueError(
            "a classifier is audited with records and their labels: (features, labels)."
        )
    features, labels = records
    chances = np.asarray(model.predict_proba(features), float)
    places = places_of(labels, tuple(model.classes), num=len(chances))
    return np.log(np.maximum(chances[np.arange(len(places)), places], _LEAST))
