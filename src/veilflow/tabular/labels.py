"""Labels of records as text, each by itself: what one label is never changes how another is written."""

from typing import Any

from veilflow.tabular.cells import WrongType, number_word, texts
from veilflow.tabular.frames import open_table

_CHUNK = 65_536


def label_column(source: Any, name: str, *, invalid: str = "error") -> list[str]:
    """The label of each row of a table, as text; "" where there is none.

    Args:
        source: A file or frame, as for `encode`.
        name: The column of labels, which must be there.
        invalid: As for `encode`: with "replace" lines of text are read one by one.
    """
    table = open_table(source, chunk=_CHUNK, by_line=invalid == "replace")
    place = table.names.index(name)
    labels: list[str] = []
    for block in table.blocks:
        try:
            words, places = texts(block(place))
        except WrongType as error:
            raise ValueError(f"column {name!r} has the type {error}, which no label has.") from None
        listed = [*words.to_pylist(), ""]  # the last for cells that are not there: place -1
        labels += [listed[i] for i in places.tolist()]
    return labels


def label_word(label: Any) -> str:
    """A label as a person would write it: 1, not 1.0."""
    return (number_word(label) or "") if isinstance(label, float) else str(label).strip()
