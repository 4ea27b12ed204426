"""Files of labeled records: a column of labels beside features, or series with their labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilflow._core.npz import npz_names

if TYPE_CHECKING:
    import numpy as np

_SERIES = ("values", "mask", "since")


def is_series(data: Path) -> bool:
    """Whether a file is an NPZ of series with gaps."""
    return npz_names(data).issuperset(_SERIES)


def read_series(data: Path) -> tuple["np.ndarray", ...]:
    """Values, mask and time since, each of shape (records, time, features)."""
    return tuple(_array(data, name) for name in _SERIES)


def feature_names(
    data: Path, label: str, *, flag: str = "--label", invalid: str = "error"
) -> list[str]:
    """The columns of a table but that of labels, which `flag` names, in their order."""
    from veilflow.tabular.frames import open_table

    names = open_table(data, chunk=1, by_line=invalid == "replace").names
    _check_label(label, names, flag=flag)
    return [name for name in names if name != label]


def read_labels(data: Path, label: str | None, *, invalid: str = "error") -> list[str]:
    """The label of each record, as text.

    Args:
        data: The file.
        label: The column of labels; None for the array of an NPZ file.
        invalid: What to do about missing labels: "error", or "replace" them by "", which is no class.

    Raises:
        ValueError: There is no such column, or a label is missing. Shows none of them.
    """
    from veilflow.tabular.frames import label_column, label_word

    if label is None:
        found = _array(data, "labels")
        if found.ndim != 1:
            raise ValueError(f"labels in {data} must be one number or text for each record.")
        return [label_word(cell) for cell in found.tolist()]
    from veilflow.tabular.frames import open_table

    _check_label(label, open_table(data, chunk=1, by_line=invalid == "replace").names)
    labels = label_column(data, label, invalid=invalid)
    if invalid == "error" and "" in labels:
        raise ValueError(f"column {label!r} has missing cells. Every record needs a label.")
    return labels


def _check_label(label: str, names: tuple[str, ...], *, flag: str = "--label") -> None:
    if label not in names:  # which are not shown: without a header, the first line is a record
        raise ValueError(
            f"{flag} {label!r} is not a column. Does the first line of the table name the columns, and "
            "is the name spelled as there?"
        )


def _array(data: Path, name: str) -> "np.ndarray":
    import numpy as np

    with open(data, "rb") as file:
        try:
            found: Any = np.load(file, allow_pickle=False)
            array = found[name] if name in found.files else None
        except Exception:  # NumPy lets many kinds of error out of a damaged file
            raise ValueError(
                f"{data} is not a readable NPZ file of plain numbers: damaged, foreign, or holding "
                "Python objects."
            ) from None
    if not isinstance(array, np.ndarray):  # a member that is no array comes back as its bytes
        raise ValueError(f"{data} has no array {name!r}. Series need values, mask, since, labels.")
    return array
