"""Images of the class that a detector compares with, where their source tells classes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from veilflow._core.npz import npz_names
from veilflow.images.image_set import Images, class_places
from veilflow.images.read import read_images
from veilflow.images.spec import ImageSpec

_LABELS = {"labels", "y"}


def images_of_class(
    source: Any, spec: ImageSpec, label: Any, *, labels: Any = None, invalid: str = "error"
) -> Images:
    """Those images that are of the class; all of them, where nothing tells which they are.

    Row by row, by each image's own label: an image more or less changes no other.

    Args:
        source: As for `read_images`.
        spec: Of the model.
        label: The class; None where there are none.
        labels: As for `read_images`.
        invalid: As for `read_images`.
    """
    if not isinstance(source, Images):
        if not spec.classes or (labels is None and not tells_classes(source)):
            return read_images(source, replace(spec, classes=()), invalid=invalid)
        source = read_images(source, spec, labels=labels, invalid=invalid)
    if source.labels is None or label is None:
        return source
    return source.take(source.labels == int(class_places([label], spec)[0]))


def tells_classes(source: Any) -> bool:
    """Whether a source has labels in itself: a folder of folders, or an NPZ with an array of them."""
    if isinstance(source, Images):
        return source.labels is not None
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    if path.is_dir():
        return any(one.is_dir() and not one.name.startswith(".") for one in path.iterdir())
    return not _LABELS.isdisjoint(npz_names(path))
