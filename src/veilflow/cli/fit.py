"""`veilflow fit`: spend a budget on a data file and keep the model."""

import math
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli.output import AsJson, Force, check_out, emit, guarded, statement

if TYPE_CHECKING:
    from veilflow.models.density import DensityFlow
    from veilflow.privacy.guarantees import Guarantee
    from veilflow.tabular.io import Rows

app = typer.Typer(help="Fit a private model to a data file.", no_args_is_help=True)

Bounds = tuple[list[float], list[float]]


class Flow(StrEnum):
    """Kinds of flow."""

    MAF = "maf"
    NSF = "nsf"
    REALNVP = "realnvp"


class Base(StrEnum):
    """What a flow may start from."""

    NORMAL = "normal"
    MIXTURE = "mixture"


class Start(StrEnum):
    """What may be released before training; a test keeps these words those of the planner."""

    GRID = "grid"
    COLUMNS = "columns"
    WHITENING = "whitening"
    ACTNORM = "actnorm"
    NONE = "none"


# What every fit of rows of numbers asks for, said once.
Data = Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow, NPZ or NPY file of numbers.")]
Epsilon = Annotated[float, typer.Option(help="The most that may be spent.")]
Delta = Annotated[float, typer.Option(help="Well below 1 / number of rows.")]
Out = Annotated[Path, typer.Option(help="The model file to write, such as m.veil.")]
Low = Annotated[
    str | None,
    typer.Option(help="Public lower bounds: one number, or one per column, with commas."),
]
High = Annotated[str | None, typer.Option(help="Public upper bounds, like --low.")]
BoundsFile = Annotated[
    Path | None, typer.Option(help="TOML file of public bounds: column = low and high.")
]
RowNorm = Annotated[
    float | None, typer.Option(help="Public bound on the L2 norm of a row, instead of bounds.")
]
Columns = Annotated[str | None, typer.Option(help="Use only these columns: names, with commas.")]
NumRecords = Annotated[int | None, typer.Option(help="The number of rows, if it is public.")]
Seed = Annotated[
    int | None, typer.Option(help="For research only: weakens the guarantee, and says so.")
]
Hardened = Annotated[
    bool, typer.Option("--hardened", help="Noise that is safe in floating point; slower.")
]


@app.callback()
def _group() -> None:
    """Fit a private model to a data file."""


@app.command("density")
@guarded
def density(
    data: Data,
    epsilon: Epsilon,
    delta: Delta,
    out: Out,
    low: Low = None,
    high: High = None,
    bounds: BoundsFile = None,
    row_norm: RowNorm = None,
    columns: Columns = None,
    num_records: NumRecords = None,
    steps: Annotated[int | None, typer.Option(help="Number of noisy steps.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Expected size of a batch.")] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Instead: the probability that a row enters a batch.")
    ] = None,
    clip_norm: Annotated[float | None, typer.Option(help="L2 bound on one row's gradient.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the optimizer.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Pull of weights to zero.")] = None,
    flow: Annotated[Flow | None, typer.Option(help="Kind of flow to train.")] = None,
    blocks: Annotated[int | None, typer.Option(help="Blocks of the flow.")] = None,
    hidden: Annotated[
        str | None, typer.Option(help="Hidden layers of each block: sizes, with commas.")
    ] = None,
    base: Annotated[Base | None, typer.Option(help="What the flow starts from.")] = None,
    components: Annotated[
        int | None, typer.Option(help="Normals in the base, where private EM makes it.")
    ] = None,
    start: Annotated[
        Start | None, typer.Option(help="What is released, and paid for, before training.")
    ] = None,
    seed: Seed = None,
    count_clamped: Annotated[
        bool,
        typer.Option("--count-clamped", help="Pay for the number of rows outside the bounds."),
    ] = False,
    hardened: Hardened = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Secret file to go on from after a crash, without new spending."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be done and spent, and do neither."),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a density to rows of numbers with differential privacy (DP-NF).

    What is not given is planned from public facts: the number of columns, the bounds, the number of
    rows if it is public, and the budget.
    """
    check_out(out, force=force, inputs=(data,))
    from veilflow.models.density import DensityFlow
    from veilflow.privacy.budget import Budget

    budget = Budget(epsilon, delta)
    rows, box = _read(data, columns, low=low, high=high, file=bounds, row_norm=row_norm)
    settings = {
        "row_norm": row_norm,
        "num_records": num_records,
        "steps": steps,
        "batch_size": batch_size,
        "sampling_rate": sampling_rate,
        "clip_norm": clip_norm,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "flow": _architecture(flow, blocks, hidden),
        "base": None if base is None else base.value,
        "num_components": components,
        "start": None if start is None else start.value,
        "seed": seed,
    }
    model = DensityFlow(
        budget=budget,
        bounds=box,
        count_clamped=count_clamped,
        hardened=hardened,
        **_given(settings),
    )
    if dry_run:
        _forecast(model, rows.values.shape[1], as_json=as_json)
        return
    fitted = model.fit(rows, progress=True, checkpoint=checkpoint, save_as=out)
    _report(out, fitted.guarantee, as_json=as_json)


@app.command("mixture")
@guarded
def mixture(
    data: Data,
    epsilon: Epsilon,
    delta: Delta,
    out: Out,
    components: Annotated[int | None, typer.Option(help="Normals in the mixture.")] = None,
    low: Low = None,
    high: High = None,
    bounds: BoundsFile = None,
    row_norm: RowNorm = None,
    columns: Columns = None,
    num_records: NumRecords = None,
    iterations: Annotated[int | None, typer.Option(help="Number of noisy steps of EM.")] = None,
    seed: Seed = None,
    hardened: Hardened = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a mixture of normals to rows of numbers with differential privacy (DP-MoG)."""
    check_out(out, force=force, inputs=(data,))
    from veilflow.models.mixture import MixtureDensity
    from veilflow.privacy.budget import Budget

    budget = Budget(epsilon, delta)
    rows, box = _read(data, columns, low=low, high=high, file=bounds, row_norm=row_norm)
    settings = {
        "row_norm": row_norm,
        "num_components": components,
        "num_records": num_records,
        "iterations": iterations,
        "seed": seed,
    }
    model = MixtureDensity(budget=budget, bounds=box, hardened=hardened, **_given(settings))
    fitted = model.fit(rows, progress=True)
    fitted.save(out)
    _report(out, fitted.guarantee, as_json=as_json)


def _read(
    data: Path,
    columns: str | None,
    *,
    low: str | None,
    high: str | None,
    file: Path | None,
    row_norm: float | None,
) -> tuple["Rows", Bounds | None]:
    """The rows, and the bounds that the flags declare for them, if they do."""
    from veilflow.tabular.io import read_rows

    if file is None and low is None and high is None and row_norm is None:
        raise ValueError(
            "give --bounds, or --low and --high, or --row-norm. They come from knowledge of the "
            "domain and are never read from the rows."
        )
    rows = read_rows(data, columns=_names(columns))
    return rows, _bounds(rows, low=low, high=high, file=file)


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    """Without what was not given: that keeps the default of the library, which is the only one."""
    return {name: value for name, value in settings.items() if value is not None}


def _architecture(flow: Flow | None, blocks: int | None, hidden: str | None) -> Any:
    """The flow that the flags describe, or None where none of them is given."""
    from veilflow.models import architecture

    if flow is None and blocks is None and hidden is None:
        return None
    sizes = None if hidden is None else _sizes(hidden)
    make = getattr(architecture, (flow or Flow.MAF).value)
    return make(**_given({"blocks": blocks, "hidden": sizes}))


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(cell) for cell in text.split(","))
    except ValueError:
        raise ValueError(
            f"--hidden must be whole numbers with commas between them, got {text!r}."
        ) from None


def _forecast(model: "DensityFlow", dim: int, *, as_json: bool) -> None:
    """Print what a fit of `dim` columns would do and cost; of the rows only their width was used."""
    from rich.console import Console

    from veilflow.cli.inspect import describe_ledger, ledger_table

    recipe, ledger = model.recipe(dim), model.ledger(dim)
    guarantee = ledger.guarantee(delta=model.budget.delta)
    entries = describe_ledger(ledger, delta=model.budget.delta)
    if as_json:
        result = {"recipe": recipe.to_json(), "guarantee": guarantee.to_json(), "ledger": entries}
        emit(result, "", as_json=True)
        return
    console = Console(soft_wrap=True, markup=False, highlight=False)
    console.print("nothing was spent. A fit would be")
    console.print(statement(guarantee))
    console.print(ledger_table(entries))
    for name, value in recipe.to_json().items():
        # the noise of each release is in the ledger
        if not name.endswith("noise"):
            console.print(f"  {name.replace('_', ' ')}: {value}")


def _report(out: Path, guarantee: "Guarantee", *, as_json: bool) -> None:
    result = {"out": out, "guarantee": guarantee.to_json()}
    emit(result, f"wrote {out}\n{statement(guarantee)}", as_json=as_json)


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
