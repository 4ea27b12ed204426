"""Inputs of a classifier: labels, and rows or series with gaps, scaled by declared bounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from veilflow._core import check
from veilflow.models.domain import Domain
from veilflow.models.settings import INVALID
from veilflow.releases.expm.grud import Series
from veilflow.tabular import arrays
from veilflow.tabular.io import read_rows

_MASKS = (
    "Models of rows take no missing cells: fill them by a rule that needs no records, or give series "
    "with masks, features=(values, mask, since), to model='grud'."
)


@dataclass(frozen=True)
class Inputs:
    """Features as read: not yet `Sensitive`, and never shown."""

    values: Any
    """An array of rows, or a `Series` of arrays, in the units of the data."""
    columns: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.values[0] if isinstance(self.values, Series) else self.values)

    @property
    def num_features(self) -> int:
        """Numbers in a row, or at each time of a series."""
        return np.shape(self.values[0] if isinstance(self.values, Series) else self.values)[-1]

    def scaled(self, domain: Domain) -> Any:
        """The features in [-1, 1], as float32: each row by itself, from declared facts alone."""
        if not isinstance(self.values, Series):
            return _to_unit(self.values, domain)
        values, mask, since = self.values
        num, time, features = values.shape
        measured = np.where(mask > 0, values, 0.0).reshape(num * time, features)
        inside = _to_unit(measured, domain).reshape(values.shape)
        return Series(
            np.where(mask > 0, inside, np.float32(0)),
            (mask > 0).astype(np.float32),
            np.clip(since, 0, time).astype(np.float32),
        )


def read_inputs(
    features: Any, *, columns: tuple[str, ...] | None = None, invalid: str = "error"
) -> Inputs:
    """Rows of numbers (an array, a frame or a file), or series (values, mask and time since).

    Args:
        features: The features of the records.
        columns: As for `read_rows`.
        invalid: What to do about cells that are not finite numbers: "error", or "replace". In series
            they become gaps; in rows they are replaced when they are scaled.

    Raises:
        ValueError: Cells are missing without a mask, or shapes do not fit each other.
    """
    check.one_of(INVALID, invalid=invalid)
    if isinstance(features, tuple):
        return Inputs(_series(features, invalid=invalid))
    if invalid == "replace":
        rows = read_rows(features, columns=columns, invalid="keep")
        return Inputs(rows.values, rows.columns)
    try:
        rows = read_rows(features, columns=columns)
    except ValueError as error:
        if "missing" in str(error) or "finite" in str(error):
            raise ValueError(f"{error} {_MASKS}") from None
        raise
    return Inputs(rows.values, rows.columns)


def places_of(
    labels: Any, classes: tuple[Any, ...], *, num: int, invalid: str = "error"
) -> Int[np.ndarray, " num"]:
    """The index of each label in the declared classes, as int32; each label by itself.

    A class without records is no error: that would reveal a fact about the records.

    Args:
        labels: One per record.
        classes: The declared classes.
        num: The number of records.
        invalid: What to do about other labels: "error", or "replace" them by the first class.
    """
    check.one_of(INVALID, invalid=invalid)
    labels = np.asarray(labels) if hasattr(labels, "__array__") else labels
    if getattr(labels, "ndim", 1) == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    values = list(labels) if getattr(labels, "ndim", 1) == 1 else None
    if values is None or len(values) != num:
        raise ValueError(
            "there must be one label for each record of features, got an array of another shape."
        )
    known = {name: place for place, name in enumerate(classes)}
    places = np.array([_place(label, known) for label in values], np.int32)
    if (places < 0).any():
        if invalid == "replace":
            return np.maximum(places, 0)
        raise ValueError(
            f"labels hold values that are not among the declared classes {classes!r}. Declare all "
            "classes, or leave out the other records."
        )
    return places


def _place(label: Any, known: dict[Any, int]) -> int:
    try:
        return known.get(label, -1)
    except TypeError:  # a list, for instance, has no hash
        return -1


def _to_unit(rows: np.ndarray, domain: Domain) -> Float[np.ndarray, "rows dim"]:
    scaled = domain.encode(domain.clamp(domain.finite(rows))) / domain.border
    return np.clip(scaled, -1.0, 1.0).astype(np.float32)


def _series(features: tuple[Any, ...], *, invalid: str) -> Series:
    if len(features) != 3:
        raise ValueError(
            f"series must be (values, mask, since), got {len(features)} arrays. {_MASKS}"
        )
    numbers = [arrays.numbers(arrays.as_array(part)) for part in features]
    values, mask, since = (arrays.or_nan(cells) for cells in numbers)
    if values.ndim != 3 or 0 in values.shape[1:] or not values.shape == mask.shape == since.shape:
        raise ValueError(
            "values, mask and since must have one shape, (records, time, features), got different "
            f"ones with {values.ndim}, {mask.ndim} and {since.ndim} axes."
        )
    if invalid == "replace":
        mask = np.where(np.isfinite(values) & (mask == 1), 1.0, 0.0)
        return Series(np.where(mask > 0, values, 0.0), mask, np.nan_to_num(since))
    if any(cells.unreadable.any() for cells in numbers):
        raise ValueError("values, mask and since must be arrays of numbers.")
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("mask must be 1 where a value was measured and 0 where not.")
    if not np.isfinite(since).all():
        raise ValueError("since must be finite: the time since the last measurement, from 0 on.")
    if not np.isfinite(np.where(mask > 0, values, 0)).all():
        raise ValueError("values must be finite where mask is 1. Set mask to 0 in gaps.")
    return Series(values, mask, since)
