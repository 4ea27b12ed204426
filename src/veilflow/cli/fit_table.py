"""`veilflow fit table`: spend a budget on a table of mixed columns and keep the model."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from veilflow.cli import options
from veilflow.cli.inspect import show_plan
from veilflow.cli.output import check_out, guarded, tell
from veilflow.cli.spending import begin
from veilflow.cli.values import given, share_or_none, sizes

Extra = StrEnum("Extra", ["ERROR", "IGNORE"])


@guarded
def table(
    data: options.Table,
    schema: Annotated[Path, typer.Option(help="TOML file of the declared columns.")],
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: options.Out,
    num_records: options.NumRecords = None,
    warm_start: Annotated[
        str | None,
        typer.Option(help="Share of the squared privacy parameter for noisy marginals; or none."),
    ] = None,
    pay_for_discovery: Annotated[
        bool,
        typer.Option(
            "--pay-for-discovery",
            help="Forget what is not confirmed, and pay to find it. Kinds must be confirmed.",
        ),
    ] = False,
    hidden: options.Hidden = None,
    most_bins: Annotated[int | None, typer.Option(help="About how many bins for a number.")] = None,
    label_weight: Annotated[
        float | None, typer.Option(help="How often the label counts in training.")
    ] = None,
    steps: options.Steps = None,
    batch_size: options.BatchSize = None,
    sampling_rate: options.SamplingRate = None,
    clip_norm: options.ClipNorm = None,
    learning_rate: options.LearningRate = None,
    weight_decay: options.WeightDecay = None,
    seed: options.Seed = None,
    extra: Annotated[
        Extra, typer.Option(help="What to do about columns that the schema does not have.")
    ] = Extra.ERROR,
    invalid: options.Invalid = options.InvalidCells.ERROR,
    checkpoint: options.CheckpointFile = None,
    dry_run: options.DryRun = False,
    policy: options.PolicyFile = None,
    data_ledger: options.DataLedger = None,
    dataset: options.Dataset = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a table of numbers, categories, dates and gaps with differential privacy (DP-HFlow).

    The schema says what is public of each column; `veilflow schema` drafts one. A dry run does not
    open the table.
    """
    check_out(out, force=force, inputs=(data, schema))
    from veilflow.engine.training import Training
    from veilflow.models.table.architecture import codes
    from veilflow.models.table.table_flow import TableFlow
    from veilflow.tabular.schema import Schema

    allowed = begin(epsilon, delta, policy, data_ledger, dataset, conditional=seed is not None)
    training = given(
        steps=steps,
        batch_size=batch_size,
        sampling_rate=sampling_rate,
        clip_norm=clip_norm,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
    )
    settings = given(
        num_records=num_records,
        warm_start=share_or_none("--warm-start", warm_start),
        flow=codes(hidden=sizes(hidden), most_bins=most_bins, label_weight=label_weight),
        training=Training(**training),
        seed=seed,
    )
    model = TableFlow(
        schema=Schema.from_file(schema),
        budget=allowed.budget,
        pay_for_discovery=pay_for_discovery,
        **settings,
    )
    plan = model.plan()
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    with allowed.reserved(lambda: plan.ledger, data=data, checkpoint=checkpoint) as spent:
        fitted = model.fit(
            data,
            progress=True,
            extra=str(extra),
            invalid=str(invalid),
            checkpoint=checkpoint,
            save_as=out,
        )
        spent(fitted.ledger)
    tell({"out": out}, f"wrote {out}", fitted.guarantee, as_json=as_json)
