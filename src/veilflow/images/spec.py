"""The declaration of a set of images: all of it public, none of it read from an image."""

import json
import math
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from veilflow._core import toml
from veilflow._core.fields import convert, count, finite
from veilflow._core.store import write_atomic

_HEAD = "# A set of images, as veilflow reads them. All of it must be public knowledge."
_REQUIRED = ("height", "width")
_HOW = "Write a list of distinct names, or of distinct whole numbers."


@dataclass(frozen=True)
class ImageSpec:
    """The size, the range of pixels and the classes of a set of images.

        vf.ImageSpec(height=28, width=28, classes=range(10))

    All of this is declared and public: it must be known without looking at the images. In particular,
    `classes` is a list that somebody wrote down, in an order that somebody chose. The number of
    images, of all classes or of one, is a fact about the records and does not belong here.

    Args:
        height: The number of rows of pixels.
        width: The number of columns of pixels.
        channels: 1 for gray, 3 for red, green and blue.
        low: The smallest value of a pixel; smaller values are clipped.
        high: The largest value of a pixel; larger values are clipped.
        classes: All labels that an image can have, all text or all whole numbers, in order. Empty if
            images have no labels.
    """

    height: int
    width: int
    channels: int = 1
    low: float = 0.0
    high: float = 255.0
    classes: Sequence[str] | Sequence[int] = ()

    def __post_init__(self) -> None:
        convert(self, height=count(), width=count(), channels=count(), low=finite, high=finite)
        convert(self, classes=lambda _, classes: _classes(classes))
        if self.channels not in (1, 3):
            raise ValueError(f"channels must be 1 (gray) or 3 (color), got {self.channels}.")
        if not self.low < self.high or not math.isfinite(self.high - self.low):
            raise ValueError(
                f"low must be below high, and their distance finite, got {self.low} and {self.high}."
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width: the shape of one image."""
        return self.channels, self.height, self.width

    @property
    def is_byte(self) -> bool:
        """Whether pixels are whole numbers from 0 to 255, which fit into a byte."""
        return (self.low, self.high) == (0.0, 255.0)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values that `from_json` takes back."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "ImageSpec":
        """The specification that `to_json` described.

        Raises:
            ValueError: If a field is unknown, missing or not allowed.
        """
        if not isinstance(document, Mapping):
            raise ValueError("the specification of images must be a table of fields.")
        known = tuple(cls.__dataclass_fields__)
        for field in document:
            if field not in known:
                words = ", ".join(known)
                raise ValueError(f"there is an unknown field {field!r}. Allowed are {words}.")
        for field in _REQUIRED:
            if field not in document:
                raise ValueError(f"the field {field!r} is missing.")
        try:
            return cls(**document)
        except TypeError as error:
            raise ValueError(str(error)) from None

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write the specification to a TOML file that people read and edit, all or nothing."""
        lines = [_HEAD, *(f"{name} = {_toml(value)}" for name, value in self.to_json().items())]
        write_atomic(path, ("\n".join(lines) + "\n").encode("utf-8"))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "ImageSpec":
        """Read the specification from a TOML file.

        Raises:
            ValueError: If the file is not TOML, or a field is unknown or not allowed.
            OSError: If there is no such file, or it may not be read.
        """
        data = Path(path).read_bytes()
        try:
            return cls.from_json(toml.parse(data))
        except ValueError as error:
            raise ValueError(f"{Path(path).name}: {error}") from None


def _classes(classes: Any) -> tuple[str, ...] | tuple[int, ...]:
    """The class list as a tuple of plain text or plain whole numbers."""
    unordered = isinstance(classes, str | bytes | Mapping | set | frozenset)
    if unordered or not hasattr(classes, "__iter__"):
        raise TypeError(f"classes must have an order, got {type(classes).__name__}. {_HOW}")
    names: Sequence[Any] = [c.item() if hasattr(c, "item") else c for c in classes]
    kinds = {type(c) for c in names}
    if not kinds <= {str} and not kinds <= {int}:
        raise TypeError(f"classes must be all text or all whole numbers. {_HOW}")
    if kinds == {str}:
        names = [_name(c) for c in names]
    if len(set(names)) != len(names):
        raise ValueError(f"classes must be distinct, accents composed or not. {_HOW}")
    return tuple(names)


def _name(text: str) -> str:
    """A class name that can be a folder, a cell of a CSV and a string of TOML."""
    if not text or text != text.strip():
        raise ValueError(f"a class must have a name without spaces around it, got {text!r}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("the name of a class must be valid Unicode.") from None
    return unicodedata.normalize("NFC", text)  # as folders may spell accents either way


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # strings of JSON are strings of TOML, except for one character that TOML wants escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
