"""All tables of a reproduction: their cells, and the records that finished runs make of them."""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reproductions.batches import sampling
from reproductions.blocks import Block, Column, Row
from reproductions.cache import Run
from reproductions.records import Record, origin, provenance, spread
from veilflow.privacy.ledger import Ledger

Cell = tuple[Block, Row, Column]
Key = tuple[str, str, str, str]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Tables, and what all records of them share.

    Attributes:
        blocks: The tables.
        titles: Titles of the data sets.
        delta: What epsilon is stated at.
        accountant: Whose sums the paper's epsilon is.
        sampling: How the paper's batches were drawn.
        true_epsilons: By the epsilon that the paper claims, what its settings had really spent;
            empty where they are not known.
    """

    blocks: tuple[Block, ...]
    titles: Mapping[str, str]
    delta: float
    accountant: str
    sampling: str
    true_epsilons: Mapping[float, float] = field(default_factory=dict)

    def cells(self, keys: Collection[Key] | None = None) -> Iterator[Cell]:
        """Every cell that a run of ours fills; only those of some keys, where these are given."""
        for block in self.blocks:
            for row in block.rows:
                if row.method is not None:
                    for column in block.columns:
                        if keys is None or self.key(block, row, column) in keys:
                            yield block, row, column

    def keys(self) -> list[Key]:
        """Keys of all cells that our runs fill."""
        return [self.key(*cell) for cell in self.cells()]

    def key(self, block: Block, row: Row, column: Column) -> Key:
        """The key of the record of a cell."""
        target = f"{self.titles[column.data]}, {row.epsilon:g}"
        return (block.table, row.name, target, column.metric)

    def measured(
        self,
        cell: Cell,
        values: Sequence[float],
        runs: Sequence[Run],
        *,
        beside: Sequence[Run] = (),
        must: float | None,
        note: str = "",
    ) -> Record:
        """The record of a cell.

        Args:
            cell: Which.
            values: What each run says of it, at least one.
            runs: Those of the model.
            beside: Further runs that the values rest on.
            must: What is to be reached on this machine.
            note: What one must know beside.
        """
        what = cell[2].what
        worst = max(values) if what.better == "lower" else min(values)
        ledger = runs[0].result.get("ledger")
        return self._record(
            cell,
            ours=worst if what.worst else statistics.fmean(values),
            spread=None if what.worst else spread(list(values)),
            must=must,
            sampling=sampling(Ledger.from_json(ledger)) if ledger else "",
            note=note,
            **{**provenance(list(runs)), **origin([*runs, *beside])},
        )

    def unmeasured(self, known: list[Record]) -> list[Record]:
        """A record without a number for each cell that must reach something and has no record yet."""
        keys = {record.key for record in known}
        return [
            self._record(
                cell,
                ours=None,
                spread=None,
                must=cell[1].must[cell[2]],
                note="not run yet",
                **provenance([]),
            )
            for cell in self.cells()
            if cell[2] in cell[1].must and self.key(*cell) not in keys
        ]

    def _record(self, cell: Cell, **fields: Any) -> Record:
        _, row, column = cell
        table, name, target, metric = self.key(*cell)
        printed = row.paper.get(column)
        private = printed is not None and row.epsilon != math.inf
        return Record(
            table=table,
            row=name,
            column=target,
            metric=metric,
            paper=printed,
            better=column.what.better,
            delta=self.delta if row.epsilon != math.inf else None,
            paper_accountant=self.accountant if private else "",
            paper_sampling=self.sampling if private else "",
            true_epsilon_of_paper=self.true_epsilons.get(row.epsilon) if private else None,
            digits=column.what.digits,
            **fields,
        )
