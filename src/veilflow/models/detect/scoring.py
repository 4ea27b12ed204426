"""Scores of rows by each kind of model: minus the log-density, higher is more anomalous."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow._core.npz import npz_names
from veilflow.images.image_set import Images, class_places
from veilflow.images.read import read_images
from veilflow.images.spec import ImageSpec
from veilflow.models.detect.explanation import explain_codes, explain_density
from veilflow.models.domain import Domain
from veilflow.models.protocols import ImageModel, RowModel, TableModel
from veilflow.models.settings import INVALID, read_for
from veilflow.models.table.code_density import CodeDensity
from veilflow.tabular.codec import encode
from veilflow.tabular.columns import Numeric
from veilflow.tabular.io import read_rows
from veilflow.tabular.raw import open_numbers

Scores = tuple[Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]

_LABELS = {"labels", "y"}
_ROUNDING = 1e-9
"""Relative to the scale: rows this far beyond a border count as on it."""


@dataclass(frozen=True)
class AbstractScorer(ABC):
    """How a detector uses a released model."""

    model: Any

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, where there are any."""
        return self.model.columns

    @abstractmethod
    def score(self, rows: Any, *, invalid: str = "error") -> Scores:
        """Scores of the rows after clamping to the bounds, and which rows lie outside.

        With `invalid="replace"` cells that are not as declared are replaced as in the model's fit;
        images that are not as declared are left out.
        """

    @abstractmethod
    def explain(self, rows: Any) -> Float[np.ndarray, "rows columns"]:
        """The log-density of each cell given the rest of its row; see `explanation.py`."""

    def sample_scores(self, num_samples: int, *, seed: int | None) -> Float[np.ndarray, " rows"]:
        """Scores of samples of the model."""
        return self.score(self.model.sample(num_samples, seed=seed))[0]


class DensityScorer(AbstractScorer):
    """Scores of flows and mixtures over rows of numbers."""

    model: RowModel

    def score(self, rows: Any, *, invalid: str = "error") -> Scores:
        domain, columns = self.model.domain, self.model.columns
        values = read_for(domain, rows, columns=columns, invalid=invalid).values
        return -self.model.log_prob(values), is_outside(self.model.domain, values)

    def explain(self, rows: Any) -> Float[np.ndarray, "rows columns"]:
        values = read_rows(rows, columns=self.model.columns).values
        if values.shape[1] != self.model.dim:
            raise ValueError(f"rows must have {self.model.dim} columns, got {values.shape[1]}.")
        return explain_density(self.model.log_prob, values, self.model.domain)


class TableScorer(AbstractScorer):
    """Scores of tables with a schema."""

    model: TableModel

    def score(self, rows: Any, *, invalid: str = "error") -> Scores:
        scores = -self.model.log_prob(rows, invalid=invalid)
        outside = self._outside(rows, len(scores), invalid=invalid)
        return scores, np.asarray(outside.any(axis=1))

    def explain(self, rows: Any) -> Float[np.ndarray, "rows columns"]:
        density = self.model.density
        if not isinstance(density, CodeDensity):
            raise ValueError(
                "explain: only the flow of codes has exact conditionals, and this model has the flow "
                f"{density.kind!r}. Fit a TableFlow with flow=vf.codes() for it."
            )
        schema, words = self.model.schema, self.model.vocabularies
        learned = explain_codes(density, encode(rows, schema, vocabularies=words))
        cells = np.zeros((len(learned), len(schema.names)))  # what is derived is never surprising
        cells[:, [schema.names.index(name) for name in schema.core.names]] = learned
        return np.where(self._outside(rows, len(cells)), -np.inf, cells)

    def _outside(
        self, rows: Any, num_rows: int, *, invalid: str = "error"
    ) -> Bool[np.ndarray, "rows columns"]:
        """Cells whose numbers lie outside their declared range, where scores clamp them."""
        schema = self.model.schema
        columns = schema.columns
        read = schema.core.columns.keys()  # what is derived is not
        numeric = {n: c for n, c in columns.items() if n in read and isinstance(c, Numeric)}
        numbers = open_numbers(rows, schema, list(numeric), invalid=invalid)
        outside = np.zeros((num_rows, len(columns)), bool)
        for j, name in enumerate(columns):
            if name in numeric:
                column, cells = numeric[name], numbers[name]
                outside[:, j] = (cells < column.low) | (cells > column.high)  # a gap is neither
        return outside


@dataclass(frozen=True)
class ImageScorer(AbstractScorer):
    """Scores of images as members of a class."""

    model: ImageModel
    label: Any = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """None: an image has no columns."""
        return None

    def score(self, rows: Any, *, invalid: str = "error") -> Scores:
        check.one_of(INVALID, invalid=invalid)
        if invalid == "replace":  # no pixel is a public stand-in for an image
            rows = images_of_class(rows, self.model.spec, self.label, invalid="skip")
        scores = self.model.ood_score(rows, self.label)
        return scores, np.zeros(len(scores), bool)

    def explain(self, rows: Any) -> Float[np.ndarray, "rows columns"]:
        raise ValueError("explain: an image model scores codes of images and has no columns.")

    def sample_scores(self, num_samples: int, *, seed: int | None) -> Float[np.ndarray, " rows"]:
        return self.score(self.model.sample(num_samples, label=self.label, seed=seed))[0]


def scorer_of(model: Any, label: Any = None) -> AbstractScorer:
    """The scorer of a fitted model.

    Raises:
        TypeError: It is not a fitted density, table or image model.
        ValueError: The label is missing, or the model has no use for one.
    """
    if isinstance(model, ImageModel):
        if label is None and model.spec.classes:
            raise ValueError(
                "label must name the class that images are compared with: codes of different classes "
                "have different coordinates."
            )
        return ImageScorer(model, label)
    if label is not None:
        raise ValueError("label is for image models with classes. Leave it out.")
    if isinstance(model, RowModel):
        return DensityScorer(model)
    if isinstance(model, TableModel):
        return TableScorer(model)
    raise TypeError(
        "model must be a fitted density, table or image model, as DensityFlow(...).fit(rows) "
        f"returns, got {type(model).__name__}."
    )


class ScoresRows:
    """Scores of rows by a released model, and what explains them. They need no threshold."""

    model: Any
    label: Any

    @cached_property
    def scorer(self) -> AbstractScorer:
        """How the model scores rows."""
        return scorer_of(self.model, self.label)

    def score(self, rows: Any) -> Float[np.ndarray, " rows"]:
        """Minus the natural log of each row's density. Higher is more anomalous.

        Infinite, with a warning, outside the declared bounds; never NaN.

        Args:
            rows: As for the model's `log_prob`.
        """
        return infinite_outside(*self.scorer.score(rows))

    def explain(self, rows: Any) -> Float[np.ndarray, "rows columns"]:
        """Which column makes a row anomalous: the log-density of each cell given the rest of its row.

        It is relative to a uniform distribution over the declared range or list, so that columns
        compare: 0 is as likely as any value, lower is more anomalous. Exact up to rounding and, for
        numbers, a fine trapezoid rule; in a table numbers count by their bin.

        Args:
            rows: As for the model's `log_prob`.

        Returns:
            One column per entry of `columns`.

        Raises:
            ValueError: The model has no columns (images), or no exact conditionals (`vf.hflow`).
        """
        return self.scorer.explain(rows)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, where the model has any."""
        return self.scorer.columns


def is_outside(domain: Domain, values: Float[np.ndarray, "rows dim"]) -> Bool[np.ndarray, " rows"]:
    """Which rows lie outside the declared domain, up to rounding."""
    return np.any(np.abs(domain.clamp(values) - values) > _ROUNDING * domain.scale, axis=1)


def infinite_outside(
    scores: Float[np.ndarray, " rows"], outside: Bool[np.ndarray, " rows"]
) -> Float[np.ndarray, " rows"]:
    """Scores that are infinite, with a warning, for rows outside the bounds; never NaN."""
    if outside.any():
        warnings.warn(
            "some rows lie outside the declared bounds, where there is no density: their score is "
            "infinite and they are anomalies.",
            stacklevel=3,
        )
    # a score that came out as NaN belongs to a row of density zero
    return np.where(outside | np.isnan(scores), np.inf, scores)


def images_of_class(
    source: Any, spec: ImageSpec, label: Any, *, labels: Any = None, invalid: str = "error"
) -> Images:
    """The images of one class, read as by `read_images`; all images where there are no labels.

    Each image is selected by its own label: one image more or less changes no other.
    """
    if not isinstance(source, Images):
        if not spec.classes or (labels is None and not tells_classes(source)):
            return read_images(source, replace(spec, classes=()), invalid=invalid)
        source = read_images(source, spec, labels=labels, invalid=invalid)
    if source.labels is None or label is None:
        return source
    return source.take(source.labels == int(class_places([label], spec)[0]))


def tells_classes(source: Any) -> bool:
    """Whether a source holds labels: a folder of folders, or an NPZ with an array of labels."""
    if isinstance(source, Images):
        return source.labels is not None
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    if path.is_dir():
        return any(one.is_dir() and not one.name.startswith(".") for one in path.iterdir())
    return not _LABELS.isdisjoint(npz_names(path))
