"""Rows against a released model: what can be attacked, and rows and images as points and scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow.images import Images, read_images, to_unit
from veilflow.tabular.codec import encode
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.io import read_rows
from veilflow.tabular.schema import Schema


def attacked(model: Any) -> Any:
    """The part of a released model that can be attacked with rows: the density of a detector.

    Raises:
        ValueError: If no part of the model scores rows, or that part is not released.
    """
    from veilflow.models.detect.fitted_ensemble import FittedEnsemble
    from veilflow.models.detect.likelihood import LikelihoodDetector
    from veilflow.models.posterior.fitted_posterior import FittedPosterior

    if isinstance(model, LikelihoodDetector):
        return model.model
    if isinstance(model, FittedEnsemble):
        raise ValueError(
            "an ensemble is not audited with rows: only answers are released, and asking about rows "
            "would spend them. Its models are not private and never released, so an attack on them "
            "says nothing about the answers. Audit a likelihood detector or its model instead."
        )
    if isinstance(model, FittedPosterior):
        raise ValueError(
            "a posterior is a density of parameters, not of rows, so it cannot score rows. In Python, "
            "give vf.audit.audit an object with this guarantee and a method log_prob(rows) "
            "that averages the likelihood of each row over draws of the posterior."
        )
    return model


def is_table(model: Any) -> bool:
    """Whether a fitted model is one of tables with a schema."""
    from veilflow.models.table.fitted_table import FittedTableFlow

    return isinstance(model, FittedTableFlow)


def is_image(model: Any) -> bool:
    """Whether a fitted model is one of images."""
    from veilflow.models.image.fitted_image import FittedImageFlow

    return isinstance(model, FittedImageFlow)


def is_classifier(model: Any) -> bool:
    """Whether a model predicts the probability of each class."""
    return hasattr(model, "predict_proba") and hasattr(model, "classes")


def points(model: Any, rows: Any) -> Float[np.ndarray, "rows dim"]:
    """Rows of a model of tables, images or numbers as points, on declared scales alone.

    Numbers are scaled from their declared range to [0, 1]; a listed value is a corner, at distance 1
    from every other one.
    """
    if is_image(model):
        return _pixels(model, rows)
    if is_table(model):
        encoded = encoded_rows(model, rows)
        return _coordinates(encoded, model.schema.core, model.vocabularies)
    if not hasattr(model, "domain"):
        raise ValueError(
            f"distances between rows need declared columns, and a {type(model).__name__} has none."
        )
    values = read_rows(rows, columns=model.columns).values
    domain = model.domain
    return domain.encode(domain.clamp(values)) / (2 * domain.border)


def encoded_rows(model: Any, rows: Any) -> EncodedRows:
    """Rows of a model of tables, as codes and positions."""
    if isinstance(rows, EncodedRows):
        return rows
    return encode(rows, model.schema, vocabularies=model.vocabularies, extra="ignore")


def _coordinates(rows: EncodedRows, schema: Schema, vocabularies: Any) -> np.ndarray:
    blocks = []
    for place, (name, column) in enumerate(schema.columns.items()):
        if column.has_position:
            blocks.append(np.asarray(rows.positions[:, [place]], float))
        number = column.num_codes(vocabularies.get(name))
        if number > 1:  # two corners are sqrt(2) apart
            blocks.append(np.eye(number)[rows.codes[:, place]] / np.sqrt(2))
    return np.concatenate(blocks, axis=1)


_BLOCK = 4096
"""Images reconstructed at once."""
_MOST_NUMBERS = 50_000_000
"""Pixels of all synthetic images that are drawn for comparison."""


def opened(model: Any, images: Any) -> Images:
    """Images read by the specification of a model."""
    return read_images(images, model.spec)


def reconstruction_scores(
    model: Any, sides: Sequence[Images]
) -> list[Float[np.ndarray, " images"]]:
    """Minus the squared reconstruction error of each image, less the median of its class.

    An autoencoder that has memorized images reconstructs them better than others. On overfitted models
    this attack is far stronger than the density of codes.
    """
    return within_classes([_minus_errors(model, images) for images in sides], sides)


def code_scores(model: Any, sides: Sequence[Images]) -> list[Float[np.ndarray, " images"]]:
    """The log density of each image's code, less the median of its class."""
    return within_classes([np.asarray(model.log_prob(x), float) for x in sides], sides)


def within_classes(
    scores: Sequence[Float[np.ndarray, " images"]], sides: Sequence[Images]
) -> list[Float[np.ndarray, " images"]]:
    """Scores less the median of their class.

    Scores of different classes do not compare: their codes have different coordinates, and their images
    more or less detail. The median is over both sides together, so it does not use who is a member.
    """
    centered = np.concatenate(scores)
    classes = np.concatenate(
        [np.zeros(len(x), np.int32) if x.labels is None else x.labels for x in sides]
    )
    for label in np.unique(classes):
        median = np.median(centered[classes == label])
        if np.isfinite(median):
            centered[classes == label] -= median
    return np.split(centered, np.cumsum([len(x) for x in scores])[:-1])


def _minus_errors(model: Any, images: Images) -> Float[np.ndarray, " images"]:
    scores = np.empty(len(images))
    for start in range(0, len(images), _BLOCK):
        block = images.take(slice(start, start + _BLOCK))
        reconstructed = to_unit(model.reconstruct(block).pixels)
        squares = np.square(reconstructed - to_unit(block.pixels), dtype=float)
        scores[start : start + _BLOCK] = -squares.sum(axis=(1, 2, 3))
    return scores


def _pixels(model: Any, images: Any) -> Float[np.ndarray, "images pixels"]:
    """Images as points, every pixel from 0 to 1."""
    values = opened(model, images).pixels
    return np.asarray(to_unit(values), float).reshape(len(values), -1)


def how_many(model: Any, most: int) -> int:
    """Number of synthetic images to draw: `most`, or fewer if they are large."""
    return int(max(100, min(most, _MOST_NUMBERS // np.prod(model.spec.shape))))
