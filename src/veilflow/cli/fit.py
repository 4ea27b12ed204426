"""`veilflow fit`: spend a budget on a data file and keep the model."""

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilflow.cli.output import AsJson, Force, check_out, emit, guarded, statement

if TYPE_CHECKING:
    from veilflow.tabular.io import Rows

app = typer.Typer(help="Fit a private model to a data file.", no_args_is_help=True)

Bounds = tuple[list[float], list[float]]


@app.callback()
def _group() -> None:
    """Fit a private model to a data file."""


@app.command("density")
@guarded
def density(
    data: Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow, NPZ or NPY file of numbers.")],
    epsilon: Annotated[float, typer.Option(help="The most that may be spent.")],
    delta: Annotated[float, typer.Option(help="Well below 1 / number of rows.")],
    out: Annotated[Path, typer.Option(help="The model file to write, such as m.veil.")],
    low: Annotated[
        str | None,
        typer.Option(help="Public lower bounds: one number, or one per column, with commas."),
    ] = None,
    high: Annotated[str | None, typer.Option(help="Public upper bounds, like --low.")] = None,
    bounds: Annotated[
        Path | None, typer.Option(help="TOML file of public bounds: column = low and high.")
    ] = None,
    row_norm: Annotated[
        float | None, typer.Option(help="Public bound on the L2 norm of a row, instead of bounds.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Use only these columns: names, with commas.")
    ] = None,
    num_records: Annotated[
        int | None, typer.Option(help="The number of rows, if it is public.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Number of noisy steps.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Expected size of a batch.")] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Instead: the probability that a row enters a batch.")
    ] = None,
    clip_norm: Annotated[float | None, typer.Option(help="L2 bound on one row's gradient.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the optimizer.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="For research only: weakens the guarantee, and says so.")
    ] = None,
    count_clamped: Annotated[
        bool,
        typer.Option("--count-clamped", help="Pay for the number of rows outside the bounds."),
    ] = False,
    hardened: Annotated[
        bool, typer.Option("--hardened", help="Noise that is safe in floating point; slower.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Secret file to go on from after a crash, without new spending."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a density to rows of numbers with differential privacy (DP-NF)."""
    check_out(out, force=force, inputs=(data,))
    from veilflow.models.density import DensityFlow
    from veilflow.privacy.budget import Budget
    from veilflow.tabular.io import read_rows

    budget = Budget(epsilon, delta)
    if bounds is None and low is None and high is None and row_norm is None:
        raise ValueError(
            "give --bounds, or --low and --high, or --row-norm. They come from knowledge of the "
            "domain and are never read from the rows."
        )
    rows = read_rows(data, columns=_names(columns))
    settings = {
        "row_norm": row_norm,
        "num_records": num_records,
        "steps": steps,
        "batch_size": batch_size,
        "sampling_rate": sampling_rate,
        "clip_norm": clip_norm,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    model = DensityFlow(
        budget=budget,
        bounds=_bounds(rows, low=low, high=high, file=bounds),
        count_clamped=count_clamped,
        hardened=hardened,
        # what is not given keeps the default of the library, which is the only one
        **{name: value for name, value in settings.items() if value is not None},
    )
    fitted = model.fit(rows, progress=True, checkpoint=checkpoint, save_as=out)
    result = {"out": out, "guarantee": fitted.guarantee.to_json()}
    emit(result, f"wrote {out}\n{statement(fitted.guarantee)}", as_json=as_json)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _bounds(rows: "Rows", *, low: str | None, high: str | None, file: Path | None) -> Bounds | None:
    """Bounds per column from the flags, or None where none of them is given."""
    if (low is None) != (high is None):
        raise ValueError("give both --low and --high.")
    if file is not None:
        if low is not None:
            raise ValueError("give either --bounds or --low and --high, not both.")
        return _read_bounds(file, rows)
    if low is None or high is None:
        return None
    dim = rows.values.shape[1]
    return _numbers("--low", low, dim), _numbers("--high", high, dim)


def _numbers(flag: str, text: str, dim: int) -> list[float]:
    try:
        numbers = [float(cell) for cell in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{flag} must be numbers with commas between them, got {text!r}."
        ) from None
    if len(numbers) not in (1, dim):
        raise ValueError(f"{flag} must be one number or {dim}, one per column; got {len(numbers)}.")
    return numbers * dim if len(numbers) == 1 else numbers


def _read_bounds(file: Path, rows: "Rows") -> Bounds:
    """Bounds from a TOML file that names every column of the data, and no other."""
    with open(file, "rb") as opened:
        try:
            table = tomllib.load(opened)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{file} is not a TOML file: {error}") from None
    names: Sequence[str] = rows.columns or [f"x{i + 1}" for i in range(rows.values.shape[1])]
    for name in table:
        if name not in names:
            known = ", ".join(map(repr, names))
            raise ValueError(
                f"{file} bounds {name!r}, but there is no such column among those read: {known}."
            )
    lows, highs = [], []
    for name in names:
        pair = table.get(name)
        if pair is None:
            raise ValueError(
                f"column {name!r} has no bounds in {file}. Declare them, or choose columns with "
                "--columns. They are not read from the data."
            )
        if not _is_pair(pair):
            raise ValueError(f"{file}: {name} must be two numbers, such as {name} = [0, 120].")
        low, high = float(pair[0]), float(pair[1])
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"{file}: {name} must be finite and rise, got [{low:g}, {high:g}].")
        lows.append(low)
        highs.append(high)
    return lows, highs


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
    )
