"""Scores of rows by the kinds of models there are: minus the log-density, higher is odder."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow.models.detect.class_images import images_of_class
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

_ROUNDING = 1e-9
"""Of a scale: rows this far beyond a border are on it."""


@dataclass(frozen=True)
class AbstractScorer(ABC):
    """What a detector asks of a released model."""

    model: Any

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, where there are any."""
        return self.model.columns

    @abstractmethod
    def score(self, rows: Any, *, invalid: str = "error") -> Scores:
        """Scores of rows as if all were within the bounds, and which are not.

        With `invalid="replace"` what is not as declared is replaced by the rule of the model's fit;
        images that are not as declared are left out.
        """

    @abstractmethod
    def explain(self, rows: Any) -> Float[np.ndarray, "rows columns"]:
        """See `explanation`."""

    def sample_scores(self, num_samples: int, *, seed: int | None) -> Float[np.ndarray, " rows"]:
        """Scores of the model's own samples."""
        return self.score(self.model.sample(num_samples, seed=seed))[0]


class DensityScorer(AbstractScorer):
    """Flows and mixtures over numbers."""

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
    """Tables of a schema."""

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
        found = explain_codes(density, encode(rows, schema, vocabularies=words))
        return np.where(self._outside(rows, len(found)), -np.inf, found)

    def _outside(
        self, rows: Any, num_rows: int, *, invalid: str = "error"
    ) -> Bool[np.ndarray, "rows columns"]:
        """Cells with numbers out of their declared range, which scores see moved into it."""
        columns = self.model.schema.columns
        wanted = {n: c for n, c in columns.items() if isinstance(c, Numeric)}
        numbers = open_numbers(rows, self.model.schema, list(wanted), invalid=invalid)
        found = np.zeros((num_rows, len(columns)), bool)
        for j, name in enumerate(columns):
            if name in wanted:
                column, cells = wanted[name], numbers[name]
                found[:, j] = (cells < column.low) | (cells > column.high)  # a gap is neither
        return found


@dataclass(frozen=True)
class ImageScorer(AbstractScorer):
    """Images, as members of a class."""

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
    """How rows are scored by a fitted model.

    Raises:
        TypeError: For what is no fitted density, table or image model.
        ValueError: If a label is given or missing where it must not be.
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


def is_outside(domain: Domain, values: Float[np.ndarray, "rows dim"]) -> Bool[np.ndarray, " rows"]:
    """Which rows are not in the declared domain, rounding aside."""
    return np.any(np.abs(domain.clamp(values) - values) > _ROUNDING * domain.scale, axis=1)


def odd_outside(
    scores: Float[np.ndarray, " rows"], outside: Bool[np.ndarray, " rows"]
) -> Float[np.ndarray, " rows"]:
    """Scores with infinity for rows outside the bounds, about which it warns; never NaN."""
    if outside.any():
        warnings.warn(
            "some rows lie outside the declared bounds, where there is no density: their score is "
            "infinite and they are anomalies.",
            stacklevel=3,
        )
    # a row of density zero whose score came out as no number is as odd as can be
    return np.where(outside | np.isnan(scores), np.inf, scores)
