"""What a classifier takes: labels, and rows or series with gaps that declared bounds scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from veilflow.models.domain import Domain
from veilflow.models.expm.grud import Series
from veilflow.tabular.io import read_rows

_MASKS = (
    "Models of rows take no gaps: fill them by a rule that needs no records, or give series with "
    "masks, features=(values, mask, since), to model='grud'."
)


@dataclass(frozen=True)
class Inputs:
    """Features as read: behind no door yet, and never shown."""

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
        """The features in [-1, 1], as float32: row by row, by declared facts alone."""
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


def read_inputs(features: Any, *, columns: tuple[str, ...] | None = None) -> Inputs:
    """Rows of numbers (an array, a frame or a file), or a tuple of values, mask and time since.

    Raises:
        ValueError: Cells are missing and no mask says so, or shapes do not fit each other.
    """
    if isinstance(features, tuple):
        return Inputs(_series(features))
    try:
        rows = read_rows(features, columns=columns)
    except ValueError as error:
        if "missing" in str(error) or "finite" in str(error):
            raise ValueError(f"{error} {_MASKS}") from error
        raise
    if rows.values.shape[1] == 0:
        raise ValueError("features must have at least one column.")
    return Inputs(rows.values, rows.columns)


def places_of(labels: Any, classes: tuple[Any, ...], *, num: int) -> Int[np.ndarray, " num"]:
    """The place of each label in the declared classes, as int32.

    A class that no label has is no error: whether it has one is a fact about the records.
    """
    given = np.asarray(labels)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1 or len(given) != num:
        raise ValueError(
            "labels must be one for each record of features, got an array of another shape."
        )
    places = np.full(num, -1, np.int32)
    for place, name in enumerate(classes):
        places[np.asarray(given == name, bool)] = place
    if (places < 0).any():
        raise ValueError(
            f"labels hold values that are not among the declared classes {classes!r}. Declare all "
            "classes, or leave out records of others."
        )
    return places


def _to_unit(rows: np.ndarray, domain: Domain) -> Float[np.ndarray, "rows dim"]:
    scaled = domain.encode(domain.clamp(rows)) / domain.border
    return np.clip(scaled, -1.0, 1.0).astype(np.float32)


def _series(features: tuple[Any, ...]) -> Series:
    if len(features) != 3:
        raise ValueError(
            f"series must be (values, mask, since), got {len(features)} arrays. {_MASKS}"
        )
    try:
        values, mask, since = (np.asarray(part, np.float64) for part in features)
    except (TypeError, ValueError) as error:
        raise ValueError("values, mask and since must be arrays of numbers.") from error
    if values.ndim != 3 or 0 in values.shape[1:] or not values.shape == mask.shape == since.shape:
        raise ValueError(
            "values, mask and since must have one shape, (records, time, features), got "
            f"{values.ndim}, {mask.ndim} and {since.ndim} axes that do not agree."
        )
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("mask must be 1 where a value was measured and 0 where not.")
    if not np.isfinite(since).all():
        raise ValueError("since must be finite: the time since the last measurement, from 0 on.")
    if not np.isfinite(np.where(mask > 0, values, 0)).all():
        raise ValueError("values must be finite where mask is 1. Set mask to 0 in gaps.")
    return Series(values, mask, since)
