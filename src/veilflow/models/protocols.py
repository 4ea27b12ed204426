"""Protocols of fitted models, whatever their class.

A protocol is checked by the names of its members, so its users need not import the models.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from veilflow.images.spec import ImageSpec
from veilflow.models.domain import Domain
from veilflow.tabular.schema import Schema

Numbers = Float[np.ndarray, " records"]


@runtime_checkable
class Samples(Protocol):
    """A model that can draw synthetic records."""

    def sample(self, number: int, /, *, seed: int | None = None) -> Any:
        """Draw records; with a seed, the same each time."""
        ...


@runtime_checkable
class HasDensity(Protocol):
    """A model with a density."""

    def log_prob(self, records: Any, /) -> Numbers:
        """The log-density at each record."""
        ...


@runtime_checkable
class RowModel(Samples, HasDensity, Protocol):
    """A density over rows of numbers."""

    @property
    def domain(self) -> Domain:
        """The declared domain of the rows."""
        ...

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, if there are any."""
        ...

    @property
    def dim(self) -> int:
        """The number of columns."""
        ...


@runtime_checkable
class TableModel(Samples, Protocol):
    """A density over rows of a schema."""

    schema: Schema
    vocabularies: Any
    """The discovered values of open columns."""
    density: Any

    def log_prob(self, rows: Any, /, *, invalid: str = "error") -> Numbers:
        """The log-density at each row."""
        ...


@runtime_checkable
class ImageModel(HasDensity, Protocol):
    """A density over images, one for each class if there are classes."""

    spec: ImageSpec

    def sample(self, number: int, /, *, label: Any = None, seed: int | None = None) -> Any:
        """Draw images, of one class or of all; with a seed, the same each time."""
        ...

    def ood_score(self, images: Any, label: Any = None) -> Numbers:
        """How unlike the images of a class each image is."""
        ...


@runtime_checkable
class Predicts(Protocol):
    """A classifier: a model that says how likely each class is for a record."""

    classes: Any
    """The declared classes, in the order of the columns of `predict_proba`."""
    conditional: bool
    """Whether the guarantee is conditional."""

    def predict_proba(self, records: Any, /) -> Float[np.ndarray, "records classes"]:
        """The probability of each class, for each record."""
        ...
