"""Sections of the curator's report for classifiers; as private as the records."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from veilflow.reports import svg
from veilflow.tabular.frames import label_column, label_word

_BINS = 10


def classifier_sections(
    model: Any, data: Any, label: str | None = None, *, labels: Any = None
) -> dict[str, Any]:
    """How a classifier does on the records: confusions, area under the curve, calibration.

    Args:
        model: A fitted classifier.
        data: A table with a column of labels; with `labels`, anything that `predict_proba` takes.
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
    # compared by the place of the class: labels may be numbers here and words there
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
    """The area under the ROC curve of each class against the others, averaged over the classes.

    None where all records are of one class.
    """
    from veilflow.evaluation.detection import roc_curve

    areas = []
    for place in range(chances.shape[1]):
        of_class = places == place
        if of_class.any() and not of_class.all():
            # the curve calls low scores anomalies: here, records of the other classes
            areas.append(roc_curve(chances[of_class, place], chances[~of_class, place]).auroc)
    return float(np.mean(areas)) if areas else None


def calibration(
    chances: Float[np.ndarray, " rows"], happened: Bool[np.ndarray, " rows"], *, of: str
) -> dict[str, Any]:
    """Predicted beside observed shares, in ten bins of the prediction; as private as the records.

    Args:
        chances: The predicted probability for each record.
        happened: Whether the predicted event happened.
        of: The name of the event, for the caption.

    Returns:
        The drawing, a line for each bin with records, and the mean error of the probabilities.
    """
    bins = np.minimum((chances * _BINS).astype(int), _BINS - 1)
    count = np.bincount(bins, minlength=_BINS)
    safe = np.maximum(count, 1)
    said = np.bincount(bins, weights=chances, minlength=_BINS) / safe
    came = np.bincount(bins, weights=happened.astype(float), minlength=_BINS) / safe
    return {
        "of": of,
        "off": float(np.sum(count * np.abs(said - came)) / max(len(chances), 1)),
        "svg": svg.histogram(
            came,
            said,
            labels=["chance 0", "1"],
            alt=f"Chance of {of}, in ten bins: what came true as bars, what was predicted as a line.",
        ),
        "lines": [
            {
                "range": f"{100 * i // _BINS} to {100 * (i + 1) // _BINS} %",
                "count": int(count[i]),
                "said": float(said[i]),
                "came": float(came[i]),
            }
            for i in range(_BINS)
            if count[i]
        ],
    }


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
