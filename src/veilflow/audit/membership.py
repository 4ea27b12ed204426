"""Membership inference on a released model: who was in the training data?

A model that fits its training rows better than others reveals them. Scores are log densities, or better
their difference to the log density under a reference model that was fitted to none of the rows: the
difference corrects for rows that are likely under every model.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from veilflow.audit import guessing
from veilflow.audit import rows as released
from veilflow.audit.result import AuditResult
from veilflow.audit.rows import attacked, is_classifier, is_image, is_table
from veilflow.models.expm.inputs import places_of

METHODS = ("density", "label", "reconstruction", "synthetic")

_LEAST = 1e-300
"""Smallest probability whose logarithm is taken."""
_FEW = 24
"""Columns up to which a tree finds the nearest row faster than comparing all."""
_BLOCK = 1024

SPLIT = "non-members come from the same source as members, and the fit saw none of them"


def audit(
    model: Any,
    members: Any,
    non_members: Any,
    *,
    method: str | None = None,
    reference: Any = None,
    synthetic: Any = None,
    guesses: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> AuditResult:
    """Attack a released model with members and non-members of its training data.

    The result is computed from private rows and is as private as they are. The bound holds as stated if
    a fair coin decided for each row, before the fit, whether to hold it out.

    Args:
        model: A fitted model with a guarantee.
        members: Rows the model was fitted on, or some of them: a frame, an array or a file; images
            for a model of images, with their labels; for a classifier `(features, labels)`.
        non_members: Rows from the same source that it was not fitted on.
        method: "density" for log densities, for images those of their codes; "reconstruction" for how
            well a model of images reconstructs an image from its code; "label" for the probability
            that a classifier gives to the true label; "synthetic" for distances to synthetic rows.
            None takes "reconstruction" for images, "label" for classifiers and "density" for others.
        reference: For "density" and "label": a model of the same kind fitted on other, public rows.
            Not for images, whose codes differ between models.
        synthetic: For "synthetic": the published rows; drawn from the model if not given.
        guesses: Number of rows to make a guess about. None tries a few numbers, at a price in
            confidence.
        confidence: Confidence of the bound.
        seed: Seed of the choice of rows and of the synthetic rows.

    Returns:
        The lower bound on epsilon, with the claim of the model's guarantee.

    Raises:
        ValueError: If the model has no such scores, or there are no rows on one side.
    """
    if method not in (None, *METHODS):
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    of_rows = attacked(model)
    if method is None:
        method = _usual(of_rows)
    _check_method(method, of_rows, reference)
    sides = [members, non_members]
    if is_image(of_rows):
        sides = [released.opened(of_rows, images) for images in sides]
    if method == "synthetic":
        synthetic = drawn_rows(of_rows, seed) if synthetic is None else synthetic
        inside, outside = (nearness(of_rows, rows, synthetic) for rows in sides)
        name = "nearest synthetic image" if is_image(of_rows) else "nearest synthetic row"
    elif method == "reconstruction":
        inside, outside = released.reconstruction_scores(of_rows, sides)
        name = method
    elif is_image(of_rows):
        inside, outside = released.code_scores(of_rows, sides)
        name = "density of codes"
    else:
        inside, outside = (density_scores(of_rows, rows, reference=reference) for rows in sides)
        name = method if reference is None else f"{method} ratio"
    scores, member = balanced(inside, outside, seed=seed)
    return from_guarantee(
        model, scores, member, method=name, guesses=guesses, confidence=confidence, seed=seed
    )


def _usual(model: Any) -> str:
    """The strongest attack that needs only the model."""
    if is_classifier(model):
        return "label"
    return "reconstruction" if is_image(model) else "density"


def _check_method(method: str, model: Any, reference: Any) -> None:
    """Raise if a model of this kind cannot be attacked by the method."""
    kind = type(model).__name__
    if is_classifier(model) and method != "label":
        raise ValueError(
            f"a {kind} has no density and draws no records. It is audited by how sure it is of labels: "
            "method 'label', its default."
        )
    if method == "label" and not is_classifier(model):
        raise ValueError(f"method 'label' is for classifiers, and a {kind} predicts no classes.")
    if method == "reconstruction" and not is_image(model):
        raise ValueError(f"method 'reconstruction' is for image models, got a {kind}.")
    if method == "synthetic" and not hasattr(model, "sample"):
        raise ValueError(
            f"method 'synthetic' is for models that draw rows, which a {kind} does not."
        )
    if reference is not None and is_classifier(attacked(reference)) != is_classifier(model):
        raise ValueError(
            f"reference must be a model of the same kind, a {kind}, got a {type(reference).__name__}."
        )
    if reference is not None and is_image(model):
        raise ValueError(
            "reference is not for images: codes have other coordinates in every model, so their "
            "densities cannot be compared. Leave it out."
        )


def density_scores(model: Any, rows: Any, *, reference: Any = None) -> Float[np.ndarray, " rows"]:
    """The log density of each row, less that under the reference model, if any."""
    scores = log_prob(model, rows)
    if reference is None:
        return scores
    # a row that is impossible under both models says nothing
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(scores - log_prob(reference, rows), nan=0.0)


def log_prob(model: Any, rows: Any) -> Float[np.ndarray, " rows"]:
    """The log density of each row under a model that has one; of its label under a classifier."""
    model = attacked(model)
    if is_classifier(model):
        return label_scores(model, rows)
    if not hasattr(model, "log_prob"):
        raise ValueError(
            f"a {type(model).__name__} has no density of rows. Audit a density, mixture, table or "
            "image model, a classifier, or one of your own with a method log_prob."
        )
    scores = model.log_prob(rows, extra="ignore") if is_table(model) else model.log_prob(rows)
    return np.asarray(scores, float)


def drawn_rows(model: Any, seed: int, num_rows: int = 10_000) -> Any:
    """Synthetic rows of a model."""
    if is_image(model):
        num_rows = released.how_many(model, num_rows)
    return model.sample(num_rows, seed=seed)


def balanced(
    inside: Float[np.ndarray, " members"],
    outside: Float[np.ndarray, " others"],
    *,
    seed: int,
) -> tuple[Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Equally many scores of members and others, as from a fair coin; the rest is left out."""
    if not len(inside) or not len(outside):
        raise ValueError("an audit needs rows that were in and rows that were not.")
    number, rng = min(len(inside), len(outside)), np.random.default_rng(seed)
    chosen = [rng.permutation(side)[:number] for side in (inside, outside)]
    return np.concatenate(chosen), np.repeat([True, False], number)


def from_guarantee(
    model: Any,
    scores: Float[np.ndarray, " rows"],
    member: Bool[np.ndarray, " rows"],
    **settings: Any,
) -> AuditResult:
    """What scores of private rows say about the guarantee of a model."""
    claim = {"delta": model.guarantee.delta, "claimed": model.guarantee.epsilon}
    return guessing.from_scores(
        scores, member, **claim, internal=True, assumptions=(SPLIT,), **settings
    )


def label_scores(model: Any, records: Any) -> Float[np.ndarray, " records"]:
    """The log-probability that a classifier gives to the true label of each record.

    Args:
        model: A fitted classifier.
        records: Features as for its `fit`, and the label of each record.
    """
    if not (isinstance(records, tuple) and len(records) == 2):
        raise ValueError(
            "a classifier is audited with records and their labels: (features, labels)."
        )
    features, labels = records
    probabilities = np.asarray(model.predict_proba(features), float)
    places = places_of(labels, tuple(model.classes), num=len(probabilities))
    return np.log(np.maximum(probabilities[np.arange(len(places)), places], _LEAST))


def nearness(model: Any, rows: Any, synthetic: Any) -> Float[np.ndarray, " rows"]:
    """Minus the distance from each row to the nearest synthetic one, on the declared scales.

    A small distance is a warning; a large one is no evidence of privacy.

    Args:
        model: Used for its declared columns only.
        rows: The rows to attack.
        synthetic: The published rows.
    """
    known = released.points(model, synthetic)
    if not len(known):
        raise ValueError("there must be at least one synthetic row.")
    return -_distances(released.points(model, rows), known)


def _distances(rows: np.ndarray, known: np.ndarray) -> Float[np.ndarray, " rows"]:
    """The distance from each row to the nearest known one."""
    if known.shape[1] <= _FEW:
        from scipy.spatial import KDTree

        return np.asarray(KDTree(known).query(rows)[0], float)
    # with many columns, as in images, a tree compares all rows as well, and slowly
    lengths = np.sum(known**2, axis=1)
    distances = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        squares = np.sum(block**2, axis=1)[:, None] + lengths - 2 * block @ known.T
        distances[start : start + _BLOCK] = np.sqrt(np.maximum(squares.min(axis=1), 0))
    return distances
