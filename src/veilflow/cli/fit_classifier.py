"""`veilflow fit classifier`: spend a budget on labeled rows and keep the classifier."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli import fit
from veilflow.cli.bounds import read_bounded
from veilflow.cli.inspect import show_price
from veilflow.cli.labeled import feature_names, is_series, read_labels, read_series
from veilflow.cli.output import AsJson, Force, check_out, guarded
from veilflow.cli.spending import DataLedger, Dataset, PolicyFile, begin


class Sampler(StrEnum):
    """What draws the parameters; a test keeps these words those of the library."""

    ZOOM = "zoom"
    REJECTION = "rejection"
    GRID = "grid"
    FLOW = "flow"
    HMC = "hmc"


class Model(StrEnum):
    """What is drawn; a test keeps these words those of the library."""

    LOGISTIC = "logistic"
    MLP = "mlp"
    GRUD = "grud"


class Loss(StrEnum):
    """What a record costs; a test keeps these words those of the library."""

    L2 = "l2"
    RAMP = "ramp"
    CLIPPED_CE = "clipped-ce"


class Prior(StrEnum):
    """Where parameters come from before a record is seen."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


@guarded
def classifier(
    data: Annotated[
        Path,
        typer.Argument(
            help="CSV, Parquet or Arrow file with a header. Series: NPZ of values, mask, since, labels."
        ),
    ],
    classes: Annotated[str, typer.Option(help="All values a label may have, with commas.")],
    epsilon: fit.Epsilon,
    prior_scale: Annotated[
        float, typer.Option(help="Scale of the prior; features are in [-1, 1], so 1 to 5 is usual.")
    ],
    out: fit.Out,
    delta: Annotated[float, typer.Option(help="0 is enough for exact samplers.")] = 0.0,
    label: Annotated[str | None, typer.Option(help="The column of labels.")] = None,
    prior: Annotated[Prior, typer.Option(help="Shape of the prior.")] = Prior.GAUSSIAN,
    sampler: Annotated[
        Sampler,
        typer.Option(help="flow and hmc give a CONDITIONAL guarantee, the others an exact one."),
    ] = Sampler.ZOOM,
    model: Annotated[Model, typer.Option(help="grud is for series.")] = Model.LOGISTIC,
    loss: Annotated[Loss | None, typer.Option(help="Of a record, with a bound.")] = None,
    low: fit.Low = None,
    high: fit.High = None,
    bounds: fit.BoundsFile = None,
    row_norm: fit.RowNorm = None,
    columns: fit.Columns = None,
    num_records: fit.NumRecords = None,
    num_models: Annotated[
        int | None, typer.Option(help="How many are drawn; they share the budget.")
    ] = None,
    seed: fit.Seed = None,
    dry_run: fit.DryRun = False,
    policy: PolicyFile = None,
    data_ledger: DataLedger = None,
    dataset: Dataset = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw a classifier by the exponential mechanism (ExpM+NF).

    All columns but that of labels are features, unless --columns names some. A dry run prints the
    price; of the records it uses the names of columns.
    """
    check_out(out, force=force, inputs=(data, *((bounds,) if bounds else ())))
    from veilflow.models.expm.classifier import ExpMechClassifier
    from veilflow.models.expm.prior import GaussianPrior, LaplacePrior
    from veilflow.privacy.budget import Budget

    budget = Budget(epsilon, delta)
    allowed = begin(
        budget,
        policy=policy,
        data_ledger=data_ledger,
        dataset=dataset,
        conditional=sampler in (Sampler.FLOW, Sampler.HMC),
    )
    listed = tuple(name.strip() for name in classes.split(","))
    shape = GaussianPrior if prior is Prior.GAUSSIAN else LaplacePrior
    features, box = _features(
        data, label, columns, low=low, high=high, bounds=bounds, row_norm=row_norm
    )
    settings = {
        "loss": None if loss is None else loss.value,
        "row_norm": row_norm,
        "num_records": num_records,
        "num_models": num_models,
        "seed": seed,
    }
    estimator = ExpMechClassifier(
        budget=budget,
        prior=shape(prior_scale),
        sampler=sampler.value,
        model=model.value,
        bounds=box,
        classes=listed,
        **fit.given(settings),
    )
    if dry_run:
        ledger = estimator.ledger(_num_features(features))
        show_price(ledger, delta=delta, as_json=as_json)
        return
    planned = _num_features(features)
    with allowed.reserved(lambda: estimator.ledger(planned), data=data) as spent:
        fitted = estimator.fit(features, read_labels(data, label), progress=True)
        fitted.save(out)
        spent(fitted.ledger)
    fit.report(out, fitted.guarantee, as_json=as_json)


def _features(
    data: Path,
    label: str | None,
    columns: str | None,
    *,
    low: str | None,
    high: str | None,
    bounds: Path | None,
    row_norm: float | None,
) -> tuple[Any, Any]:
    """Rows or series, and the bounds that flags declare for them."""
    if is_series(data):
        if columns is not None or bounds is not None or label is not None:
            raise ValueError(
                "--columns, --bounds and --label are for tables, and an NPZ of series names nothing. "
                "Give --low and --high."
            )
        if low is None or high is None:
            raise ValueError("give --low and --high: bounds of the values, never read from them.")
        return read_series(data), _both(low, high)
    if label is None:
        raise ValueError("give --label, the name of the column that holds the labels.")
    if columns is None:
        columns = ",".join(feature_names(data, label))
    elif label in (name.strip() for name in columns.split(",")):
        raise ValueError(f"--columns lists {label!r}, which is the label. Leave it out.")
    return read_bounded(data, columns, low=low, high=high, file=bounds, row_norm=row_norm)


def _both(low: str, high: str) -> tuple[list[float], list[float]]:
    try:
        return [float(x) for x in low.split(",")], [float(x) for x in high.split(",")]
    except ValueError:
        raise ValueError("--low and --high must be numbers with commas between them.") from None


def _num_features(features: Any) -> int:
    return features[0].shape[-1] if isinstance(features, tuple) else features.values.shape[1]
