"""The fitted model of `TableFlow`: rows, scores, given cells and gaps filled, with its guarantee."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.flows.code_flow import FREE, CodeFlow
from veilflow.models.estimator import Fit, facts_of
from veilflow.models.fitted import ARRAYS, Fitted
from veilflow.models.table import table_parts as parts
from veilflow.models.table.code_density import CodeDensity
from veilflow.models.table.coder import Coder
from veilflow.models.table.conditional import (
    Given,
    constrained,
    draw_given,
    effective_size,
    is_exact,
    resampled,
)
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.imputation import filled_table
from veilflow.models.table.table_plan import TablePlan
from veilflow.tabular.codec import decode, encode, write_encoded
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.frames import library_of, to_library
from veilflow.tabular.gaps import with_gaps
from veilflow.tabular.schema import Schema

_BLOCK = 16_384
"""Rows drawn by one call; a power of two."""
_CANDIDATES = 8
"""Rows drawn for each row that is kept, if the given columns do not come first."""
_TRIES = 20
"""Consecutive blocks without any row that satisfies the constraints, before giving up."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedTableFlow(Fitted):
    """A released density over rows of a schema. Its methods are post-processing and cost nothing.

    Attributes:
        plan: The plan that was executed.
        schema: The declared schema, with everything that was discovered.
        vocabularies: The discovered values of open columns.
        num_codes: The number of codes of each column: of its values, or of the bins of a number, and
            one for a missing cell.
        num_features: The number of features of each ordered column; empty but for the flow of codes.
        arrays: Shares of codes, bins, and the arrays of the flow.
    """

    kind: ClassVar[str] = "TableFlow"

    plan: TablePlan
    schema: Schema
    vocabularies: dict[str, tuple[str, ...]]
    num_codes: tuple[int, ...]
    num_features: tuple[int, ...]
    arrays: dict[str, Any] = field(repr=False, metadata=ARRAYS)

    def __post_init__(self) -> None:
        _ = self.density  # raises unless the parts belong together

    @classmethod
    def of(cls, density: AbstractTableDensity, fit: Fit) -> Self:
        """The model of a fitted density."""
        return cls(
            schema=parts.schema(fit),
            vocabularies=parts.vocabularies(fit),
            num_codes=tuple(column.num_codes for column in density.coder.columns),
            num_features=density.num_features,
            arrays=parts.arrays_of(density),
            plan=fit.plan,
            guarantee=fit.plan.guarantee,
            facts=facts_of(fit.plan, num_records=fit.num_records),
        )

    @cached_property
    def density(self) -> AbstractTableDensity:
        """The flow, and the coder between it and the rows."""
        return parts.restored(self.plan, self.schema, self.vocabularies, self.arrays)

    @classmethod
    def shapes(cls, plan: Any, public: dict[str, Any], *, num_numbers: int) -> dict[str, Any]:
        return parts.shapes_of(
            plan,
            public["schema"],
            public["vocabularies"],
            num_codes=public["num_codes"],
            num_features=public["num_features"],
            num_numbers=num_numbers,
        )

    @property
    def flow(self) -> Any:
        """The trained flow."""
        return self.density.flow

    @property
    def coder(self) -> Coder:
        """The coder from cells to codes and back."""
        return self.density.coder

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.schema.names

    def sample(
        self,
        num_rows: int,
        *,
        given: Mapping[str, Any] | None = None,
        seed: int | None = None,
        like: Any = "pandas",
    ) -> Any:
        """Draw synthetic rows as a frame with the columns and types of the schema.

        With `given` cells, rows are exact draws if the given columns come first in the order of the
        flow (`order`). Otherwise more rows are drawn and resampled by weight, and a warning states
        the effective sample size. Only the flow of codes takes given cells.

        Args:
            num_rows: The number of rows.
            given: Values that all rows are to have in some columns; None for a missing cell. Numbers
                out of range are clamped. Columns that follow from others cannot be given.
            seed: For the same rows each time. Never use the seed of a fit.
            like: "pandas", "polars", "pyarrow", or a frame whose library and order to take.

        Raises:
            ValueError: No row satisfies the given cells and the constraints of the schema, or cells
                are given to another flow than that of codes.
        """
        check.count(num_rows=num_rows, at_least=0)
        blocks = self._blocks(num_rows, Secret.from_seed(seed), given)
        rows = EncodedRows.concatenate([self._no_rows(), *blocks])
        return decode(rows, self.schema, like=like, vocabularies=self.vocabularies)

    def sample_to(
        self,
        path: str | os.PathLike[str],
        num_rows: int,
        *,
        given: Mapping[str, Any] | None = None,
        seed: int | None = None,
        monitor: Callable[[int], object] | None = None,
    ) -> None:
        """Write the rows of `sample` to a file as they are drawn, all or nothing.

        Args:
            path: A .csv, .tsv, .parquet or .arrow file.
            num_rows: The number of rows.
            given: As for `sample`.
            seed: As for `sample`.
            monitor: Called with the number of rows drawn so far, after each chunk.
        """
        check.count(num_rows=num_rows, at_least=0)

        def chunks() -> Iterator[EncodedRows]:
            done = 0
            for block in self._blocks(num_rows, Secret.from_seed(seed), given):
                yield block
                done += len(block)
                if monitor is not None:
                    monitor(done)

        write_encoded(chunks(), path, self.schema, vocabularies=self.vocabularies)

    def log_prob(
        self, rows: Any, *, extra: str = "error", invalid: str = "error"
    ) -> Float[np.ndarray, " rows"]:
        """The natural logarithm of the density of each row.

        Listed, integer and gridded values have a probability, and so do missing cells, zero and the
        two bounds of real numbers; other real numbers have a density in the units of the data. Derived
        columns add nothing, and need not be there. A row that contradicts what is declared to follow is
        scored as the row that it is moved to; one that violates another constraint like any other. The
        result for private rows is as private as the rows are. The flow of codes gives exact numbers;
        the paper's flow (`vf.hflow`) gives an estimate by draws of noise, the same each time, that is a
        lower bound in expectation.

        Args:
            rows: A frame or a file with the columns of the schema.
            extra: How to treat other columns, as for `fit`.
            invalid: How to treat cells that are not as declared, as for `fit`.
        """
        encoded = encode(
            rows, self.schema, vocabularies=self.vocabularies, extra=extra, invalid=invalid
        )
        return self.density.log_prob(encoded)

    def impute(
        self, rows: Any, *, seed: int | None = None, like: Any = None, extra: str = "error"
    ) -> Any:
        """Fill the gaps of rows by draws from the model, given the observed cells.

        A gap is filled by a draw and not by the most likely value, so that filled rows vary as rows
        of the model do. Observed cells are kept, in the types of the schema; numbers out of range
        are clamped. Filled rows satisfy the constraints wherever some draw does. The result is as
        private as the rows are. Only the flow of codes can fill gaps.

        Args:
            rows: A frame or a file with the columns of the schema.
            seed: For the same draws each time.
            like: "pandas", "polars" or "pyarrow"; None for the library of `rows`.
            extra: How to treat other columns, as for `fit`.

        Returns:
            A frame with the columns of the schema.
        """
        table = filled_table(
            rows,
            flow=self._code_flow("impute"),
            coder=self.coder,
            schema=self.schema,
            vocabularies=self.vocabularies,
            extra=extra,
            secret=Secret.from_seed(seed),
        )
        return to_library(table, library_of(rows) if like is None else like)

    @property
    def order(self) -> tuple[str, ...]:
        """The columns in the order in which the flow of codes draws them; others follow from these."""
        return tuple(self.schema.core.names[j] for j in self._code_flow("order").order)

    def _no_rows(self) -> EncodedRows:
        shape = (0, len(self.schema.core.columns))
        return EncodedRows(np.zeros(shape, np.int32), np.zeros(shape))

    def _blocks(
        self, num_rows: int, secret: Secret, cells: Mapping[str, Any] | None
    ) -> Iterator[EncodedRows]:
        """Rows that satisfy the constraints, a block at a time."""
        given = Given.of(cells, self.schema, self.vocabularies) if cells else None
        exact = given is None or is_exact(self._code_flow("given"), given.fixed)
        left, block, without = num_rows, 0, 0
        while left:
            rng = np.random.default_rng(secret.words("cells", block, 1)[0])
            rows, log_weights = self._drawn(given, secret, block, rng)
            rows = with_gaps(rows, self.schema, self.vocabularies)
            if given is not None:
                kept = given.holds(rows)
                rows, log_weights = rows.take(kept), log_weights[kept]
            rows, log_weights, shares = constrained(rows, log_weights, self.schema)
            without = 0 if len(rows) else without + 1
            if without == _TRIES:
                raise ValueError(
                    f"none of {_TRIES * _BLOCK:,} rows satisfies the constraints of the schema"
                    f"{' and what is given' if given else ''}. They contradict what the model "
                    "learned, or each other."
                )
            if exact:
                rows = rows.take(rng.uniform(size=len(rows)) < shares)
            elif len(rows):
                assert given is not None
                log_weights = log_weights + np.log(shares)
                wanted = min(left, _BLOCK // _CANDIDATES)
                if left == num_rows:
                    _warn_of_weights(given.names, wanted, log_weights)
                rows = rows.take(resampled(log_weights, wanted, rng))
            rows = rows.take(slice(left))
            left, block = left - len(rows), block + 1
            yield rows

    def _drawn(
        self, given: Given | None, secret: Secret, block: int, rng: np.random.Generator
    ) -> tuple[EncodedRows, Float[np.ndarray, " rows"]]:
        """A block of rows and the logarithms of their weights."""
        if given is None:
            return self.density.draw(_BLOCK, secret.key("rows", block), rng), np.zeros(_BLOCK)
        codes = np.where(given.fixed, self.coder.codes(given.row)[0], FREE).astype(np.int32)
        drawn = draw_given(
            self._code_flow("given"), np.tile(codes, (_BLOCK, 1)), key=secret.key("given", block)
        )
        return given.rows(self.coder, drawn.codes, rng), drawn.log_weights

    def _code_flow(self, use: str) -> CodeFlow:
        """The flow of codes, for a use that no other flow supports."""
        if not isinstance(self.density, CodeDensity):
            raise ValueError(
                f"{use}: only the flow of codes can do this, and this model has the flow "
                f"{self.density.kind!r}. Fit a TableFlow with flow=vf.codes() for it."
            )
        return self.density.flow

    def _about(self) -> str:
        return f"columns: {', '.join(self.columns)}"


def _warn_of_weights(
    names: tuple[str, ...], num_rows: int, log_weights: Float[np.ndarray, " rows"]
) -> None:
    warnings.warn(
        f"the given cells ({', '.join(names)}) do not come first in the order of the flow, so rows "
        f"are resampled by weight: {num_rows:,} of {len(log_weights):,} at a time, which say as much "
        f"as {effective_size(log_weights):,.0f} rows of equal weight.",
        stacklevel=4,
    )
