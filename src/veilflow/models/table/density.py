"""What a fit and a fitted table ask of a kind of flow: the one protocol with two implementations.

`CodeDensity` has the flow of codes, `HFlowDensity` the paper's flow. Both stand on the same coder,
which was released before; docs/developer/decisions.md says why there are two.
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
"""loss(flow, record, key) of one record."""


@dataclass(frozen=True)
class AbstractTableDensity(ABC):
    """A flow, and the coder between it and the rows of a schema."""

    coder: Coder
    flow: Any

    kind: ClassVar[str]
    """Its name in messages."""
    public_loss: ClassVar[Callable[[Any], Array] | None]

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """A plain function, the same for the same settings: one compiled program serves all fits."""

    @abstractmethod
    def records(self, rows: EncodedRows) -> PyTree:
        """What training sees of rows, row by row: arrays with the row as first axis."""

    def records_of_codes(
        self, codes: Int32[np.ndarray, "rows columns"], rng: np.random.Generator
    ) -> PyTree:
        """The same of rows of codes, such as a marginal model draws."""
        return self.records(self.coder.rows(codes, rng))

    def adjusted(self, key: Key[Array, ""]) -> Self:
        """With released shares of columns brought back into the flow, where it can take them."""
        return self

    @abstractmethod
    def draw(self, num_rows: int, key: Key[Array, ""], rng: np.random.Generator) -> EncodedRows:
        """Rows of the schema."""

    @abstractmethod
    def log_prob(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """The natural log of the density of each row, in units of the data."""

    @property
    def num_features(self) -> tuple[int, ...]:
        """What the shapes of its arrays follow from beside the schema; nothing by default."""
        return ()

    @abstractmethod
    def arrays(self) -> Any:
        """The released numbers of the flow, as a tree."""

    def with_flow(self, flow: Any) -> Self:
        """The same with another flow."""
        return replace(self, flow=flow)
