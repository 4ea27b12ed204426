"""Sections of the curator's report for classifiers; as private as the records."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from veilflow.reports.calibration import calibration
from veilflow.tabular.frames import label_column, label_word


def classifier_sections(
    model: Any, data: Any, label: str | None = None, *, labels: Any = None
) -> dict[str, Any]:
    """How a classifier does on the records: confusions, area under the curve, calibration.

    Args:
        model: A fitted classifier.
        data: A table with a column of labels; or, with `labels`, whatever `predict_proba` takes.
        label: The column of labels.
        labels: The labels, where they are not a column.
    """
    if labels is None:
        data, labels = _from_table(model, data, label)
    classes = [str(name) for name in model.classes]
    chances = model.predict_proba(data)
    truth = [label_word(x) for x in (labels.tolist() if hasattr(labels, "tolist") else labels)]
    if len(truth) != len(chances):
        raise ValueError("labels must be one for each record.")
    # by the place of the class, for labels may be numbers here and words there
    places = np.array([classes.index(word) if word in classes else -1 for word in truth], int)
    known = places >= 0
    if not known.any():
        raise ValueError(f"no label is one of the classes of the model: {', '.join(classes)}.")
    chances, places = chances[known], places[known]
    guessed = chances.argmax(axis=1)
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (places, guessed), 1)
    total = counts.sum(axis=1)
    if len(classes) == 2:
        shown = calibration(chances[:, 1], places == 1, of=f"class {classes[1]}")
    else:
        shown = calibration(chances.max(axis=1), guessed == places, of="the predicted class")
    return {
        "classes": {
            "names": classes,
            "counts": counts.tolist(),
            "recall": [float(counts[i, i] / n) if n else None for i, n in enumerate(total)],
            "accuracy": float(np.trace(counts) / total.sum()),
            "blind": float(total.max() / total.sum()),
            "area": area(chances, places),
            "other": int((~known).sum()),
            "calibration": shown,
        }
    }


def area(
    chances: Float[np.ndarray, "rows classes"], places: Int[np.ndarray, " rows"]
) -> float | None:
    """The area under the ROC curve, of each class against the others, the mean of those there are.

    None where all records are of one class.
    """
    from veilflow.evaluation.detection import roc_curve

    found = []
    for place in range(chances.shape[1]):
        of_class = places == place
        if of_class.any() and not of_class.all():
            # its "anomalies" are what scores low: here, records of the other classes
            found.append(roc_curve(chances[of_class, place], chances[~of_class, place]).auroc)
    return float(np.mean(found)) if found else None


def _from_table(model: Any, data: Any, label: str | None) -> tuple[Any, list[Any]]:
    """Features and labels of a table."""
    from veilflow.releases.expm.grud import GruD
    from veilflow.tabular.frames import open_table
    from veilflow.tabular.io import read_rows

    if isinstance(model.network, GruD):
        raise ValueError(
            "this classifier takes series: give an NPZ file of values, mask, since and labels; in "
            "Python, data=(values, mask, since) and labels=..."
        )
    table = open_table(data, chunk=1)
    if label is None or label not in table.names:
        raise ValueError("a classifier is compared with labels: name their column.")
    labels = label_column(data, label)
    names = [name for name in table.names if name != label]
    return read_rows(data, columns=names if model.columns is None else model.columns), labels
