"""The interface between table models and their flows, which has two implementations.

`CodeDensity` has the flow of codes, `HFlowDensity` the paper's flow. Both work on the same coder, which
was released before; docs/developer/decisions.md says why there are two.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Array, Float, Int32, Key, PyTree

from veilflow.models.table.coder import Coder
from veilflow.tabular.codec import EncodedRows

Loss = Callable[[Any, PyTree, Key[Array, ""]], Array]
"""`loss(flow, record, key)` of one record."""


@dataclass(frozen=True)
class AbstractTableDensity(ABC):
    """A flow, and the coder between it and the rows of a schema."""

    coder: Coder
    flow: Any

    kind: ClassVar[str]
    """The name of the flow in messages."""
    public_loss: ClassVar[Callable[[Any], Array] | None]

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """The loss: one function for equal settings, so that fits share one compiled program."""

    @abstractmethod
    def records(self, rows: EncodedRows) -> PyTree:
        """The records of training, each from its own row: arrays with the row as first axis."""

    def records_of_codes(
        self, codes: Int32[np.ndarray, "rows columns"], rng: np.random.Generator
    ) -> PyTree:
        """The records of rows of codes, such as a model of marginals draws."""
        return self.records(self.coder.rows(codes, rng))

    def adjusted(self, key: Key[Array, ""]) -> Self:
        """This density with the released shares of columns restored, where the flow allows it."""
        return self

    def placed(self, key: Key[Array, ""]) -> Self:
        """This density with numbers that hang together within their bins, where the flow needs it."""
        return self

    @abstractmethod
    def draw(self, num_rows: int, key: Key[Array, ""], rng: np.random.Generator) -> EncodedRows:
        """Draw rows of the schema."""

    @abstractmethod
    def log_prob(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """The natural log of the density of each row, in units of the data."""

    @property
    def num_features(self) -> tuple[int, ...]:
        """The numbers of features of columns, where the shapes of arrays depend on them."""
        return ()

    @abstractmethod
    def arrays(self) -> Any:
        """The released arrays of the flow, as a tree."""

    def with_flow(self, flow: Any) -> Self:
        """This density with another flow."""
        return replace(self, flow=flow)
