"""Whom the guarantee protects, and which data sets count as neighbours."""

import enum


class Adjacency(enum.Enum):
    """Two data sets are neighbours when one unit is..."""

    ADD_REMOVE = "add-remove"
    """... present in one and absent from the other. What every model here promises."""

    REPLACE_ONE = "replace-one"
    """... exchanged for another; a sum then moves by up to twice as much."""


class Unit(enum.Enum):
    """What one person contributes."""

    ROW = "row"
    """One person, one row of a table. The curator vouches that nobody has two."""

    IMAGE = "image"
    """One person, one image with its label."""

    RECORD = "record"
    """One person, one record of another kind: a row with its label, a series, all about a patient."""

    USER = "user"
    """All records of one person, bounded and grouped before they reach the engine."""

    @property
    def single(self) -> bool:
        """Whether it is one record, whatever that is called: such units mean the same and add up."""
        return self is not Unit.USER
