"""Folders of image files: one sub-folder for each class, or one folder and a list of labels.

Names of files may be names of people. So errors give the place of a file in the order of reading, and
`image_files` lists that order for whoever may see the names.

The size that a file claims is checked before it is unpacked. Whatever pillow raises on hostile bytes
becomes an `InvalidImage` without pillow's message, which may quote the file.
"""

import contextlib
import os
import posixpath
import stat
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from veilflow._core.lines import records, split_line
from veilflow.images.arrays import empty_pixels, to_pixels
from veilflow.images.image_set import NOT_A_CLASS, class_places
from veilflow.images.resample import Fitting, InvalidImage
from veilflow.images.spec import ImageSpec

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (
    ".png",
    ".jpg",
    ".jpeg",
    ".bmp",
    ".gif",
    ".ppm",
    ".pgm",
    ".pbm",
    ".pnm",
    ".tif",
    ".tiff",
)
"""The suffixes of image files, in lower case."""

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF")
_ALPHA = ("LA", "PA", "RGBA")
_CLUTTER = ("thumbs.db", "desktop.ini", "__macosx")
"""Files that operating systems leave in folders; ignored, as hidden files are."""
_NAMES = ("file", "label")
_NOT_FLAT = "is a folder. Declare classes, after which sub-folders are named, or move it."


class Entry(NamedTuple):
    """A file of a folder: its path below the folder, its label, and a problem if one is known."""

    name: str
    label: str | None = None
    problem: str | None = None


def image_files(folder: str | os.PathLike[str], spec: ImageSpec) -> list[Path]:
    """The files of a folder, in the order in which `read_images` reads and counts them.

    An error about file 3 means the third path of this list. If classes are declared, these are the
    files in sub-folders, else those in the folder itself.
    """
    entries = list_folder(Path(folder), labeled=bool(spec.classes))
    return [Path(folder) / entry.name for entry in entries]


def list_folder(folder: Path, *, labeled: bool) -> list[Entry]:
    """The entries of a folder and of one level of sub-folders, sorted by sub-folder and name.

    Links to files and folders are followed, but only down to one level, so that no link leads in a
    circle.

    Args:
        folder: The folder.
        labeled: Whether images lie in sub-folders, whose names are their labels.
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
        items = list(_scan(folder / name))
    except OSError:  # its message would show the name, which is a label and may not be declared
        return [Entry(name, None, "is a folder that cannot be opened. Change who may read it.")]
    deeper = "is a folder within that of a class. Move it."
    return [Entry(f"{name}/{inner}", name, deeper if is_dir else None) for inner, is_dir in items]


def list_csv(path: Path, names: Sequence[str] | None) -> list[Entry]:
    """The files and labels that a CSV lists, in its order; each line is one image, read by itself."""
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
    entries = [_line(cells, *places) for cells in lines]
    # Of several lines with one file all are refused, and not all but the first: what becomes of a
    # file then depends on its own lines alone.
    times = Counter(entry.name for entry in entries if not entry.problem)
    problem = "is listed more than once. Keep one line for each image."
    return [e._replace(problem=problem) if times[e.name] > 1 else e for e in entries]


def read_entries(
    folder: Path, entries: Sequence[Entry], spec: ImageSpec, *, fitting: Fitting, invalid: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """The pixels and the classes of these files, read one by one into one array."""
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
                    raise InvalidImage("has pixels that are not numbers (NaN). Replace them.")
            except InvalidImage as error:
                if invalid == "error":
                    raise ValueError(
                        f"file {place + 1} {error} (Files are counted from 1 in the order of "
                        "image_files(), or of the list of labels. invalid='skip' leaves such files "
                        "out.)"
                    ) from None
                continue
            pixels[len(kept)] = block[0]
            kept.append(place)
    return pixels[: len(kept)], None if labels is None else labels[kept]


def _check_entry(folder: Path, entry: Entry, place: int | None) -> None:
    if entry.problem:
        raise InvalidImage(entry.problem)
    if place == NOT_A_CLASS:
        raise InvalidImage("has a label that is not in the class list. Declare it, or correct it.")
    if not entry.name.lower().endswith(SUFFIXES):
        raise InvalidImage(f"is not an image file, which ends in one of {', '.join(SUFFIXES)}.")
    try:
        regular = stat.S_ISREG(os.stat(folder / entry.name).st_mode)
    except (OSError, ValueError):  # not there, a circle of links, or a name that no system allows
        regular = False
    if not regular:  # a pipe would be waited for
        raise InvalidImage("does not exist, or is not a file. Correct its name, or the link.")


def _scan(folder: Path) -> Iterator[tuple[str, bool]]:
    """The names in a folder, sorted, and whether each is a folder; without hidden files and clutter."""
    names = []
    with os.scandir(folder) as items:
        for item in items:
            if item.name.startswith(".") or item.name.lower() in _CLUTTER:
                continue
            try:
                names.append((item.name, item.is_dir()))
            except OSError:  # a circle of links
                names.append((item.name, False))
    yield from sorted(names)


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


@contextlib.contextmanager
def decoding() -> Iterator[Any]:
    """Pillow, with its warnings silenced and decompression bombs refused within the block.

    Raises:
        ImportError: If pillow is not installed.
    """
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise ImportError(
            "image files are read by pillow, which is not installed. Install it with "
            "pip install 'veilflow[images]', or give the images as an array."
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they concern the metadata of single files
        # pillow warns of bombs at half the size at which it refuses them
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        yield PIL


def decode(path: Path, spec: ImageSpec, fitting: Fitting, pillow: Any) -> np.ndarray:
    """The pixels (channels, height, width) of a file, rotated as its EXIF data say.

    Raises:
        InvalidImage: If the file cannot be read, or is not as declared.
    """
    bombs = (pillow.Image.DecompressionBombError, pillow.Image.DecompressionBombWarning)
    try:
        with open(path, "rb") as file, pillow.Image.open(file, formats=_FORMATS) as image:
            _check_claims(image, spec, fitting)
            array = _plain(pillow.ImageOps.exif_transpose(image))
    except InvalidImage:
        raise
    except bombs:
        raise InvalidImage(
            "has more pixels than pillow's limit against decompression bombs. Make it smaller first."
        ) from None
    except Exception:  # pillow lets many kinds of error out of a damaged file
        raise InvalidImage(
            "cannot be read: it is damaged, truncated, not an image, or not yours to open. Replace it."
        ) from None
    _check_depth(array, spec)
    if spec.channels == 1 and len(array) == 3 and _is_gray(image.mode, array):
        array = array[:1]
    fitting.check(array.shape, spec)
    return array


def _check_claims(image: "Image.Image", spec: ImageSpec, fitting: Fitting) -> None:
    """Refuse what can be refused before anything is unpacked."""
    # photographs of some cameras (MPO) hold small copies of themselves behind the first picture
    if image.format != "MPO" and getattr(image, "is_animated", False):
        raise InvalidImage("holds several pictures, as animations do. Keep one of them.")
    may_fit = sorted(image.size) == sorted((spec.width, spec.height))  # lying on its side or not
    if fitting.size == "error" and fitting.crop is None and not may_fit:
        fitting.check((spec.channels, image.height, image.width), spec)


def _plain(image: "Image.Image") -> np.ndarray:
    """Gray or color pixels, channels first, in the type that the file has."""
    if "transparency" in image.info and image.mode in ("1", "L", "P", "RGB"):
        image = image.convert("RGBA")
    if image.mode in _ALPHA:
        image = _opaque(image)
    if image.mode == "1":
        image = image.convert("L")
    if image.mode == "P":
        image = image.convert("RGB")
    if image.mode not in ("L", "RGB", "I", "F") and not image.mode.startswith("I;16"):
        raise InvalidImage(
            f"has the color mode {image.mode}; gray, color (RGB) and palette images are read. "
            "Convert it first."
        )
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else np.moveaxis(array, 2, 0)


def _opaque(image: "Image.Image") -> "Image.Image":
    """The image without its alpha channel, which must not hide anything."""
    if image.mode == "PA":
        image = image.convert("RGBA")
    if image.getchannel("A").getextrema() != (255, 255):
        raise InvalidImage("is transparent in places. Put it on a background by a public rule.")
    return image.convert("L" if image.mode == "LA" else "RGB")


def _is_gray(mode: str, array: np.ndarray) -> bool:
    """Whether a gray image, or one with a palette of grays, was decoded as color."""
    return mode in ("1", "L", "P") and bool((array == array[:1]).all())


def _check_depth(array: np.ndarray, spec: ImageSpec) -> None:
    """Refuse a declared range that would make all images black or white."""
    if array.dtype.kind == "f":
        return
    if array.dtype == np.uint8 and spec.high > 255:
        raise InvalidImage(
            f"has pixels of 8 bits, which end at 255, but the declared range ends at {spec.high:g}. "
            "Declare high=255, or convert it."
        )
    if array.dtype != np.uint8 and spec.high <= 255:
        raise InvalidImage(
            f"has pixels of more than 8 bits, but the declared range ends at {spec.high:g}. Declare "
            "the range of the device (often high=65535), or convert it."
        )
