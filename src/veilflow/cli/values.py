"""What flags say: lists in one word, what was given at all, and what has no place here."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


def given(**settings: Any) -> dict[str, Any]:
    """Without what was not given: that keeps the default of the library, which is the only one."""
    return {
        name: str(value) if isinstance(value, StrEnum) else value
        for name, value in settings.items()
        if value is not None
    }


def names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",")]


def numbers(flag: str, text: str | None) -> tuple[float, ...] | None:
    """Numbers with commas between them, if there are any."""
    try:
        return None if text is None else tuple(float(cell) for cell in text.split(","))
    except ValueError:
        raise ValueError(
            f"{flag} must be numbers with commas between them, got {text!r}."
        ) from None


def one_or_more(flag: str, text: str | None) -> float | tuple[float, ...] | None:
    """The same, but for a single number, which comes by itself."""
    listed = numbers(flag, text)
    return listed[0] if listed is not None and len(listed) == 1 else listed


def share_or_none(flag: str, text: str | None) -> float | bool | None:
    """A number, or False for the word none."""
    try:
        return False if text == "none" else None if text is None else float(text)
    except ValueError:
        raise ValueError(f"{flag} must be a number or none, got {text!r}.") from None


def sizes(text: str | None) -> tuple[int, ...] | None:
    """Whole numbers with commas between them, if there are any: those of `--hidden`."""
    try:
        return None if text is None else tuple(int(cell) for cell in text.split(","))
    except ValueError:
        raise ValueError(
            f"--hidden must be whole numbers with commas between them, got {text!r}."
        ) from None


def left_out(flags: Mapping[str, Any], why: str) -> None:
    """Raise if one of the flags was given.

    Args:
        flags: What each says.
        why: What to say of the first of them, such as "is for tables. Leave it out."
    """
    for flag, value in flags.items():
        if not (value is None or value is False or value == []):
            raise ValueError(f"{flag} {why}")
