"""What the guarantee protects, and which data sets are neighbors."""

import enum


class Adjacency(enum.Enum):
    """Two data sets are neighbors if one unit is..."""

    ADD_REMOVE = "add-remove"
    """... present in one and absent from the other. Every model here promises this."""

    REPLACE_ONE = "replace-one"
    """... replaced by another one. A sum then moves by up to twice as much."""


class Unit(enum.Enum):
    """What one person contributes to the data."""

    ROW = "row"
    """One row of a table. The curator vouches that nobody has two rows."""

    IMAGE = "image"
    """One image with its label."""

    RECORD = "record"
    """One record of another kind: a row with its label, a time series, all data of a patient."""

    USER = "user"
    """All records of one person, bounded in number and grouped before they reach the engine."""

    @property
    def single(self) -> bool:
        """Whether the unit is one record. Such units differ in name only, so their costs compose."""
        return self is not Unit.USER
