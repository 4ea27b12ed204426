"""`veilflow posterior`: learn the posterior of a regression, tell it, and draw from it."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.bounds import Bounds, read_bounded
from veilflow.cli.inspect import show_plan
from veilflow.cli.labeled import feature_names
from veilflow.cli.output import check_out, emit, guarded, note, safe, statement, tell
from veilflow.cli.spending import begin
from veilflow.cli.values import names as names_of

if TYPE_CHECKING:
    from veilflow.models.posterior.fitted_posterior import FittedPosterior
    from veilflow.tabular.io import Rows

app = typer.Typer(
    help="The posterior of a regression, learned from private records (DP-NF-VI).",
    no_args_is_help=True,
)
Model = Annotated[Path, typer.Argument(help="A posterior, such as p.veil.")]
_DRAWS = 65_536

# a test keeps these words those of the library
Kind = StrEnum("Kind", ["LINEAR", "LOGISTIC", "POISSON"])


@app.callback()
def _group() -> None:
    """The posterior of a regression, learned from private records (DP-NF-VI)."""


@app.command("fit")
@guarded
def fit(
    data: options.Data,
    model: Annotated[
        Kind, typer.Option(help="linear; logistic: a target of 0 and 1; poisson: of counts.")
    ],
    target: Annotated[str, typer.Option(help="The column that is explained.")],
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: options.Out,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns that explain: names, with commas. All others by default."),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="TOML file of declared columns, as fit table takes it.")
    ] = None,
    bounds: options.BoundsFile = None,
    low: Annotated[
        str | None,
        typer.Option(help="Public lower bounds: one number, or one per column, the target last."),
    ] = None,
    high: options.High = None,
    prior_scale: Annotated[
        float,
        typer.Option(
            help="Deviation of the prior of what a column changes from the middle of its bounds to "
            "an end: in half widths of the target's bounds, log odds or log means."
        ),
    ] = 2.0,
    num_records: options.NumRecords = None,
    seed: options.Seed = None,
    checkpoint: options.CheckpointFile = None,
    dry_run: options.DryRun = False,
    policy: options.PolicyFile = None,
    data_ledger: options.DataLedger = None,
    dataset: options.Dataset = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Learn which slopes a regression has, and how sure that is. Models of your own: in Python.

    One row is one record. Bounds are public knowledge; what lies outside is moved to the nearer one.
    The intercept is what is expected where all columns are at the middle of their bounds.
    """
    check_out(out, force=force, inputs=(data, *(file for file in (schema, bounds) if file)))
    import dataclasses

    from veilflow.models.posterior.flow_posterior import FlowPosterior
    from veilflow.models.posterior.regressions import Regression

    allowed = begin(epsilon, delta, policy, data_ledger, dataset, conditional=seed is not None)
    names = _names(data, target, columns)
    rows, box = _read(data, names, schema=schema, low=low, high=high, file=bounds)
    regression = Regression(
        kind=str(model),
        columns=tuple(names[:-1]),
        target=target,
        bounds=(tuple(box[0]), tuple(box[1])),
        prior_scale=prior_scale,
    )
    estimator = FlowPosterior(
        log_likelihood=regression.log_likelihood,
        log_prior=regression.log_prior,
        parameters=regression.parameters,
        start=regression.start,
        scale=regression.scale,
        budget=allowed.budget,
        num_records=num_records,
        seed=seed,
    )
    plan = estimator.plan()
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    with allowed.reserved(lambda: plan.ledger, data=data, checkpoint=checkpoint) as spent:
        records = regression.records(rows.values)
        fitted = estimator.fit(records, progress=True, checkpoint=checkpoint, save_as=out)
        fitted = dataclasses.replace(fitted, regression=regression)
        fitted.save(out)
        spent(fitted.ledger)
    result = {"out": out, **_told(fitted, 0.95)}
    text = f"wrote {out}\n{_table(fitted, 0.95)}\n{statement(fitted.guarantee)}"
    emit(result, text, as_json=as_json)


@app.command("summary")
@guarded
def summary(
    model: Model,
    level: Annotated[float, typer.Option(help="The mass within each interval.")] = 0.95,
    as_json: options.AsJson = False,
) -> None:
    """Means, deviations and intervals of the parameters. Costs no privacy."""
    fitted = _posterior(model)
    told = _told(fitted, level)
    if "warning" in told:
        note(f"warning: {told['warning']}.")
    text = f"{_table(fitted, level)}\n{statement(fitted.guarantee)}"
    emit(told, text, as_json=as_json)


@app.command("sample")
@guarded
def sample(
    model: Model,
    out: Annotated[
        Path, typer.Option(help="The file to write: .csv, .parquet, .arrow, .npz. A column each.")
    ],
    num_draws: Annotated[
        int, typer.Option("--num-draws", "-n", help="How many draws of the parameters.")
    ] = 1000,
    seed: Annotated[int | None, typer.Option(help="For the same draws again.")] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write draws of the parameters. Costs no privacy, however many are drawn."""
    check_out(out, force=force, inputs=(model,))
    from veilflow.tabular.io import Rows, write_rows
    from veilflow.tabular.stream import file_format

    file_format(out)  # refuse a suffix before the work, not after
    fitted = _posterior(model)
    draws = fitted.sample(num_draws, seed=seed)
    write_rows(Rows(draws.astype("float64"), fitted.parameters), out)
    result, text = {"out": out, "num_draws": num_draws}, f"wrote {num_draws} draws to {out}"
    tell(result, text, fitted.guarantee, as_json=as_json)


def _names(data: Path, target: str, columns: str | None) -> list[str]:
    """The columns that explain, and the target."""
    if columns is None:
        return [*feature_names(data, target, flag="--target"), target]
    chosen = names_of(columns)
    if target in chosen:
        raise ValueError(f"--columns lists {target!r}, which is the target. Leave it out.")
    return [*chosen, target]


def _read(
    data: Path,
    names: list[str],
    *,
    schema: Path | None,
    low: str | None,
    high: str | None,
    file: Path | None,
) -> tuple["Rows", Bounds]:
    """The rows, and the bounds that are declared for them."""
    others = [flag for flag in (low, high, file) if flag is not None]
    if schema is None:
        if not others:
            raise ValueError(
                "give --schema, --bounds, or --low and --high. They come from knowledge of the "
                "domain and are never read from the rows."
            )
        rows, box = read_bounded(
            data, ",".join(names), low=low, high=high, file=file, row_norm=None
        )
        assert box is not None
        return rows, box
    if others:
        raise ValueError("give --schema, or --bounds, or --low and --high: one of the three.")
    from veilflow.tabular.io import read_rows

    box = _bounds_of(schema, names)
    return read_rows(data, columns=names), box


def _bounds_of(file: Path, names: list[str]) -> Bounds:
    """Bounds from a schema, every one of them confirmed to be public."""
    from veilflow.tabular.columns import Numeric
    from veilflow.tabular.schema import Schema

    declared = Schema.from_file(file)
    lows, highs = [], []
    for name in names:
        column = declared.columns.get(name)
        if not isinstance(column, Numeric) or column.low is None or column.high is None:
            raise ValueError(
                f"{file} must declare {name!r} as a number with bounds. Do so, or choose --columns."
            )
        if column.unconfirmed:
            raise ValueError(
                f"{file}: what is said of {name!r} was read from data and nobody has confirmed that "
                "it is public. Confirm it in the file if it is."
            )
        lows.append(column.low)
        highs.append(column.high)
    return lows, highs


def _posterior(model: Path) -> "FittedPosterior":
    from veilflow.models import registry
    from veilflow.models.posterior.fitted_posterior import FittedPosterior

    fitted = registry.load(model)
    if not isinstance(fitted, FittedPosterior):
        raise ValueError(f"{model} is no posterior. Fit one by posterior fit, or in Python.")
    return fitted


def _told(fitted: "FittedPosterior", level: float) -> dict[str, Any]:
    """What is known of each parameter, as plain JSON."""
    import numpy as np

    from veilflow._core.codec import plain
    from veilflow.models.posterior.posterior_parts import FEW

    ends = fitted.interval(level)
    medians = np.median(fitted.sample(_DRAWS, seed=0), axis=0)
    columns = zip(fitted.parameters, fitted.mean, fitted.sd, medians, ends, strict=True)
    parameters = [
        {
            "name": name,
            "mean": float(mean),
            "sd": float(sd),
            "median": float(median),
            "interval": [float(end) for end in pair],
        }
        for name, mean, sd, median, pair in columns
    ]
    return {
        "parameters": parameters,
        "level": level,
        "correlation": np.atleast_2d(fitted.correlation).tolist(),
        "regression": plain(fitted.regression),
        "guarantee": fitted.guarantee.to_json(),
        **({"warning": FEW} if fitted.few else {}),
    }


def _table(fitted: "FittedPosterior", level: float) -> str:
    """The same for people."""
    told = _told(fitted, level)
    cells = [["parameter", "mean", "sd", "median", f"{100 * level:g} % interval"]]
    for one in told["parameters"]:
        numbers = [f"{one[name]:.4g}" for name in ("mean", "sd", "median")]
        ends = " to ".join(f"{end:.4g}" for end in one["interval"])
        cells.append([safe(one["name"]), *numbers, ends])
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    regression = fitted.regression
    if regression is not None:
        lines.append(
            f"{safe(regression.kind)} regression of {safe(regression.target)}; the intercept "
            "is where all columns are at the middle of their bounds"
        )
    return "\n".join(lines)
