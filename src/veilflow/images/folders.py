"""Folders of image files: one sub-folder for each class, or one folder and a list of labels.

Names of files may be names of people. So errors say which file it is in the order of reading, and
`image_files` lists that order for whoever may see the names.
"""

import os
import posixpath
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

import numpy as np

from veilflow._core.lines import records, split_line
from veilflow.images.arrays import empty_pixels, to_pixels
from veilflow.images.classes import NOT_A_CLASS, class_places
from veilflow.images.decode import SUFFIXES, decode, decoding
from veilflow.images.resample import Fitting, InvalidImage
from veilflow.images.spec import ImageSpec

_CLUTTER = ("thumbs.db", "desktop.ini", "__macosx")
"""What systems leave in folders; like hidden files, it is not looked at."""
_NAMES = ("file", "label")
_NOT_FLAT = "is a folder. Declare classes, which sub-folders are named by, or move it."


class Entry(NamedTuple):
    """A file of a folder: its path below the folder, its label, and what is wrong with it if known."""

    name: str
    label: str | None = None
    problem: str | None = None


def image_files(folder: str | os.PathLike[str], spec: ImageSpec) -> list[Path]:
    """What is in a folder, in the order in which `read_images` reads and counts it.

    An error about file 3 means the third path of this list. With classes declared, these are the
    contents of sub-folders, else those of the folder itself.
    """
    entries = list_folder(Path(folder), labeled=bool(spec.classes))
    return [Path(folder) / entry.name for entry in entries]


def list_folder(folder: Path, *, labeled: bool) -> list[Entry]:
    """What is in a folder and one level of sub-folders, sorted by sub-folder and name.

    Links to files and folders are followed, but nothing lies deeper than one level, so no link leads
    in a circle.

    Args:
        folder: The folder.
        labeled: Whether images lie in sub-folders, the names of which are their labels, or none does.
    """
    entries = []
    for name, is_folder in _scan(folder):
        if labeled and is_folder:
            entries += _class_entries(folder, name)
        elif labeled:
            entries.append(Entry(name, None, "lies in no sub-folder of a class. Move it."))
        else:
            entries.append(Entry(name, None, _NOT_FLAT if is_folder else None))
    return entries


def _class_entries(folder: Path, name: str) -> list[Entry]:
    try:
        found = list(_scan(folder / name))
    except OSError:  # its message would show the name, which is a label and may not be declared
        return [Entry(name, None, "is a folder that cannot be opened. Change who may read it.")]
    deeper = "is a folder within that of a class. Move it."
    return [Entry(f"{name}/{inner}", name, deeper if is_dir else None) for inner, is_dir in found]


def list_csv(path: Path, names: Sequence[str] | None) -> list[Entry]:
    """The files and labels that a CSV names, in its order; each line is one image, read by itself."""
    file_name, label_name = names or _NAMES
    lines = map(split_line, records(path))
    header = [cell.strip() for cell in next(lines, [])]
    for name in (file_name, label_name):
        if header.count(name) != 1:  # the header is not shown: it may be a record
            raise ValueError(
                f"the first line of {path.name} must name one column {name!r}. Add it, or pass "
                "names=(column of files, column of labels)."
            )
    places = header.index(file_name), header.index(label_name)
    return once([_line(cells, *places) for cells in lines])


def once(entries: list[Entry]) -> list[Entry]:
    """The same entries, where those that name a file that others name are marked as problems.

    All of them and not all but the first: what becomes of a file then depends on its own lines alone.
    """
    seen = Counter(entry.name for entry in entries if not entry.problem)
    problem = "is listed more than once. Keep one line for each image."
    return [e._replace(problem=problem) if seen[e.name] > 1 else e for e in entries]


def read_entries(
    folder: Path, entries: Sequence[Entry], spec: ImageSpec, *, fitting: Fitting, invalid: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Pixels and places of labels of these files, read one by one into one array."""
    kind = np.uint8 if spec.is_byte else np.float32
    pixels = empty_pixels(len(entries), spec, kind)
    labels = class_places((e.label for e in entries), spec) if spec.classes else None
    kept = []
    with decoding() as pillow:
        for place, entry in enumerate(entries):
            try:
                _check_entry(folder, entry, None if labels is None else int(labels[place]))
                image = decode(folder / entry.name, spec, fitting, pillow)
                block, missing = to_pixels(image[None], spec, fitting, kind)
                if missing[0]:
                    raise InvalidImage("has pixels that are no numbers (NaN). Replace them.")
            except InvalidImage as error:
                if invalid == "error":
                    raise ValueError(_refused(place, error)) from None
                continue
            pixels[len(kept)] = block[0]
            kept.append(place)
    return pixels[: len(kept)], None if labels is None else labels[kept]


def _refused(place: int, error: InvalidImage) -> str:
    return (
        f"file {place + 1} {error} (Files are counted from 1 in the order of image_files(), or of "
        "the list of labels. invalid='skip' leaves out such files.)"
    )


def _check_entry(folder: Path, entry: Entry, place: int | None) -> None:
    if entry.problem:
        raise InvalidImage(entry.problem)
    if place == NOT_A_CLASS:
        raise InvalidImage("has a label that is not in the class list. Declare it, or correct it.")
    if not entry.name.lower().endswith(SUFFIXES):
        raise InvalidImage(f"is no image file: it must end in one of {', '.join(SUFFIXES)}.")
    try:
        regular = stat.S_ISREG(os.stat(folder / entry.name).st_mode)
    except (OSError, ValueError):  # not there, a circle of links, a name no system allows
        regular = False
    if not regular:  # a pipe would be waited for
        raise InvalidImage("is not there, or is not a file. Correct its name, or the link.")


def _scan(folder: Path) -> Iterator[tuple[str, bool]]:
    """Names in a folder, sorted, and whether each is a folder; hidden files and clutter left out."""
    found = []
    with os.scandir(folder) as items:
        for item in items:
            if item.name.startswith(".") or item.name.lower() in _CLUTTER:
                continue
            try:
                found.append((item.name, item.is_dir()))
            except OSError:  # a circle of links
                found.append((item.name, False))
    yield from sorted(found)


def _line(cells: list[str], file_place: int, label_place: int) -> Entry:
    if len(cells) <= max(file_place, label_place):
        return Entry("", None, "is in a line with too few cells. Complete it.")
    return entry_of(cells[file_place].strip(), cells[label_place])


def entry_of(name: str, label: str) -> Entry:
    """A listed file, which must lie below the folder."""
    path = posixpath.normpath(name.replace("\\", "/"))
    if not name or posixpath.isabs(path) or path.startswith("..") or PureWindowsPath(path).drive:
        return Entry("", label, "is outside of the folder. Name it by its path within the folder.")
    return Entry(path, label)
