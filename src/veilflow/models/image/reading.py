"""Images at the door of a model: read, as `read_images` does, and with labels once."""

from typing import Any

from veilflow.images import Images, ImageSpec, read_images


def labeled_images(images: Any, labels: Any, spec: ImageSpec, *, invalid: str = "error") -> Images:
    """The images in `images`, which may have been read before.

    Raises:
        ValueError: They are not as declared, or have labels twice, or not at all.
    """
    if isinstance(images, Images) and images.labels is not None and labels is not None:
        raise ValueError("these images have their labels already. Leave labels out.")
    return read_images(images, spec, labels=labels, invalid=invalid)
