"""`veilflow fit classifier` and `veilflow classify`: learn from labels, and predict them."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from veilflow.cli import options
from veilflow.cli.fitting import FitFlags
from veilflow.cli.flags import Settings, SettingsOf, given, names, numbers
from veilflow.cli.output import guarded, tell, unprotected
from veilflow.cli.records import Bounded, feature_names, is_series, read_labels, read_series

# a test compares these words with those of the library
Sampler = StrEnum("Sampler", ["ZOOM", "REJECTION", "GRID", "FLOW", "HMC"])
Model = StrEnum("Model", ["LOGISTIC", "MLP", "GRUD"])
Loss = StrEnum("Loss", [("L2", "l2"), ("RAMP", "ramp"), ("CLIPPED_CE", "clipped-ce")])
Prior = StrEnum("Prior", ["GAUSSIAN", "LAPLACE"])

_UNPROVEN = (Sampler.FLOW, Sampler.HMC)


@dataclass(frozen=True, kw_only=True)
class ClassifierFitFlags(FitFlags):
    """The flags of every fit; exact samplers need no delta."""

    delta: float = 0.0


@guarded
def classifier(
    data: options.File,
    classes: str,
    prior_scale: float,
    flags: ClassifierFitFlags,
    bounded: Bounded,
    settings: Annotated[
        Settings,
        SettingsOf(
            "veilflow.models.expm.classifier.ExpMechClassifier",
            leave_out=("model_epsilon",),
            words={"model": Model, "loss": Loss},
        ),
    ],
    label: str | None = None,
    prior: Prior = Prior.GAUSSIAN,
    sampler: Sampler = Sampler.ZOOM,
) -> None:
    """Learn to tell classes apart, by the exponential mechanism (ExpM+NF).

    All columns other than the label are features, unless --columns names some. A dry run prints the
    price; of the records it uses only the names of columns.

    Flags:
        data: CSV, Parquet or Arrow file with a header. Series: NPZ of values, mask, since, labels.
        classes: All values that a label may have, with commas.
        prior_scale: Scale of the prior; features are in [-1, 1], so 1 to 5 is usual.
        model: The kind of classifier; grud is for series.
        loss: The error of one record, which has a bound.
        label: The column of labels.
        delta: 0 is enough for exact samplers.
        prior: Shape of the prior.
        sampler: flow and hmc give a CONDITIONAL guarantee, the others an exact one.
    """
    fitting = flags.begin(data, bounded.bounds, conditional=sampler in _UNPROVEN)
    from veilflow.models.expm.classifier import ExpMechClassifier
    from veilflow.releases.expm.prior import GaussianPrior, LaplacePrior

    shape = GaussianPrior if prior is Prior.GAUSSIAN else LaplacePrior
    features, box = _read_features(data, label, bounded)
    settings |= given(sampler=sampler, row_norm=bounded.row_norm)
    model = ExpMechClassifier(
        prior=shape(prior_scale),
        bounds=box,
        classes=tuple(names(classes)),
        **fitting.settings,
        **settings,
    )
    series = isinstance(features, tuple)
    num_features = features[0].shape[-1] if series else features.values.shape[1]

    def fit(**how: Any) -> Any:
        invalid = str(bounded.invalid)
        labels = read_labels(data, label, invalid=invalid)
        return model.fit(features, labels, invalid=invalid, **how)

    fitting.finish(model.plan(num_features), fit, data=data)


def _read_features(data: Path, label: str | None, bounded: Bounded) -> tuple[Any, Any]:
    """Rows or series, and the bounds that flags declare for them."""
    if is_series(data):
        if bounded.columns is not None or bounded.bounds is not None or label is not None:
            raise ValueError(
                "--columns, --bounds and --label are for tables, and an NPZ of series names nothing. "
                "Give --low and --high."
            )
        if bounded.low is None or bounded.high is None:
            raise ValueError("give --low and --high: bounds of the values, never read from them.")
        box = numbers("--low", bounded.low), numbers("--high", bounded.high)
        return read_series(data), box
    if label is None:
        raise ValueError("give --label, the name of the column that holds the labels.")
    if bounded.columns is None:
        return bounded.read(data, feature_names(data, label, invalid=str(bounded.invalid)))
    if label in names(bounded.columns):
        raise ValueError(f"--columns lists {label!r}, which is the label. Leave it out.")
    return bounded.read(data)


def is_classifier(fitted: Any) -> bool:
    """Whether a model predicts classes."""
    from veilflow.models.protocols import Predicts

    return isinstance(fitted, Predicts)


@guarded
def classify(
    model: options.Model,
    data: options.File,
    output: options.Output,
) -> None:
    """Write the most likely class of every record, and the probability of each class.

    Predictions for private records are private too.

    Flags:
        data: Records with the model's columns. They need no labels.
        out: The file to write: .csv, .parquet, .arrow.
    """
    output.check(model, data)
    import pyarrow as pa

    from veilflow.models import registry
    from veilflow.tabular.stream import file_format, write_tables

    out = output.out
    if file_format(out) in ("npz", "npy"):
        raise ValueError(f"--out {out} must be .csv, .parquet or .arrow: classes may be texts.")
    fitted = registry.load(model)
    if not is_classifier(fitted):
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
    warning = unprotected(
        "the predictions are computed from the records themselves and are as private as they are"
    )
    result = {"out": out, **warning, "conditional": fitted.conditional}
    tell(result, f"wrote {out}", fitted.guarantee, as_json=output.as_json, whose="the model: ")
