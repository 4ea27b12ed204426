"""`veilflow posterior`: learn the posterior of a regression, summarize it, and draw from it."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.fitting import FitFlags
from veilflow.cli.flags import Settings, SettingsOf, names
from veilflow.cli.output import emit, guarded, note, safe, statement, table, tell
from veilflow.cli.records import Bounded, Bounds, feature_names

if TYPE_CHECKING:
    from veilflow.models.posterior.fitted_posterior import FittedPosterior
    from veilflow.tabular.io import Rows

app = typer.Typer(
    help="What private records tell about the slopes of a regression (DP-NF-VI).",
    no_args_is_help=True,
)
Model = Annotated[Path, typer.Argument(help="A posterior, such as p.veil.")]
_DRAWS = 65_536
_LEVEL = 0.95

# a test compares these words with those of the library
Kind = StrEnum("Kind", ["LINEAR", "LOGISTIC", "POISSON"])


@dataclass(frozen=True, kw_only=True)
class Regressed:
    """Flags that say which column is explained, by which others, and within which bounds.

    Attributes:
        target: The column that is explained.
        columns: Columns that explain it: names, with commas. By default all others.
        schema: TOML file of declared columns, as for fit table.
        bounds: TOML file of public bounds: low and high of each column.
        low: Public lower bounds: one number, or one per column, the target last.
        high: Public upper bounds, like --low.
    """

    target: str
    columns: str | None = None
    schema: Path | None = None
    bounds: Path | None = None
    low: str | None = None
    high: str | None = None

    def read(self, data: Path) -> tuple["Rows", tuple[str, ...], Bounds]:
        """The rows, the columns that explain, and the bounds; the target is the last column."""
        columns = self._columns(data)
        every = [*columns, self.target]
        bounded = Bounded(low=self.low, high=self.high, bounds=self.bounds)
        others = any(value is not None for value in bounded.declared.values())
        if self.schema is None:
            if not others:
                raise ValueError(
                    "give --schema, --bounds, or --low and --high. They come from knowledge of the "
                    "domain and are never read from the rows."
                )
            rows, box = bounded.read(data, every)
            assert box is not None
            return rows, columns, box
        if others:
            raise ValueError("give --schema, or --bounds, or --low and --high: one of the three.")
        from veilflow.tabular.io import read_rows

        box = _bounds_of(self.schema, every)
        return read_rows(data, columns=every), columns, box

    def _columns(self, data: Path) -> tuple[str, ...]:
        if self.columns is None:
            return tuple(feature_names(data, self.target, flag="--target"))
        if self.target in names(self.columns):
            raise ValueError(f"--columns lists {self.target!r}, which is the target. Leave it out.")
        return tuple(names(self.columns))


@app.command("fit")
@guarded
def fit(
    data: options.Data,
    model: Kind,
    flags: FitFlags,
    regressed: Regressed,
    settings: Annotated[
        Settings,
        SettingsOf("veilflow.models.posterior.flow_posterior.FlowPosterior", only=("num_records",)),
    ],
    prior_scale: float = 2.0,
) -> None:
    """Learn the slopes of a regression, and how certain they are. For models of your own use Python.

    One row is one record. Bounds are public knowledge; values outside are moved to the nearer bound.
    The intercept is what is expected where all columns are at the middle of their bounds.

    Flags:
        model: linear; logistic: the target is 0 or 1; poisson: it is a count.
        prior_scale: How much a column may plausibly change the target, from the middle of its bounds
            to an end: a standard deviation, in half widths of the target's bounds, log odds or log
            means.
    """
    fitting = flags.begin(data, regressed.schema, regressed.bounds)
    from veilflow.models.posterior.flow_posterior import FlowPosterior
    from veilflow.models.posterior.regressions import Regression

    rows, columns, (low, high) = regressed.read(data)
    regression = Regression(
        kind=str(model),
        columns=columns,
        target=regressed.target,
        bounds=(tuple(low), tuple(high)),
        prior_scale=prior_scale,
    )
    estimator = FlowPosterior(
        log_likelihood=regression.log_likelihood,
        log_prior=regression.log_prior,
        parameters=regression.parameters,
        start=regression.start,
        scale=regression.scale,
        **fitting.settings,
        **settings,
    )

    def run(**how: Any) -> "FittedPosterior":
        posterior = estimator.fit(regression.records(rows.values), **how)
        posterior = replace(posterior, regression=regression)
        posterior.save(flags.out)
        return posterior

    fitted = fitting.run(estimator.plan(), run, data=data)
    result = _summary(fitted, _LEVEL)
    parts = [f"wrote {flags.out}", *_shown(fitted, result)]
    emit({"out": flags.out, **result}, *parts, as_json=flags.as_json)


@app.command("summary")
@guarded
def summary(
    model: Model,
    level: float = _LEVEL,
    as_json: options.AsJson = False,
) -> None:
    """Print means, standard deviations and intervals of the parameters. Costs no privacy.

    Flags:
        level: The probability within each interval.
    """
    fitted = _posterior(model)
    result = _summary(fitted, level)
    if "warning" in result:
        note(f"warning: {result['warning']}.")
    emit(result, *_shown(fitted, result), as_json=as_json)


@app.command("sample")
@guarded
def sample(
    model: Model,
    output: options.Output,
    num_draws: Annotated[int, typer.Option("--num-draws", "-n")] = 1000,
    seed: options.Seed = None,
) -> None:
    """Write draws of the parameters. Costs no privacy, however many are drawn.

    Flags:
        out: The file to write: .csv, .parquet, .arrow, .npz. A column for each parameter.
        num_draws: How many draws of the parameters.
    """
    output.check(model)
    from veilflow.tabular.io import Rows, write_rows
    from veilflow.tabular.stream import file_format

    out = output.out
    file_format(out)  # refuse a suffix before the work, not after
    fitted = _posterior(model)
    draws = fitted.sample(num_draws, seed=seed)
    write_rows(Rows(draws.astype("float64"), fitted.parameters), out)
    result, text = {"out": out, "num_draws": num_draws}, f"wrote {num_draws} draws to {out}"
    tell(result, text, fitted.guarantee, as_json=output.as_json)


def _bounds_of(file: Path, names: list[str]) -> Bounds:
    """Bounds from a schema, each of which a person has confirmed to be public."""
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
                f"{file}: what it says about {name!r} was read from data, and nobody has confirmed "
                "that it is public. Confirm it in the file if it is."
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


def _summary(fitted: "FittedPosterior", level: float) -> dict[str, Any]:
    """What is known about each parameter, as JSON values."""
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


def _shown(fitted: "FittedPosterior", summary: dict[str, Any]) -> list[Any]:
    """The summary for people: a table, what the regression is, and the guarantee."""
    numbers = ("mean", "sd", "median")
    rows = (
        (
            safe(one["name"]),
            *(f"{one[name]:.4g}" for name in numbers),
            " to ".join(f"{end:.4g}" for end in one["interval"]),
        )
        for one in summary["parameters"]
    )
    interval = f"{100 * summary['level']:g} % interval"
    parts = [table(("parameter", *numbers, interval), rows, numbers=numbers)]
    regression = fitted.regression
    if regression is not None:
        parts.append(
            f"{safe(regression.kind)} regression of {safe(regression.target)}; the intercept "
            "is where all columns are at the middle of their bounds"
        )
    return [*parts, statement(fitted.guarantee)]
