"""What `veilflow sample` and `veilflow score` do for models of images."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilflow.cli.output import check_folder, check_out, tell

if TYPE_CHECKING:
    from veilflow.images import ImageSpec
    from veilflow.models.image.fitted_image import FittedImageFlow


def is_image(fitted: Any) -> bool:
    """Whether a model is one of images."""
    from veilflow.models.image.fitted_image import FittedImageFlow

    return isinstance(fitted, FittedImageFlow)


def sample(
    fitted: "FittedImageFlow",
    out: Path,
    num_images: int,
    *,
    model: Path,
    force: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Draw images and write them to an NPZ, a grid or a folder."""
    from veilflow.images.write import FOLDER, target_kind, write_images

    if target_kind(out, fitted.spec) == FOLDER:
        check_folder(out)
    else:
        check_out(out, force=force, inputs=(model,))
    write_images(fitted.sample(num_images, **settings), out)
    result, text = {"out": out, "num_images": num_images}, f"wrote {num_images} images to {out}"
    tell(result, text, fitted.guarantee, as_json=as_json)


def readable(data: Path, spec: "ImageSpec") -> Any:
    """Images to score: a folder with one sub-folder for each class is read by these."""
    from dataclasses import replace

    from veilflow.images import image_files, read_images

    bare = replace(spec, classes=())
    if spec.classes and data.is_dir() and any(path.is_dir() for path in image_files(data, bare)):
        return read_images(data, spec)
    return data
