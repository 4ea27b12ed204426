"""What the overview says about an algorithm, a table or a figure of a paper, as plain data.

No number is written here: a `Number` names a cell, and the overview reads it from the records of its
system and, where the paper's cell has no record, from the rows that the system's tables quote.
"""

from dataclasses import dataclass
from typing import Literal

from reproductions.sheet import Key

Kind = Literal["Algorithm", "Table", "Figure"]
KINDS: tuple[Kind, ...] = ("Algorithm", "Table", "Figure")


@dataclass(frozen=True, kw_only=True)
class Number:
    """One cell that stands for many.

    Attributes:
        ours: The key of our record; None where we have none.
        paper: The key of the paper's cell, where it is not what our record has beside it: of another
            record, or of a quoted row.
        system: Whose record ours is, where it is not that of the paper.
    """

    ours: Key | None = None
    paper: Key | None = None
    system: str = ""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An algorithm, a table or a figure of a paper.

    Tables, sections and pictures of its system that bear its number are linked without being named.

    Attributes:
        kind: Which of the three.
        number: As in the paper.
        what: What it is, in a few words.
        where: Public names of the library, and files of the repository.
        call: A Python expression or a command.
        numbers: Cells that stand for it.
        blocks: Further tables of its system, by their number or short name.
        links: Further sections, from words to a place relative to the page.
        note: Where its terms differ from those of the paper as a whole, or what is left out.
        missing: Why it is not there; empty where it is.
    """

    kind: Kind
    number: int
    what: str
    where: tuple[str, ...] = ()
    call: str = ""
    numbers: tuple[Number, ...] = ()
    blocks: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    note: str = ""
    missing: str = ""

    @property
    def label(self) -> str:
        """Its name in the paper."""
        return f"{self.kind} {self.number}"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a comparison has to say of both sides, each a pair: the paper's, then ours.

    Attributes:
        budget: What was spent, and by whose accounting.
        rows: Which records were learned from and judged by.
        tuning: How settings were chosen.
    """

    budget: tuple[str, str]
    rows: tuple[str, str]
    tuning: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper and everything numbered in it.

    Attributes:
        system: Its reproduction.
        title: As the section of the overview.
        citation: Who wrote it, what it is called, when.
        terms: Of all comparisons, unless an entry notes others.
        counts: How many algorithms, tables and figures it has.
        entries: All of them, in the order of `KINDS` and of their numbers.
    """

    system: str
    title: str
    citation: str
    terms: Terms
    counts: tuple[int, int, int]
    entries: tuple[Entry, ...]
