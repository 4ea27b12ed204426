"""`veilflow fit`: spend a budget on a data file and keep the model."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli.bounds import read_bounded
from veilflow.cli.output import AsJson, Force, check_out, emit, guarded, statement

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
    if dry_run:
        dim = rows.values.shape[1]  # of the rows, no more is used
        forecast(model.recipe(dim), model.ledger(dim), delta, as_json=as_json)
        return
    fitted = model.fit(rows, progress=True, checkpoint=checkpoint, save_as=out)
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
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a mixture of normals to rows of numbers with differential privacy (DP-MoG)."""
    check_out(out, force=force, inputs=(data,))
    from veilflow.models.mixture import MixtureDensity
    from veilflow.privacy.budget import Budget

    budget = Budget(epsilon, delta)
    rows, box = read_bounded(data, columns, low=low, high=high, file=bounds, row_norm=row_norm)
    settings = {
        "row_norm": row_norm,
        "num_components": components,
        "num_records": num_records,
        "iterations": iterations,
        "seed": seed,
    }
    model = MixtureDensity(budget=budget, bounds=box, hardened=hardened, **given(settings))
    fitted = model.fit(rows, progress=True)
    fitted.save(out)
    report(out, fitted.guarantee, as_json=as_json)


@app.command("table")
@guarded
def table(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file with a header.")],
    schema: Annotated[Path, typer.Option(help="TOML file of the declared columns.")],
    epsilon: Epsilon,
    delta: Delta,
    out: Out,
    num_records: NumRecords = None,
    warm_start: Annotated[
        WarmStart | None, typer.Option(help="What the flow starts from, and pays for.")
    ] = None,
    warm_share: Annotated[
        float | None, typer.Option(help="What that takes of the squared privacy parameter.")
    ] = None,
    pay_for_discovery: Annotated[
        bool,
        typer.Option(
            "--pay-for-discovery", help="Forget what is not confirmed, and pay to find it."
        ),
    ] = False,
    hidden: Hidden = None,
    most_bins: Annotated[int | None, typer.Option(help="About how many bins for a number.")] = None,
    label_weight: Annotated[
        float | None, typer.Option(help="How often the label counts in training.")
    ] = None,
    steps: Steps = None,
    batch_size: BatchSize = None,
    sampling_rate: SamplingRate = None,
    clip_norm: ClipNorm = None,
    learning_rate: LearningRate = None,
    weight_decay: WeightDecay = None,
    seed: Seed = None,
    extra: Annotated[
        Extra, typer.Option(help="What to do about columns that the schema does not have.")
    ] = Extra.ERROR,
    invalid: Annotated[
        Invalid, typer.Option(help="What to do about cells that are not as declared.")
    ] = Invalid.ERROR,
    hardened: Hardened = False,
    checkpoint: CheckpointFile = None,
    dry_run: DryRun = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a table of numbers, categories, dates and gaps with differential privacy (DP-HFlow).

    The schema says what is public of each column; `veilflow schema` drafts one. A dry run does not
    open the table.
    """
    check_out(out, force=force, inputs=(data, schema))
    from veilflow.models.table.table_flow import TableFlow
    from veilflow.privacy.budget import Budget
    from veilflow.tabular.schema import Schema

    settings = {
        "num_records": num_records,
        "warm_start": None if warm_start is None else warm_start.value,
        "warm_share": warm_share,
        "hidden": None if hidden is None else _sizes(hidden),
        "most_bins": most_bins,
        "label_weight": label_weight,
        "steps": steps,
        "batch_size": batch_size,
        "sampling_rate": sampling_rate,
        "clip_norm": clip_norm,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "seed": seed,
    }
    model = TableFlow(
        schema=Schema.from_file(schema),
        budget=Budget(epsilon, delta),
        pay_for_discovery=pay_for_discovery,
        hardened=hardened,
        **given(settings),
    )
    if dry_run:
        forecast(model.recipe(), model.preview(), delta, as_json=as_json)
        return
    fitted = model.fit(
        data,
        progress=True,
        extra=extra.value,
        invalid=invalid.value,
        checkpoint=checkpoint,
        save_as=out,
    )
    report(out, fitted.guarantee, as_json=as_json)


def given(settings: dict[str, Any]) -> dict[str, Any]:
    """Without what was not given: that keeps the default of the library, which is the only one."""
    return {name: value for name, value in settings.items() if value is not None}


def _architecture(flow: Flow | None, blocks: int | None, hidden: str | None) -> Any:
    """The flow that the flags describe, or None where none of them is given."""
    from veilflow.models import architecture

    if flow is None and blocks is None and hidden is None:
        return None
    sizes = None if hidden is None else _sizes(hidden)
    make = getattr(architecture, (flow or Flow.MAF).value)
    return make(**given({"blocks": blocks, "hidden": sizes}))


def _sizes(text: str) -> tuple[int, ...]:
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
