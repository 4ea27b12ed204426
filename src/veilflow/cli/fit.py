"""`veilflow fit`: spend a budget on a data file and keep the model."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli.bounds import read_bounded
from veilflow.cli.output import AsJson, Force, check_out, emit, guarded, statement
from veilflow.cli.spending import DataLedger, Dataset, PolicyFile, afforded, begin

if TYPE_CHECKING:
    from veilflow.models.image.recipe import ImageRecipe
    from veilflow.models.planner import Recipe
    from veilflow.models.table.recipe import TableRecipe
    from veilflow.privacy.guarantees import Guarantee
    from veilflow.privacy.ledger import Ledger

app = typer.Typer(help="Fit a private model to a data file.", no_args_is_help=True)


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


class WarmStart(StrEnum):
    """What a table flow may start from; a test keeps these words those of the library."""

    MARGINALS = "marginals"
    NONE = "none"


class Extra(StrEnum):
    """What to do about columns that are not in the schema."""

    ERROR = "error"
    IGNORE = "ignore"


class Invalid(StrEnum):
    """What to do about cells that are not as the schema says."""

    ERROR = "error"
    REPLACE = "replace"


# What every fit asks for, said once.
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


Steps = Annotated[int | None, typer.Option(help="Number of noisy steps.")]
BatchSize = Annotated[int | None, typer.Option(help="Expected size of a batch.")]
SamplingRate = Annotated[
    float | None, typer.Option(help="Instead: the probability that a row enters a batch.")
]
ClipNorm = Annotated[float | None, typer.Option(help="L2 bound on one row's gradient.")]
LearningRate = Annotated[float | None, typer.Option(help="Of the optimizer.")]
WeightDecay = Annotated[float | None, typer.Option(help="Pull of weights to zero.")]
Hidden = Annotated[str | None, typer.Option(help="Hidden layers: sizes, with commas.")]
CheckpointFile = Annotated[
    Path | None,
    typer.Option(help="Secret file to go on from after a crash, without new spending."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done and spent, and do neither.")
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
    steps: Steps = None,
    batch_size: BatchSize = None,
    sampling_rate: SamplingRate = None,
    clip_norm: ClipNorm = None,
    learning_rate: LearningRate = None,
    weight_decay: WeightDecay = None,
    flow: Annotated[Flow | None, typer.Option(help="Kind of flow to train.")] = None,
    blocks: Annotated[int | None, typer.Option(help="Blocks of the flow.")] = None,
    hidden: Hidden = None,
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
    checkpoint: CheckpointFile = None,
    dry_run: DryRun = False,
    policy: PolicyFile = None,
    data_ledger: DataLedger = None,
    dataset: Dataset = None,
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
    allowed = begin(
        budget,
        policy=policy,
        data_ledger=data_ledger,
        dataset=dataset,
        conditional=seed is not None,
    )
    rows, box = read_bounded(data, columns, low=low, high=high, file=bounds, row_norm=row_norm)
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
        **given(settings),
    )
    dim = rows.values.shape[1]  # of the rows, no more is used
    if dry_run:
        forecast(model.recipe(dim), model.ledger(dim), delta, as_json=as_json)
        return
    with allowed.reserved(lambda: model.ledger(dim), data=data, checkpoint=checkpoint) as spent:
        fitted = model.fit(rows, progress=True, checkpoint=checkpoint, save_as=out)
        spent(fitted.ledger)
    report(out, fitted.guarantee, as_json=as_json)


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
    policy: PolicyFile = None,
    data_ledger: DataLedger = None,
    dataset: Dataset = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a mixture of normals to rows of numbers with differential privacy (DP-MoG)."""
    check_out(out, force=force, inputs=(data,))
    from veilflow.models.mixture import MixtureDensity
    from veilflow.privacy.budget import Budget

    budget = Budget(epsilon, delta)
    allowed = begin(
        budget,
        policy=policy,
        data_ledger=data_ledger,
        dataset=dataset,
        conditional=seed is not None,
    )
    rows, box = read_bounded(data, columns, low=low, high=high, file=bounds, row_norm=row_norm)
    settings = {
        "row_norm": row_norm,
        "num_components": components,
        "num_records": num_records,
        "iterations": iterations,
        "seed": seed,
    }
    model = MixtureDensity(budget=budget, bounds=box, hardened=hardened, **given(settings))
    with allowed.reserved(lambda: afforded(budget, hardened=hardened), data=data) as spent:
        fitted = model.fit(rows, progress=True)
        fitted.save(out)
        spent(fitted.ledger)
    report(out, fitted.guarantee, as_json=as_json)


def given(settings: dict[str, Any]) -> dict[str, Any]:
    """Without what was not given: that keeps the default of the library, which is the only one."""
    return {name: value for name, value in settings.items() if value is not None}


def _architecture(flow: Flow | None, blocks: int | None, hidden: str | None) -> Any:
    """The flow that the flags describe, or None where none of them is given."""
    from veilflow.models import architecture

    if flow is None and blocks is None and hidden is None:
        return None
    layers = None if hidden is None else sizes(hidden)
    make = getattr(architecture, (flow or Flow.MAF).value)
    return make(**given({"blocks": blocks, "hidden": layers}))


def sizes(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    try:
        return tuple(int(cell) for cell in text.split(","))
    except ValueError:
        raise ValueError(
            f"--hidden must be whole numbers with commas between them, got {text!r}."
        ) from None


def forecast(
    recipe: "Recipe | TableRecipe | ImageRecipe", ledger: "Ledger", delta: float, *, as_json: bool
) -> None:
    """Print what a fit would do and cost."""
    from rich.console import Console

    from veilflow.cli.inspect import describe_ledger, ledger_table

    guarantee = ledger.guarantee(delta=delta)
    entries = describe_ledger(ledger, delta=delta)
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


def report(out: Path, guarantee: "Guarantee", *, as_json: bool) -> None:
    """Print what a fit has written and what that rests on."""
    result = {"out": out, "guarantee": guarantee.to_json()}
    emit(result, f"wrote {out}\n{statement(guarantee)}", as_json=as_json)
