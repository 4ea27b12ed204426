"""`veilflow fit`: spend a budget on a data file and keep the model."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.bounds import read_bounded
from veilflow.cli.inspect import show_plan
from veilflow.cli.output import check_out, guarded, tell
from veilflow.cli.spending import begin
from veilflow.cli.values import given, sizes

app = typer.Typer(help="Fit a private model to a data file.", no_args_is_help=True)


# a test keeps these words those of the library
Flow = StrEnum("Flow", ["MAF", "NSF", "REALNVP"])
Base = StrEnum("Base", ["NORMAL", "MIXTURE"])
Start = StrEnum("Start", ["GRID", "COLUMNS", "WHITENING", "ACTNORM", "NONE"])


@app.callback()
def _group() -> None:
    """Fit a private model to a data file."""


@app.command("density")
@guarded
def density(
    data: options.Data,
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: options.Out,
    low: options.Low = None,
    high: options.High = None,
    bounds: options.BoundsFile = None,
    row_norm: options.RowNorm = None,
    columns: options.Columns = None,
    invalid: options.Invalid = options.InvalidCells.ERROR,
    num_records: options.NumRecords = None,
    steps: options.Steps = None,
    batch_size: options.BatchSize = None,
    sampling_rate: options.SamplingRate = None,
    clip_norm: options.ClipNorm = None,
    learning_rate: options.LearningRate = None,
    weight_decay: options.WeightDecay = None,
    flow: Annotated[Flow | None, typer.Option(help="Kind of flow to train.")] = None,
    blocks: Annotated[int | None, typer.Option(help="Blocks of the flow.")] = None,
    hidden: options.Hidden = None,
    base: Annotated[Base | None, typer.Option(help="What the flow starts from.")] = None,
    components: Annotated[
        int | None, typer.Option(help="Normals in the base, where private EM makes it.")
    ] = None,
    start: Annotated[
        Start | None, typer.Option(help="What is released, and paid for, before training.")
    ] = None,
    seed: options.Seed = None,
    count_clamped: Annotated[
        bool,
        typer.Option("--count-clamped", help="Pay for the number of rows outside the bounds."),
    ] = False,
    checkpoint: options.CheckpointFile = None,
    dry_run: options.DryRun = False,
    policy: options.PolicyFile = None,
    data_ledger: options.DataLedger = None,
    dataset: options.Dataset = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a density to rows of numbers with differential privacy (DP-NF).

    What is not given is planned from public facts: the number of columns, the bounds, the number of
    rows if it is public, and the budget.
    """
    check_out(out, force=force, inputs=(data,))
    from veilflow.engine.training import Training
    from veilflow.models.density import DensityFlow

    allowed = begin(epsilon, delta, policy, data_ledger, dataset, conditional=seed is not None)
    bounded = {"low": low, "high": high, "file": bounds, "row_norm": row_norm}
    rows, box = read_bounded(data, columns, **bounded, invalid=str(invalid))
    training = given(
        steps=steps,
        batch_size=batch_size,
        sampling_rate=sampling_rate,
        clip_norm=clip_norm,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
    )
    settings = given(
        row_norm=row_norm,
        num_records=num_records,
        training=Training(**training),
        flow=_architecture(flow, blocks, hidden),
        base=base,
        num_components=components,
        start=start,
        seed=seed,
    )
    model = DensityFlow(
        budget=allowed.budget,
        bounds=box,
        count_clamped=count_clamped,
        **settings,
    )
    plan = model.plan(rows.values.shape[1])  # of the rows, no more is used
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    with allowed.reserved(lambda: plan.checked().ledger, data=data, checkpoint=checkpoint) as spent:
        fitted = model.fit(
            rows, progress=True, invalid=str(invalid), checkpoint=checkpoint, save_as=out
        )
        spent(fitted.ledger)
    tell({"out": out}, f"wrote {out}", fitted.guarantee, as_json=as_json)


@app.command("mixture")
@guarded
def mixture(
    data: options.Data,
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: options.Out,
    components: Annotated[int | None, typer.Option(help="Normals in the mixture.")] = None,
    low: options.Low = None,
    high: options.High = None,
    bounds: options.BoundsFile = None,
    row_norm: options.RowNorm = None,
    columns: options.Columns = None,
    invalid: options.Invalid = options.InvalidCells.ERROR,
    num_records: options.NumRecords = None,
    steps: Annotated[int | None, typer.Option(help="Number of noisy steps of EM.")] = None,
    seed: options.Seed = None,
    checkpoint: options.CheckpointFile = None,
    dry_run: options.DryRun = False,
    policy: options.PolicyFile = None,
    data_ledger: options.DataLedger = None,
    dataset: options.Dataset = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a mixture of normals to rows of numbers with differential privacy (DP-MoG)."""
    check_out(out, force=force, inputs=(data,))
    from veilflow.models.mixture import MixtureDensity

    allowed = begin(epsilon, delta, policy, data_ledger, dataset, conditional=seed is not None)
    bounded = {"low": low, "high": high, "file": bounds, "row_norm": row_norm}
    rows, box = read_bounded(data, columns, **bounded, invalid=str(invalid))
    settings = given(
        row_norm=row_norm,
        num_components=components,
        num_records=num_records,
        steps=steps,
        seed=seed,
    )
    model = MixtureDensity(budget=allowed.budget, bounds=box, **settings)
    plan = model.plan(rows.values.shape[1])
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    with allowed.reserved(lambda: plan.checked().ledger, data=data, checkpoint=checkpoint) as spent:
        fitted = model.fit(
            rows, progress=True, invalid=str(invalid), checkpoint=checkpoint, save_as=out
        )
        spent(fitted.ledger)
    tell({"out": out}, f"wrote {out}", fitted.guarantee, as_json=as_json)


def _architecture(flow: Flow | None, blocks: int | None, hidden: str | None) -> Any:
    """The flow that the flags describe, or None where none of them is given."""
    from veilflow.models import architecture

    if flow is None and blocks is None and hidden is None:
        return None
    make = getattr(architecture, str(flow or Flow.MAF))
    return make(**given(blocks=blocks, hidden=sizes(hidden)))
