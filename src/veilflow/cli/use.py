"""`veilflow sample` and `veilflow score`: use a fitted model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli.output import AsJson, Force, check_out, emit, guarded, note, statement

Model = Annotated[Path, typer.Argument(help="A model file, such as m.veil.")]

_UNPROTECTED = (
    "the scores are computed from the rows themselves and are as private as they are: the model's "
    "guarantee does not cover them"
)


@guarded
def sample(
    model: Model,
    out: Annotated[Path, typer.Option(help="The file to write: .csv, .parquet, .arrow, .npz.")],
    num_rows: Annotated[
        int,
        typer.Option(
            "--num-rows", "--rows", "-n", help="How many rows; more than memory holds is fine."
        ),
    ] = 1000,
    seed: Annotated[int | None, typer.Option(help="For the same rows again.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw synthetic rows from a model. Costs no privacy, however many are drawn."""
    check_out(out, force=force, inputs=(model,))
    from veilflow.engine.progress import counting_bar
    from veilflow.models import registry
    from veilflow.tabular.stream import file_format

    file_format(out)  # refuse a suffix before the work, not after
    fitted = registry.load(model)
    with counting_bar("sampling", num_rows) as monitor:
        fitted.sample_to(out, num_rows, seed=seed, monitor=monitor)
    guarantee = fitted.guarantee
    result = {"out": out, "num_rows": num_rows, "guarantee": guarantee.to_json()}
    emit(result, f"wrote {num_rows} rows to {out}\n{statement(guarantee)}", as_json=as_json)


@guarded
def score(
    model: Model,
    data: Annotated[Path, typer.Argument(help="Rows to score, with the model's columns.")],
    out: Annotated[Path, typer.Option(help="The file to write: one log density per row.")],
    reveal: Annotated[
        bool,
        typer.Option("--reveal", help="Also print the mean log density. It is not private."),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the log density of every row of a file. Scores of private rows are private too.

    Nothing about the rows is printed unless --reveal is given: a mean over private rows, or even
    their number, is a release that nobody has paid for.
    """
    check_out(out, force=force, inputs=(model, data))
    from veilflow.models import registry
    from veilflow.tabular.io import Rows, file_format, read_rows, write_rows

    file_format(out)
    fitted = registry.load(model)
    rows = read_rows(data, columns=fitted.columns)
    scores = fitted.log_prob(rows)
    # as private as the rows they are about
    write_rows(Rows(scores.reshape(-1, 1), ("log_prob",)), out, mode=0o600)
    result: dict[str, Any] = {"out": out, "protected": False, "warning": _UNPROTECTED}
    text = f"wrote {out}"
    if reveal:
        mean = float(scores.mean()) if len(scores) else float("nan")
        result["mean_log_prob"] = mean
        text += f"\nmean log density {mean:.6g} (not private)"
    note(f"warning: {_UNPROTECTED}.")
    emit(result, text, as_json=as_json)
