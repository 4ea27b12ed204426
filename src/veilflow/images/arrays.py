"""Arrays of any layout and type as pixels in the declared form, each image by itself."""

from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.images.image_set import to_unit
from veilflow.images.resample import Fitting, InvalidImage
from veilflow.images.spec import ImageSpec

LAYOUTS = ("NHW", "NHWC", "NCHW")
"""The order of an array's axes: images first, then channels, height and width."""

_NUMBERS = "biuf"
_BLOCK = 2**18
"""The number of pixels that are in double precision at a time."""


def from_array(
    source: Any, spec: ImageSpec, *, layout: str | None, fitting: Fitting, invalid: str
) -> tuple[np.ndarray, np.ndarray]:
    """The pixels of all images, and for each image whether it holds a NaN.

    Bytes of an array stay bytes if the declared range is 0 to 255, and are not copied if they have
    the declared layout. Images of a list are read one by one, and become floats.

    Args:
        source: An array, or a list of images.
        spec: The declared size, range and classes.
        layout: The layout of the array, or None to infer it from its shape.
        fitting: What to do about other sizes.
        invalid: "error", or "skip" images of a list that are not as declared: they count as holding
            a NaN.
    """
    if not hasattr(source, "__array__") and not isinstance(source, list | tuple):
        raise TypeError(
            f"images must be a folder, a file, or an array, got {type(source).__name__}."
        )
    if layout is not None:
        check.one_of(LAYOUTS, layout=layout)
    if isinstance(source, list | tuple):
        return _one_by_one(source, spec, layout, fitting, invalid)
    array = np.asarray(source)
    if array.dtype.kind not in _NUMBERS and array.ndim:
        return _one_by_one(array, spec, layout, fitting, invalid)
    array = _channels_first(array, spec, layout, fitting)
    num_images, shape = len(array), array.shape[1:]
    try:
        fitting.check(shape, spec)
    except InvalidImage as error:
        raise ValueError(f"an image of the array {error}") from None
    kind = np.uint8 if spec.is_byte and array.dtype.kind != "f" else np.float32
    if array.dtype == kind == np.uint8 and shape == spec.shape and fitting.crop is None:
        return np.ascontiguousarray(array), np.zeros(num_images, bool)
    pixels = empty_pixels(num_images, spec, kind)
    missing = np.zeros(num_images, bool)
    step = max(1, _BLOCK // max(1, int(np.prod(shape))))
    for start in range(0, num_images, step):
        block = slice(start, start + step)
        pixels[block], missing[block] = to_pixels(array[block], spec, fitting, kind)
    return pixels, missing


def _one_by_one(
    images: Any, spec: ImageSpec, layout: str | None, fitting: Fitting, invalid: str
) -> tuple[np.ndarray, np.ndarray]:
    """Images without a common type: in one array of them, one image would decide the type of all."""
    pixels = empty_pixels(len(images), spec, np.float32)
    missing = np.zeros(len(images), bool)
    for place, image in enumerate(images):
        try:
            one, bad = from_array(
                _numbers(image)[None], spec, layout=layout, fitting=fitting, invalid=invalid
            )
        except (TypeError, ValueError):
            if invalid == "error":
                raise
            pixels[place], missing[place] = 0.0, True
            continue
        pixels[place], missing[place] = to_unit(one[0]), bad[0]
    return pixels, missing


def _numbers(image: Any) -> np.ndarray:
    """One image as an array of numbers."""
    try:
        array = np.asarray(image)
        if array.dtype.kind in _NUMBERS:
            return array
        if array.dtype.kind == "c" and not np.imag(array).any():
            return np.real(array)
        if array.dtype.kind == "O":
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # their messages may quote a pixel
        pass
    raise TypeError("pixels must be real numbers, and the rows of an image must have one length.")


def to_pixels(
    block: np.ndarray, spec: ImageSpec, fitting: Fitting, kind: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The pixels of a block (images, channels, height, width), and which images hold a NaN.

    Values are clipped to the declared range before anything else, so that an infinite one affects
    its own pixel only.
    """
    values = fitting.cropped(block).astype(np.float64, order="C")
    missing = np.isnan(values)
    values[missing] = spec.low
    np.clip(values, spec.low, spec.high, out=values)
    values = fitting.fitted(values, spec)
    if kind == np.uint8:
        pixels = np.rint(values).astype(np.uint8)
    else:
        pixels = np.clip((values - spec.low) / (spec.high - spec.low), 0.0, 1.0).astype(np.float32)
    return pixels, np.asarray(missing.any(axis=(1, 2, 3)))


def empty_pixels(num_images: int, spec: ImageSpec, kind: Any) -> np.ndarray:
    """The array into which images are read."""
    try:
        return np.empty((num_images, *spec.shape), kind)
    except (MemoryError, ValueError):  # NumPy's message would tell how many images there are
        raise MemoryError(
            "the images do not fit into memory at their declared size. Declare a smaller height and "
            "width, or use a machine with more memory."
        ) from None


def _channels_first(
    array: np.ndarray, spec: ImageSpec, layout: str | None, fitting: Fitting
) -> np.ndarray:
    """The array as (images, channels, height, width)."""
    if layout is None:
        layout = _layout(array, spec, fitting)
    if array.ndim != len(layout):
        raise ValueError(
            f"an array of layout {layout} has {len(layout)} dimensions, the first of which counts the "
            f"images, got {array.ndim}."
        )
    if layout == "NHW":
        return array[:, None, :, :]
    return array if layout == "NCHW" else np.moveaxis(array, 3, 1)


def _layout(array: np.ndarray, spec: ImageSpec, fitting: Fitting) -> str:
    """The layout that the shape of an array allows, if there is only one."""
    if array.ndim == 3:
        return "NHW"
    if array.ndim != 4:
        hint = " Reshape flat images first." if array.ndim == 2 else ""
        raise ValueError(
            f"images must have 3 dimensions (images, height, width), or 4 with channels, got "
            f"{array.ndim}.{hint}"
        )
    shape = array.shape[1:]
    fits = [
        name
        for name, order in (("NHWC", (2, 0, 1)), ("NCHW", (0, 1, 2)))
        if _fits(tuple(shape[i] for i in order), spec, fitting)
    ]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise ValueError(
            f"images of shape {shape} may have their channels first or last. Say which: "
            "layout='NCHW' or layout='NHWC'."
        )
    raise ValueError(
        f"images of shape {shape} are not {spec.height} x {spec.width} pixels with {spec.channels} "
        "channel(s), in any order. Correct the specification, or pass size='resize' or "
        "color='convert'."
    )


def _fits(shape: tuple[int, ...], spec: ImageSpec, fitting: Fitting) -> bool:
    try:
        fitting.check(shape, spec)
    except InvalidImage:
        return False
    return True
