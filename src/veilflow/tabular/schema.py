"""The declared columns of a table: what is known about it without looking at a row."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from veilflow._core.codec import OwnFormat
from veilflow._core.errors import PrivacyError
from veilflow._core.store import write_atomic
from veilflow.tabular import schema_file
from veilflow.tabular.columns import (
    Boolean,
    Categorical,
    Column,
    Listed,
    Numeric,
    OpenCategorical,
)
from veilflow.tabular.constraint_checks import check_constraint
from veilflow.tabular.constraints import Constraint, MissingIf, MissingTogether
from veilflow.tabular.number_columns import KINDS, Clock, ListedNumeric
from veilflow.tabular.stream import check_names
from veilflow.tabular.structure import (
    Rules,
    bounded,
    core_columns,
    core_constraints,
    rules_of,
)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Schema(OwnFormat):
    """The columns of a table in order, which of them is the label, and constraints on rows.

        vf.Schema(age=vf.Numeric(17, 90, integer=True), sex=vf.Categorical("F", "M"), label="sex")

    Args:
        columns_mapping: Columns by name, for names that are not Python identifiers.
        label: The name of the column to predict from the others. (A `Column` here declares a column
            named "label"; likewise for `constraints`.)
        constraints: What every row satisfies: `Derived`, `Near`, `MissingIf`, `MissingTogether`,
            `AtMost`, `Between`, `Allowed`.
        columns: Columns by name.

    Attributes:
        columns: Columns by name, in order. Not to be changed.
        label: The name of the label, if there is one.
        constraints: The constraints that every row satisfies.
    """

    columns: dict[str, Column]
    label: str | None
    constraints: tuple[Constraint, ...]

    def __init__(
        self,
        columns_mapping: Mapping[str, Column] | None = None,
        /,
        *,
        label: str | Column | None = None,
        constraints: Sequence[Constraint] | Column = (),
        **columns: Column,
    ) -> None:
        by_name: dict[Any, Any] = dict(columns_mapping or {})
        if isinstance(label, Column):
            columns["label"], label = label, None
        if isinstance(constraints, Column):
            columns["constraints"], constraints = constraints, ()
        twice = by_name.keys() & columns.keys()
        if twice:
            raise ValueError(f"the column name {min(twice)!r} occurs twice. Rename one of them.")
        by_name |= columns
        for name, column in by_name.items():
            if not isinstance(name, str):
                raise TypeError(f"names of columns must be text, got {type(name).__name__}.")
            if not isinstance(column, Column):
                raise TypeError(
                    f"column {name!r} must be one of {', '.join(k.__name__ for k in KINDS.values())}"
                    f", got {type(column).__name__}."
                )
            if name != name.strip():
                raise ValueError(f"the column name {name!r} has spaces around it. Remove them.")
        check_names(tuple(by_name))
        if label is not None and label not in by_name:
            raise ValueError(f"label must name a column, got {label!r}.")
        object.__setattr__(self, "columns", by_name)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "constraints", tuple(constraints))
        for constraint in self.constraints:
            check_constraint(constraint, by_name)
        _ = self.core  # raises if constraints contradict each other

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.columns)

    @cached_property
    def rules(self) -> Rules:
        """How each column that follows from others does, in an order in which they are computed."""
        return rules_of(self.constraints)

    @cached_property
    def core(self) -> "Schema":
        """What a model learns, and what encoded rows consist of; the schema itself if nothing follows.

        Columns that are derived are not in it. One that lies near another is there as its difference
        from it; clock times are there as minutes, and listed numbers as places in their list.
        """
        columns = core_columns(self.columns, self.rules)
        constraints = core_constraints(self.constraints, self.columns, self.rules)
        if columns == self.columns and constraints == self.constraints:
            return self
        label = self.label if self.label in columns else None
        return Schema(columns, label=label, constraints=constraints)

    @cached_property
    def rewritten(self) -> frozenset[str]:
        """The columns that the core has in another form."""
        core = self.core.columns
        return frozenset(name for name in core if core[name] != self.columns[name])

    def bounded(self) -> "Schema":
        """The schema with bounds for the columns that follow from others and declare none."""
        return self.with_columns(bounded(self.columns, self.rules))

    @property
    def unconfirmed(self) -> dict[str, tuple[str, ...]]:
        """By column, the facts that were read from data and that nobody has confirmed."""
        return {name: c.unconfirmed for name, c in self.columns.items() if c.unconfirmed}

    @property
    def open(self) -> tuple[str, ...]:
        """The columns whose values or bounds are undeclared and must be discovered, for a price."""
        return tuple(
            name
            for name, column in self.columns.items()
            if isinstance(column, OpenCategorical)
            or (isinstance(column, Numeric) and column.low is None)
        )

    def with_columns(self, columns: Mapping[str, Column]) -> "Schema":
        """The schema with some columns declared anew, for example with discovered bounds."""
        for name in columns:
            self._column(name)
        return Schema({**self.columns, **columns}, label=self.label, constraints=self.constraints)

    def with_constraints(self, *constraints: Constraint) -> "Schema":
        """The schema with more constraints, for example with relations that were discovered."""
        both = (*self.constraints, *constraints)
        return Schema(self.columns, label=self.label, constraints=both)

    def confirm(self, *names: str, facts: Sequence[str] | None = None) -> "Schema":
        """Declare that what the schema says about these columns is public; about all if none is named.

        Only a person who knows where each fact comes from can declare so.

        Args:
            names: The columns.
            facts: Only these facts, such as `["kind"]`; all of them if None.
        """
        columns = {name: self._column(name) for name in names or self.names}
        known = {fact for column in columns.values() for fact in column.facts}
        for fact in facts or ():
            if fact not in known:
                words = ", ".join(sorted(known))
                raise ValueError(f"facts must be among {words} for these columns, got {fact!r}.")
        for name, column in columns.items():
            left = () if facts is None else [f for f in column.unconfirmed if f not in facts]
            columns[name] = replace_column(column, unconfirmed=left)
        return self.with_columns(columns)

    def forget_unconfirmed(self) -> "Schema":
        """The schema without any fact that was read from data; these are discovered, for a price.

        Bounds become unknown, lists open, columns nullable, numbers real. The names of columns stay:
        whoever passes a schema declares them.

        Raises:
            PrivacyError: If an unconfirmed fact cannot be discovered: the kind of a column, the range
                of a datetime, the order of values, or the values in a constraint.
        """
        kinds = [name for name, facts in self.unconfirmed.items() if "kind" in facts]
        if kinds:
            raise PrivacyError(
                f"nobody has confirmed the kinds of the columns {', '.join(kinds)}. They were read "
                "from the data, where one odd cell may decide them, and no budget discovers them. "
                'Check each kind, and confirm it: confirmed = ["kind"] in the file, or '
                'schema.confirm(facts=["kind"]).'
            )
        changed = {n: _forgotten(n, c) for n, c in self.columns.items() if c.unconfirmed}
        for constraint in self.constraints:
            if isinstance(constraint, MissingIf | MissingTogether):
                continue  # about gaps, whatever the values are
            for name in constraint.columns:
                if type(changed.get(name, self.columns[name])) is not type(self.columns[name]):
                    raise PrivacyError(
                        f"the values of column {name!r} are not confirmed, but a constraint uses "
                        "them. Confirm them, or remove the constraint."
                    )
        return self.with_columns(changed)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values that `from_json` takes back."""
        return schema_file.to_json(self.columns, self.label, self.constraints)

    @classmethod
    def from_json(cls, document: Mapping[str, Any], /) -> "Schema":
        """The schema that `to_json` described.

        Raises:
            ValueError: If a field is unknown, missing or not allowed.
        """
        columns, label, constraints = schema_file.from_json(document)
        return cls(columns, label=label, constraints=constraints)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Schema":
        """Read a schema from a TOML file; `to_file` and `veilflow schema` write such files.

        Raises:
            ValueError: If the file is not TOML, or a field is unknown or not allowed.
            OSError: If there is no such file, or it may not be read.
        """
        data = Path(path).read_bytes()
        try:
            return cls.from_json(schema_file.parse(data))
        except ValueError as error:
            raise ValueError(f"{Path(path).name}: {error}") from None

    def to_file(
        self,
        path: str | os.PathLike[str],
        *,
        notes: Mapping[str, Sequence[str]] | None = None,
        ending: Sequence[str] = (),
    ) -> None:
        """Write the schema to a TOML file, all or nothing, with a note at all that is not public.

        While anything is unconfirmed, only the user may read the file.

        Args:
            path: The file.
            notes: By column, comments to write above it.
            ending: Lines of comments for the end of the file. They may hold facts about the data, so
                that only the user may read a file with them.
        """
        mode = 0o600 if self.unconfirmed or ending else 0o666
        text = schema_file.to_text(self, notes or {}, ending)
        write_atomic(path, text.encode("utf-8"), mode=mode)

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            raise ValueError(f"there is no column {name!r} in the schema.")
        return self.columns[name]

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.columns.items()), self.label, self.constraints

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        lines = [f"    {name}: {column!r}" for name, column in self.columns.items()]
        lines += [f"    label: {self.label}"] if self.label is not None else []
        lines += [f"    {constraint!r}" for constraint in self.constraints]
        if self.unconfirmed:
            lines.append("    not public until confirmed: " + ", ".join(self.unconfirmed))
        return "\n".join(["Schema(", *lines, ")"])


def replace_column(column: Column, **changes: Any) -> Column:
    """A column with some facts changed."""
    if isinstance(column, Listed | ListedNumeric):
        facts = {"nullable": column.nullable, "unconfirmed": column.unconfirmed, **changes}
        return type(column)(*facts.pop("values", column.values), **facts)
    if isinstance(column, Clock):
        facts = {name: getattr(column, name) for name in (*column.facts[1:], "unconfirmed")}
        return Clock(**{**facts, **changes})
    return replace(column, **changes)


def _forgotten(name: str, column: Column) -> Column:
    """The column without its unconfirmed facts, as wide as its kind allows."""
    facts = set(column.unconfirmed)
    nullable = column.nullable or "nullable" in facts
    if isinstance(column, Clock):
        whole_day = {"low": 0, "high": 2359} if facts & {"low", "high"} else {}
        return replace_column(column, nullable=nullable, unconfirmed=(), **whole_day)
    if isinstance(column, ListedNumeric):
        known = replace_column(column, nullable=nullable, unconfirmed=())
        return Numeric(nullable=nullable) if "values" in facts else known
    if isinstance(column, Numeric):
        unknown = bool(facts & {"low", "high"})
        real = "integer" in facts
        return Numeric(
            None if unknown else column.low,
            None if unknown else column.high,
            integer=column.integer and not real,
            resolution=None if real or "resolution" in facts else column.resolution,
            decimal=column.decimal,
            spikes=None if facts & {"integer", "resolution", "low"} else column.spikes,
            nullable=nullable,
        )
    if facts == {"nullable"}:
        return replace_column(column, nullable=True, unconfirmed=())
    if isinstance(column, Categorical | Boolean):
        return OpenCategorical(nullable=nullable)
    raise PrivacyError(
        f"column {name!r} ({column.kind}) is not confirmed, and its {', '.join(sorted(facts))} "
        "cannot be discovered for a price. Declare them from what is publicly known."
    )
