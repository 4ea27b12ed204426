"""`veilflow fit table`: spend a budget on a table of mixed columns and keep the model."""

from pathlib import Path
from typing import Annotated

import typer

from veilflow.cli import fit
from veilflow.cli.output import AsJson, Force, check_out, guarded
from veilflow.cli.spending import DataLedger, Dataset, PolicyFile, begin


@guarded
def table(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file with a header.")],
    schema: Annotated[Path, typer.Option(help="TOML file of the declared columns.")],
    epsilon: fit.Epsilon,
    delta: fit.Delta,
    out: fit.Out,
    num_records: fit.NumRecords = None,
    warm_start: Annotated[
        fit.WarmStart | None, typer.Option(help="What the flow starts from, and pays for.")
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
    hidden: fit.Hidden = None,
    most_bins: Annotated[int | None, typer.Option(help="About how many bins for a number.")] = None,
    label_weight: Annotated[
        float | None, typer.Option(help="How often the label counts in training.")
    ] = None,
    steps: fit.Steps = None,
    batch_size: fit.BatchSize = None,
    sampling_rate: fit.SamplingRate = None,
    clip_norm: fit.ClipNorm = None,
    learning_rate: fit.LearningRate = None,
    weight_decay: fit.WeightDecay = None,
    seed: fit.Seed = None,
    extra: Annotated[
        fit.Extra, typer.Option(help="What to do about columns that the schema does not have.")
    ] = fit.Extra.ERROR,
    invalid: Annotated[
        fit.Invalid, typer.Option(help="What to do about cells that are not as declared.")
    ] = fit.Invalid.ERROR,
    hardened: fit.Hardened = False,
    checkpoint: fit.CheckpointFile = None,
    dry_run: fit.DryRun = False,
    policy: PolicyFile = None,
    data_ledger: DataLedger = None,
    dataset: Dataset = None,
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

    budget = Budget(epsilon, delta)
    allowed = begin(
        budget,
        policy=policy,
        data_ledger=data_ledger,
        dataset=dataset,
        conditional=seed is not None,
    )
    settings = {
        "num_records": num_records,
        "warm_start": None if warm_start is None else warm_start.value,
        "warm_share": warm_share,
        "hidden": None if hidden is None else fit.sizes(hidden),
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
        budget=budget,
        pay_for_discovery=pay_for_discovery,
        hardened=hardened,
        **fit.given(settings),
    )
    if dry_run:
        fit.forecast(model.recipe(), model.preview(), delta, as_json=as_json)
        return
    with allowed.reserved(model.preview, data=data, checkpoint=checkpoint) as spent:
        fitted = model.fit(
            data,
            progress=True,
            extra=extra.value,
            invalid=invalid.value,
            checkpoint=checkpoint,
            save_as=out,
        )
        spent(fitted.ledger)
    fit.report(out, fitted.guarantee, as_json=as_json)
