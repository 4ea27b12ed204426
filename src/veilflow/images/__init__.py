"""Images and arrays: a declared specification, files and folders in, grids out."""

from veilflow.images.folders import image_files
from veilflow.images.image_set import Images, to_unit
from veilflow.images.read import read_images
from veilflow.images.spec import ImageSpec
from veilflow.images.write import save_grid

__all__ = [
    "ImageSpec",
    "Images",
    "image_files",
    "read_images",
    "save_grid",
    "to_unit",
]
