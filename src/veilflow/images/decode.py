"""One image file to one array, through pillow: what is not plainly gray or color is refused.

What a file claims is checked before it is unpacked, and whatever pillow may raise on hostile bytes
comes out as `InvalidImage`, without pillow's own words: they may quote the file.
"""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
"""How the names of image files end, in lower case."""

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF")
_ALPHA = ("LA", "PA", "RGBA")


@contextlib.contextmanager
def decoding() -> Iterator[Any]:
    """Within the block image files can be decoded; gives pillow.

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
        warnings.simplefilter("ignore")  # on odd metadata; and they are about single files
        # pillow warns of bombs from half the size on at which it refuses them
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        yield PIL


def decode(path: Path, spec: ImageSpec, fitting: Fitting, pillow: Any) -> np.ndarray:
    """The pixels (channels, height, width) of a file, turned as its EXIF data say.

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
            "cannot be read: it is damaged, truncated, no image, or not yours to open. Replace it."
        ) from None
    _check_depth(array, spec)
    if spec.channels == 1 and len(array) == 3 and _is_gray(image.mode, array):
        array = array[:1]
    fitting.check(array.shape, spec)
    return array


def _check_claims(image: "Image.Image", spec: ImageSpec, fitting: Fitting) -> None:
    """What can be refused before anything is unpacked."""
    # photographs of some cameras (MPO) hold small copies of themselves behind the first picture
    if image.format != "MPO" and getattr(image, "is_animated", False):
        raise InvalidImage("holds several pictures, as animations do. Keep one of them.")
    may_fit = sorted(image.size) == sorted((spec.width, spec.height))  # lying on its side or not
    if fitting.size == "error" and fitting.crop is None and not may_fit:
        fitting.check((spec.channels, image.height, image.width), spec)


def _plain(image: "Image.Image") -> np.ndarray:
    """Gray or color pixels, channels first, in the type that the file has them in."""
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
    """The same without its alpha channel, which must not hide anything."""
    if image.mode == "PA":
        image = image.convert("RGBA")
    if image.getchannel("A").getextrema() != (255, 255):
        raise InvalidImage("is transparent in places. Put it on a background by a public rule.")
    return image.convert("L" if image.mode == "LA" else "RGB")


def _is_gray(mode: str, array: np.ndarray) -> bool:
    """Whether what was gray, or a palette of grays, came out as color."""
    return mode in ("1", "L", "P") and bool((array == array[:1]).all())


def _check_depth(array: np.ndarray, spec: ImageSpec) -> None:
    """A range of 65535 for bytes, or of 255 for longer numbers, would make all images dark or white."""
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
