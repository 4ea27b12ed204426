"""`veilflow sample` and `veilflow score` for models of images."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilflow.cli.output import check_folder, check_out, emit, note, statement

if TYPE_CHECKING:
    from veilflow.images import ImageSpec
    from veilflow.models.image.fitted_image import FittedImageFlow

_UNPROTECTED = (
    "the scores are computed from the images themselves and are as private as they are: the model's "
    "guarantee does not cover them"
)


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
    guarantee = fitted.guarantee
    result = {"out": out, "num_images": num_images, "guarantee": guarantee.to_json()}
    emit(result, f"wrote {num_images} images to {out}\n{statement(guarantee)}", as_json=as_json)


def score(
    fitted: "FittedImageFlow",
    data: Path,
    out: Path,
    *,
    label: str | None,
    reveal: bool,
    as_json: bool,
) -> None:
    """Write how unlike a class each image is."""
    from veilflow.tabular.io import Rows, write_rows

    scores = fitted.ood_score(readable(data, fitted.spec), label=label)
    write_rows(Rows(scores.reshape(-1, 1), ("ood_score",)), out, mode=0o600)
    result: dict[str, Any] = {"out": out, "protected": False, "warning": _UNPROTECTED}
    text = f"wrote {out}"
    if reveal:
        mean = float(scores.mean()) if len(scores) else float("nan")
        result["mean_ood_score"] = mean
        text += f"\nmean score {mean:.6g} (not private)"
    note(f"warning: {_UNPROTECTED}.")
    emit(result, text, as_json=as_json)


def readable(data: Path, spec: "ImageSpec") -> Any:
    """Images to score: a folder with one sub-folder for each class is read by these."""
    from dataclasses import replace

    from veilflow.images import image_files, read_images

    bare = replace(spec, classes=())
    if spec.classes and data.is_dir() and any(path.is_dir() for path in image_files(data, bare)):
        return read_images(data, spec)
    return data
