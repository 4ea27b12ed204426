"""`veilflow sample`, `veilflow score` and `veilflow impute`: use a fitted model."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.flags import refuse
from veilflow.cli.output import check_folder, emit, guarded, note, tell, unprotected

if TYPE_CHECKING:
    from veilflow.images import ImageSpec

_OF_IMAGES = "is for models of images. Leave it out."


@guarded
def sample(
    model: options.Model,
    output: options.Output,
    num_rows: Annotated[int, typer.Option("--num-rows", "--rows", "--num-images", "-n")] = 1000,
    given: list[str] | None = None,
    label: str | None = None,
    sharpen: float | None = None,
    seed: options.Seed = None,
) -> None:
    """Draw synthetic rows or images from a model. Costs no privacy, however many are drawn.

    Flags:
        out: The file to write: .csv, .parquet, .arrow, .npz. For images: .npz, .png (side by side),
            or a folder.
        num_rows: How many rows, also more than fit into memory; or how many images.
        given: For tables: column=value that all rows have; no value for a gap. Repeatable.
        label: For images: the class.
        sharpen: For images: smooth, then sharpen by this factor; 5 for digits.
    """
    from veilflow.engine.progress import counting_bar
    from veilflow.images.write import write_images
    from veilflow.models import registry
    from veilflow.tabular.stream import file_format

    fitted, out = registry.load(model), output.out
    if is_image(fitted):
        refuse({"--given": given}, "is for models of tables. Leave it out.")
        _check_image_out(output, fitted.spec, model)
        drawn = fitted.sample(num_rows, label=label, sharpen=sharpen, seed=seed)
        write_images(drawn, out)
        result, text = {"out": out, "num_images": num_rows}, f"wrote {num_rows} images to {out}"
        tell(result, text, fitted.guarantee, as_json=output.as_json)
        return
    if not hasattr(fitted, "sample_to"):
        raise ValueError(
            f"{model} has no rows to draw. Draws of a posterior are made by posterior sample."
        )
    refuse({"--label": label, "--sharpen": sharpen}, _OF_IMAGES)
    output.check(model)
    file_format(out)  # refuse a suffix before the work, not after
    settings = {"given": _cells(fitted, given)} if given else {}
    with counting_bar("sampling", num_rows) as monitor:
        fitted.sample_to(out, num_rows, seed=seed, monitor=monitor, **settings)
    result, text = {"out": out, "num_rows": num_rows}, f"wrote {num_rows} rows to {out}"
    tell(result, text, fitted.guarantee, as_json=output.as_json)


@guarded
def score(
    model: options.Model,
    data: options.File,
    output: options.Output,
    label: str | None = None,
    encoding: options.Encoding = None,
    reveal: bool = False,
) -> None:
    """Write the log density of every row of a file. Scores of private rows are private too.

    For images, write how unlike the class --label each one is: minus the log density of its code.

    Nothing about the rows is printed unless --reveal is given: a mean over private rows, or even
    their number, would be a release that nobody has paid for.

    Flags:
        data: Rows to score, with the model's columns; or images.
        out: The file to write: one log density per row, or one score per image.
        label: For images: the class.
        reveal: Also print the mean. It is not private.
    """
    output.check(model, data)
    from veilflow.models import registry
    from veilflow.tabular.io import Rows, read_rows, write_rows
    from veilflow.tabular.stream import file_format

    out = output.out
    file_format(out)
    fitted = registry.load(model)
    if is_image(fitted):
        rows, name, words = "images", "ood_score", "score"
        scores = fitted.ood_score(_images_to_score(data, fitted.spec), label=label)
    else:
        refuse({"--label": label}, _OF_IMAGES)
        rows, name, words = "rows", "log_prob", "log density"
        source = options.as_text(data, encoding)
        if is_table(fitted):
            scores = fitted.log_prob(source, extra="ignore")
        else:
            scores = fitted.log_prob(read_rows(source, columns=fitted.columns))
    # as private as the rows they are about
    write_rows(Rows(scores.reshape(-1, 1), (name,)), out, mode=0o600)
    warning = unprotected(
        f"the scores are computed from the {rows} themselves and are as private as they are"
    )
    result: dict[str, Any] = {"out": out, **warning}
    text = f"wrote {out}"
    if reveal:
        mean = float(scores.mean()) if len(scores) else float("nan")
        result[f"mean_{name}"] = mean
        text += f"\nmean {words} {mean:.6g} (not private)"
    emit(result, text, as_json=output.as_json)


@guarded
def impute(
    model: options.Model,
    data: options.File,
    output: options.Output,
    encoding: options.Encoding = None,
    seed: options.Seed = None,
) -> None:
    """Fill the gaps of a table with draws from a table model, given the other cells of each row.

    The filled table is as private as the table: the model's guarantee does not cover it.

    Flags:
        data: A table with gaps, with the model's columns.
        out: The file to write: .csv, .parquet, .arrow.
    """
    output.check(model, data)
    from veilflow.models import registry
    from veilflow.tabular.stream import file_format, write_tables

    file_format(output.out)
    fitted = registry.load(model)
    if not is_table(fitted):
        raise ValueError(f"{model} is no model of a table: it knows no gaps. Fit one by fit table.")
    source = options.as_text(data, encoding)
    filled = fitted.impute(source, seed=seed, like="pyarrow", extra="ignore")
    _note_left_out(source, fitted.columns)
    write_tables([filled], output.out, schema=filled.schema, mode=0o600)
    warning = unprotected("the filled rows are as private as the rows")
    emit({"out": output.out, **warning}, f"wrote {output.out}", as_json=output.as_json)


def _note_left_out(data: Any, columns: tuple[str, ...]) -> None:
    """Say which columns of a table are not in the result, because the model does not know them."""
    from veilflow.tabular.frames import open_table

    unknown = [name for name in open_table(data, chunk=1).names if name not in columns]
    if unknown:
        note(f"left out, as the model does not have them: {', '.join(unknown)}.")


def is_table(fitted: Any) -> bool:
    """Whether a model is one of a table of mixed columns."""
    from veilflow.models.protocols import TableModel

    return isinstance(fitted, TableModel)


def is_image(fitted: Any) -> bool:
    """Whether a model is one of images."""
    from veilflow.models.protocols import ImageModel

    return isinstance(fitted, ImageModel)


def _cells(fitted: Any, given: list[str]) -> dict[str, str | None]:
    """The cells that `--given` fixes, by column."""
    if not is_table(fitted):
        raise ValueError("--given is for models of tables. Leave it out.")
    cells: dict[str, str | None] = {}
    for text in given:
        # the longest first: a name may hold an equals sign itself
        names = sorted(fitted.columns, key=len, reverse=True)
        name = next((name for name in names if text.startswith(f"{name}=")), None)
        if name is None:
            raise ValueError(
                f"--given must be column=value, got {text!r}. The columns are "
                f"{', '.join(fitted.columns)}."
            )
        if name in cells:
            raise ValueError(f"--given names {name!r} twice.")
        cells[name] = text[len(name) + 1 :] or None
    return cells


def _check_image_out(output: options.Output, spec: "ImageSpec", model: Path) -> None:
    """Raise unless images can be written to a folder, or to a file, without losing anything."""
    from veilflow.images.write import FOLDER, target_kind

    if target_kind(output.out, spec) == FOLDER:
        check_folder(output.out)
    else:
        output.check(model)


def _images_to_score(data: Path, spec: "ImageSpec") -> Any:
    """Images of any class; a folder with one sub-folder for each class is read by these."""
    from veilflow.images import image_files, read_images

    bare = replace(spec, classes=())
    if spec.classes and data.is_dir() and any(path.is_dir() for path in image_files(data, bare)):
        return read_images(data, spec)
    return data
