"""`veilflow sample`, `veilflow score` and `veilflow impute`: use a fitted model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli import options, use_images
from veilflow.cli.output import check_out, emit, guarded, note, tell, unprotected
from veilflow.cli.values import left_out

Seed = Annotated[int | None, typer.Option(help="For the same rows again.")]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--given", help="Of tables: column=value that all rows have; no value for a gap. Repeat it."
    ),
]
Label = Annotated[str | None, typer.Option(help="Of images: the class.")]

_OF_IMAGES = "is for models of images. Leave it out."


@guarded
def sample(
    model: options.Model,
    out: Annotated[
        Path,
        typer.Option(
            help="The file to write: .csv, .parquet, .arrow, .npz. Of images: .npz, .png (side by "
            "side), or a folder."
        ),
    ],
    num_rows: Annotated[
        int,
        typer.Option(
            "--num-rows",
            "--rows",
            "--num-images",
            "-n",
            help="How many rows, more than memory holds is fine; or how many images.",
        ),
    ] = 1000,
    given: Given = None,
    label: Label = None,
    sharpen: Annotated[
        float | None,
        typer.Option(help="Of images: smooth, then sharpen by this factor; 5 for digits."),
    ] = None,
    seed: Seed = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw synthetic rows or images from a model. Costs no privacy, however many are drawn."""
    from veilflow.engine.progress import counting_bar
    from veilflow.models import registry
    from veilflow.tabular.stream import file_format

    fitted = registry.load(model)
    if use_images.is_image(fitted):
        left_out({"--given": given}, "is for models of tables. Leave it out.")
        drawn = {"label": label, "sharpen": sharpen, "seed": seed}
        use_images.sample(fitted, out, num_rows, model=model, force=force, as_json=as_json, **drawn)
        return
    if not hasattr(fitted, "sample_to"):
        raise ValueError(
            f"{model} has no rows to draw. Draws of a posterior are made by posterior sample."
        )
    left_out({"--label": label, "--sharpen": sharpen}, _OF_IMAGES)
    check_out(out, force=force, inputs=(model,))
    file_format(out)  # refuse a suffix before the work, not after
    settings = {"given": _cells(fitted, given)} if given else {}
    with counting_bar("sampling", num_rows) as monitor:
        fitted.sample_to(out, num_rows, seed=seed, monitor=monitor, **settings)
    result, text = {"out": out, "num_rows": num_rows}, f"wrote {num_rows} rows to {out}"
    tell(result, text, fitted.guarantee, as_json=as_json)


@guarded
def score(
    model: options.Model,
    data: Annotated[
        Path, typer.Argument(help="Rows to score, with the model's columns; or images.")
    ],
    out: Annotated[
        Path,
        typer.Option(help="The file to write: one log density per row, or one score per image."),
    ],
    label: Label = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Also print the mean. It is not private.")
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the log density of every row of a file. Scores of private rows are private too.

    Of images, write how unlike the class --label each is: minus the log density of its code.

    Nothing about the rows is printed unless --reveal is given: a mean over private rows, or even
    their number, is a release that nobody has paid for.
    """
    check_out(out, force=force, inputs=(model, data))
    from veilflow.models import registry
    from veilflow.tabular.io import Rows, read_rows, write_rows
    from veilflow.tabular.stream import file_format

    file_format(out)
    fitted = registry.load(model)
    if use_images.is_image(fitted):
        rows, name, words = "images", "ood_score", "score"
        scores = fitted.ood_score(use_images.readable(data, fitted.spec), label=label)
    else:
        left_out({"--label": label}, _OF_IMAGES)
        rows, name, words = "rows", "log_prob", "log density"
        if is_table(fitted):
            scores = fitted.log_prob(data, extra="ignore")
        else:
            scores = fitted.log_prob(read_rows(data, columns=fitted.columns))
    # as private as the rows they are about
    write_rows(Rows(scores.reshape(-1, 1), (name,)), out, mode=0o600)
    warned = unprotected(
        f"the scores are computed from the {rows} themselves and are as private as they are"
    )
    result: dict[str, Any] = {"out": out, **warned}
    text = f"wrote {out}"
    if reveal:
        mean = float(scores.mean()) if len(scores) else float("nan")
        result[f"mean_{name}"] = mean
        text += f"\nmean {words} {mean:.6g} (not private)"
    emit(result, text, as_json=as_json)


@guarded
def impute(
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="A table with gaps, with the model's columns.")],
    out: options.TableOut,
    seed: Seed = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Fill the gaps of a table by draws from a table model, given what is there.

    The filled table is as private as the table: the model's guarantee does not cover it.
    """
    check_out(out, force=force, inputs=(model, data))
    from veilflow.models import registry
    from veilflow.tabular.stream import file_format, write_tables

    file_format(out)
    fitted = registry.load(model)
    if not is_table(fitted):
        raise ValueError(f"{model} is no model of a table: it knows no gaps. Fit one by fit table.")
    filled = fitted.impute(data, seed=seed, like="pyarrow", extra="ignore")
    _note_left_out(data, fitted.columns)
    write_tables([filled], out, schema=filled.schema, mode=0o600)
    warned = unprotected("the filled rows are as private as the rows")
    emit({"out": out, **warned}, f"wrote {out}", as_json=as_json)


def _note_left_out(data: Path, columns: tuple[str, ...]) -> None:
    """Say which columns of a table the model does not know, and so are not in the result."""
    from veilflow.tabular.frames import open_table

    unknown = [name for name in open_table(data, chunk=1).names if name not in columns]
    if unknown:
        note(f"left out, as the model does not have them: {', '.join(unknown)}.")


def is_table(fitted: Any) -> bool:
    """Whether a model is one of a table of mixed columns."""
    from veilflow.models.table.fitted_table import FittedTableFlow

    return isinstance(fitted, FittedTableFlow)


def _cells(fitted: Any, given: list[str]) -> dict[str, str | None]:
    """What `--given` says, by column."""
    if not is_table(fitted):
        raise ValueError("--given is for models of tables. Leave it out.")
    found: dict[str, str | None] = {}
    for text in given:
        # the longest first: a name may hold an equals sign itself
        names = sorted(fitted.columns, key=len, reverse=True)
        name = next((name for name in names if text.startswith(f"{name}=")), None)
        if name is None:
            raise ValueError(
                f"--given must be column=value, got {text!r}. The columns are "
                f"{', '.join(fitted.columns)}."
            )
        if name in found:
            raise ValueError(f"--given names {name!r} twice.")
        found[name] = text[len(name) + 1 :] or None
    return found
