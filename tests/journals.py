"""Journals that were not written by the library: doctored by someone who knows how seals are made."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing

from veilflow._core import journal


def bodies(data: bytes) -> list[bytes]:
    """What the entries of a journal are, the title first."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(data)
        return [body for (body,) in db.execute("SELECT body FROM entries ORDER BY number")]


def forged(entries: Iterable[bytes]) -> bytes:
    """A journal of these, the title first, whatever they are, with seals that fit."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for statement in journal._SCHEMA:
            db.execute(statement)
        last = b""
        for number, body in enumerate(entries):
            last = journal.seal(last, body)
            db.execute(journal._INSERT, (number, body, last))
        return db.serialize()
