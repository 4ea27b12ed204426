"""`veilflow classify`: what a classifier says of records."""

from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.labeled import is_series, read_series
from veilflow.cli.output import check_out, guarded, tell, unprotected


@guarded
def classify(
    model: options.Model,
    data: Annotated[
        Path, typer.Argument(help="Records with the model's columns; labels may lack.")
    ],
    out: options.TableOut,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the likeliest class of every record, and the probability of each class.

    Predictions for private records are private too.
    """
    check_out(out, force=force, inputs=(model, data))
    import pyarrow as pa

    from veilflow.models import registry
    from veilflow.tabular.stream import file_format, write_tables

    if file_format(out) in ("npz", "npy"):
        raise ValueError(f"--out {out} must be .csv, .parquet or .arrow: classes may be texts.")
    fitted: Any = registry.load(model)
    if not hasattr(fitted, "predict_proba"):
        raise ValueError(
            f"{model} is no classifier: it has no classes to tell apart. Fit one by fit classifier."
        )
    features = read_series(data) if is_series(data) else data
    chances = fitted.predict_proba(features)
    names = [f"p({name})" for name in fitted.classes]
    columns = {"class": fitted.classes_[chances.argmax(axis=1)]}
    columns |= dict(zip(names, chances.T, strict=True))
    table = pa.table({name: pa.array(cells) for name, cells in columns.items()})
    # as private as the records they are about
    write_tables([table], out, schema=table.schema, mode=0o600)
    warned = unprotected(
        "the predictions are computed from the records themselves and are as private as they are"
    )
    result = {"out": out, **warned, "conditional": fitted.conditional}
    tell(result, f"wrote {out}", fitted.guarantee, as_json=as_json, whose="the model: ")
