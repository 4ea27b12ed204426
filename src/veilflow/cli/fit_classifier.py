"""`veilflow fit classifier`: spend a budget on labeled rows and keep the classifier."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.bounds import read_bounded
from veilflow.cli.inspect import show_plan
from veilflow.cli.labeled import feature_names, is_series, read_labels, read_series
from veilflow.cli.output import check_out, guarded, tell
from veilflow.cli.spending import begin
from veilflow.cli.values import given, names, numbers

# a test keeps these words those of the library
Sampler = StrEnum("Sampler", ["ZOOM", "REJECTION", "GRID", "FLOW", "HMC"])
Model = StrEnum("Model", ["LOGISTIC", "MLP", "GRUD"])
Loss = StrEnum("Loss", [("L2", "l2"), ("RAMP", "ramp"), ("CLIPPED_CE", "clipped-ce")])

Prior = StrEnum("Prior", ["GAUSSIAN", "LAPLACE"])


@guarded
def classifier(
    data: Annotated[
        Path,
        typer.Argument(
            help="CSV, Parquet or Arrow file with a header. Series: NPZ of values, mask, since, labels."
        ),
    ],
    classes: Annotated[str, typer.Option(help="All values a label may have, with commas.")],
    epsilon: options.Epsilon,
    prior_scale: Annotated[
        float, typer.Option(help="Scale of the prior; features are in [-1, 1], so 1 to 5 is usual.")
    ],
    out: options.Out,
    delta: Annotated[float, typer.Option(help="0 is enough for exact samplers.")] = 0.0,
    label: Annotated[str | None, typer.Option(help="The column of labels.")] = None,
    prior: Annotated[Prior, typer.Option(help="Shape of the prior.")] = Prior.GAUSSIAN,
    sampler: Annotated[
        Sampler,
        typer.Option(help="flow and hmc give a CONDITIONAL guarantee, the others an exact one."),
    ] = Sampler.ZOOM,
    model: Annotated[Model, typer.Option(help="grud is for series.")] = Model.LOGISTIC,
    loss: Annotated[Loss | None, typer.Option(help="Of a record, with a bound.")] = None,
    low: options.Low = None,
    high: options.High = None,
    bounds: options.BoundsFile = None,
    row_norm: options.RowNorm = None,
    columns: options.Columns = None,
    invalid: options.Invalid = options.InvalidCells.ERROR,
    num_records: options.NumRecords = None,
    num_models: Annotated[
        int | None, typer.Option(help="How many are drawn; they share the budget.")
    ] = None,
    seed: options.Seed = None,
    checkpoint: options.CheckpointFile = None,
    dry_run: options.DryRun = False,
    policy: options.PolicyFile = None,
    data_ledger: options.DataLedger = None,
    dataset: options.Dataset = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw a classifier by the exponential mechanism (ExpM+NF).

    All columns but that of labels are features, unless --columns names some. A dry run prints the
    price; of the records it uses the names of columns.
    """
    check_out(out, force=force, inputs=(data, *((bounds,) if bounds else ())))
    from veilflow.models.expm.classifier import ExpMechClassifier
    from veilflow.releases.expm.prior import GaussianPrior, LaplacePrior

    conditional = sampler in (Sampler.FLOW, Sampler.HMC)
    allowed = begin(epsilon, delta, policy, data_ledger, dataset, conditional=conditional)
    shape = GaussianPrior if prior is Prior.GAUSSIAN else LaplacePrior
    bounded = {"low": low, "high": high, "file": bounds, "row_norm": row_norm}
    features, box = _features(data, label, columns, bounded, invalid=str(invalid))
    estimator = ExpMechClassifier(
        budget=allowed.budget,
        prior=shape(prior_scale),
        bounds=box,
        classes=tuple(names(classes)),
        **given(
            sampler=sampler,
            model=model,
            loss=loss,
            row_norm=row_norm,
            num_records=num_records,
            num_models=num_models,
            seed=seed,
        ),
    )
    plan = estimator.plan(_num_features(features))
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    with allowed.reserved(lambda: plan.ledger, data=data, checkpoint=checkpoint) as spent:
        fitted = estimator.fit(
            features,
            read_labels(data, label, invalid=str(invalid)),
            progress=True,
            invalid=str(invalid),
            checkpoint=checkpoint,
            save_as=out,
        )
        spent(fitted.ledger)
    tell({"out": out}, f"wrote {out}", fitted.guarantee, as_json=as_json)


def _features(
    data: Path,
    label: str | None,
    columns: str | None,
    bounded: dict[str, Any],
    *,
    invalid: str,
) -> tuple[Any, Any]:
    """Rows or series, and the bounds that flags declare for them."""
    if is_series(data):
        if columns is not None or bounded["file"] is not None or label is not None:
            raise ValueError(
                "--columns, --bounds and --label are for tables, and an NPZ of series names nothing. "
                "Give --low and --high."
            )
        box = numbers("--low", bounded["low"]), numbers("--high", bounded["high"])
        if None in box:
            raise ValueError("give --low and --high: bounds of the values, never read from them.")
        return read_series(data), box
    if label is None:
        raise ValueError("give --label, the name of the column that holds the labels.")
    if columns is None:
        columns = ",".join(feature_names(data, label, invalid=invalid))
    elif label in names(columns):
        raise ValueError(f"--columns lists {label!r}, which is the label. Leave it out.")
    return read_bounded(data, columns, **bounded, invalid=invalid)


def _num_features(features: Any) -> int:
    return features[0].shape[-1] if isinstance(features, tuple) else features.values.shape[1]
