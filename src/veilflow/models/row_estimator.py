"""What estimators of rows of numbers share: a declared domain, and how rows are read."""

from typing import Any

from veilflow._core import check
from veilflow.models import domain as domains
from veilflow.models.domain import Box, Domain
from veilflow.models.estimator import Estimator, Model, Source
from veilflow.models.settings import read_for
from veilflow.privacy.guarantees import Sensitive


class RowEstimator(Estimator[Model]):
    """Settings of a model of rows inside declared bounds, or of at most a declared norm."""

    bounds: Any
    row_norm: float | None

    @property
    def domain(self) -> Domain:
        """Where rows live, as declared."""
        return domains.declared(bounds=self.bounds, row_norm=self.row_norm)

    @property
    def declared(self) -> tuple[str, ...]:
        """Facts that the guarantee takes as public."""
        return ("bounds",) if isinstance(self.domain, Box) else ("the largest norm of a row",)

    def read(self, data: Any, *, invalid: str = "error") -> Source:
        """The rows of `data`. There may be none: that there is one is a fact about the records.

        Args:
            data: A two-dimensional array, a frame, or the path of a CSV, Parquet, Arrow or NumPy file.
            invalid: What to do about cells that are no finite number: "error", or "replace" each: what
                is infinite by the nearer bound, anything else by the lower one (with `row_norm`, by
                0). A row is read by itself: what it holds replaces nothing in another.
        """
        table = read_for(self.domain, data, invalid=invalid)
        dim = table.values.shape[1]
        self.domain.check_dim(dim)
        records = Sensitive(table.values, description=f"{dim} columns")
        return Source(records, {"dim": dim}, table.columns)

    def coordinates(self, source: Source) -> Sensitive[Any]:
        """The rows in flow coordinates, inside the domain."""
        domain = self.domain
        encode = lambda x: domain.encode(domain.clamp(x))  # noqa: E731
        return source.view("coordinates", lambda: source.records.map(encode))

    def num_columns(self, dim: int | None) -> int:
        """`dim`, or as many as bounds are declared for.

        Raises:
            ValueError: Neither says it, or both and not the same.
        """
        domain = self.domain
        declared = max(domain.scale.size, domain.center.size)
        if dim is None and declared == 1:
            raise ValueError(
                "give dim, the number of columns: bounds for all columns do not say it."
            )
        dim = declared if dim is None else dim
        check.count(dim=dim)
        domain.check_dim(dim)
        return dim
