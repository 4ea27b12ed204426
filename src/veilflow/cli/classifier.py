"""`veilflow fit classifier` and `veilflow classify`: learn from labels, and predict them."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.fitting import FitFlags
from veilflow.cli.flags import Settings, SettingsOf, flag_of, given, names, numbers, refuse
from veilflow.cli.output import emit, guarded, plain, tell, unprotected
from veilflow.cli.records import Bounded, feature_names, is_series, read_labels, read_series

# a test compares these words with those of the library
Sampler = StrEnum("Sampler", ["ZOOM", "REJECTION", "GRID", "FLOW", "HMC"])
Model = StrEnum("Model", ["LOGISTIC", "MLP", "GRUD"])
Loss = StrEnum("Loss", [("L2", "l2"), ("RAMP", "ramp"), ("CLIPPED_CE", "clipped-ce")])
Prior = StrEnum("Prior", ["GAUSSIAN", "LAPLACE"])
Flow = StrEnum("Flow", ["PLANAR", "SYLVESTER", "REALNVP", "SPLINE"])
Optimizer = StrEnum("Optimizer", ["SGD", "ADAM", "RMSPROP", "ADABELIEF"])
Schedule = StrEnum("Schedule", ["CONSTANT", "COSINE", "LINEAR", "EXPONENTIAL"])

_UNPROVEN = (Sampler.FLOW, Sampler.HMC)
_SAMPLERS = "veilflow.releases.expm"
_HMC_FLAGS = {"steps": "transitions"}
_OPTIMIZER_FLAGS = {"name": "optimizer"}


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
            words={"model": Model, "loss": Loss},
        ),
    ],
    flow: Annotated[
        Settings, SettingsOf(f"{_SAMPLERS}.flow_sampler.FlowSampler", words={"flow": Flow})
    ],
    optimizer: Annotated[
        Settings,
        SettingsOf(
            "veilflow.engine.optimizer.Optimizer",
            only=("name", "learning_rate", "schedule", "momentum"),
            words={"name": Optimizer, "schedule": Schedule},
            flags=_OPTIMIZER_FLAGS,
        ),
    ],
    hmc: Annotated[Settings, SettingsOf(f"{_SAMPLERS}.hmc.HmcSampler", flags=_HMC_FLAGS)],
    zoom: Annotated[Settings, SettingsOf(f"{_SAMPLERS}.zoom.ZoomSampler")],
    rejection: Annotated[Settings, SettingsOf(f"{_SAMPLERS}.rejection.RejectionSampler")],
    grid: Annotated[Settings, SettingsOf(f"{_SAMPLERS}.grid.GridSampler")],
    label: str | None = None,
    prior: Prior = Prior.GAUSSIAN,
    sampler: Sampler = Sampler.ZOOM,
    diagnose: Path | None = None,
) -> None:
    """Learn to tell classes apart, by the exponential mechanism (ExpM+NF).

    All columns other than the label are features, unless --columns names some. A dry run prints the
    price; of the records it uses only the names of columns. Each sampler has settings of its own, and
    those of another one are refused.

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
        diagnose: File of PUBLIC records like DATA: report how well a flow does there, and stop.
        flow: Of flow: the architecture.
        blocks: Of flow: number of blocks.
        rank: Of flow: units and reflections of a Sylvester block.
        hidden: Of flow: hidden layers of a coupling, with commas.
        base_scale: Of flow: standard deviation of the base distribution.
        steps: Of flow: training steps, which cost nothing.
        samples: Of flow: parameter vectors drawn in each step.
        batch_size: Of flow: records drawn in each step; by default all.
        optimizer: Of flow: the optimizer.
        learning_rate: Of flow: the step size.
        schedule: Of flow: how the step size goes on.
        momentum: Of flow: decay of the running mean of gradients.
        warmup: Of hmc: transitions that find step sizes.
        transitions: Of hmc: transitions after the warm-up.
        leapfrogs: Of hmc: gradients of a transition.
        acceptance: Of hmc: acceptance rate towards which the step size is adapted.
        num_candidates: Of zoom: candidates of each round.
        rounds: Of zoom: number of rounds; the default follows from public numbers.
        growth: Of zoom: epsilon of a round over that of the one before.
        max_trials: Of rejection: a cap on trials, which costs a delta.
        reach: Of rejection: a draw that may need more expected trials is refused.
        per_axis: Of grid: points along each parameter.
    """
    fitting = flags.begin(data, bounded.bounds, diagnose, conditional=sampler in _UNPROVEN)
    own = {
        Sampler.ZOOM: zoom,
        Sampler.REJECTION: rejection,
        Sampler.GRID: grid,
        Sampler.FLOW: flow,
        Sampler.HMC: hmc,
    }
    chosen = _sampler_of(sampler, own, optimizer)
    from veilflow.models.expm.classifier import ExpMechClassifier
    from veilflow.releases.expm.prior import GaussianPrior, LaplacePrior

    shape = GaussianPrior if prior is Prior.GAUSSIAN else LaplacePrior
    source = data if diagnose is None else _public(diagnose, data)
    features, box = _read_features(source, label, bounded)
    settings |= given(row_norm=bounded.row_norm)
    model = ExpMechClassifier(
        prior=shape(prior_scale),
        bounds=box,
        classes=tuple(names(classes)),
        sampler=chosen,
        **fitting.settings,
        **settings,
    )
    if diagnose is not None:
        labels = read_labels(source, label, invalid=str(bounded.invalid))
        _tell_diagnosis(model, features, labels, bounded, as_json=flags.as_json)
        raise typer.Exit
    series = isinstance(features, tuple)
    num_features = features[0].shape[-1] if series else features.values.shape[1]

    def fit(**how: Any) -> Any:
        invalid = str(bounded.invalid)
        labels = read_labels(data, label, invalid=invalid)
        return model.fit(features, labels, invalid=invalid, **how)

    fitting.finish(model.plan(num_features), fit, data=data)


def _sampler_of(sampler: Sampler, own: dict[Sampler, Settings], optimizer: Settings) -> Any:
    """The sampler with the settings that were given; its name where there are none."""
    for other, settings in own.items():
        beside = optimizer if other is Sampler.FLOW else {}
        if other is not sampler:
            flags = _HMC_FLAGS if other is Sampler.HMC else {}
            found = [*(flags.get(name, name) for name in settings)]
            found += [_OPTIMIZER_FLAGS.get(name, name) for name in beside]
            refuse(
                {flag_of(name): True for name in found},
                f"is a setting of --sampler {other}, and the sampler is {sampler}. Leave it out.",
            )
    settings = own[sampler]
    if sampler is Sampler.FLOW and optimizer:
        from veilflow.releases.expm.flow_sampler import FlowSampler

        settings["optimizer"] = replace(FlowSampler().optimizer, **optimizer)
    if not settings:
        return str(sampler)
    from veilflow.releases.expm.draw import SAMPLERS

    return SAMPLERS[str(sampler)](**settings)


def _public(diagnose: Path, data: Path) -> Path:
    """The file of public records, which is not the one to be protected."""
    if diagnose.exists() and data.exists() and diagnose.samefile(data):
        raise ValueError(
            "--diagnose names the file that is to be protected. What it reports is computed from the "
            "records without privacy: give public or generated records with the same columns."
        )
    return diagnose


def _tell_diagnosis(
    model: Any, features: Any, labels: list[str], bounded: Bounded, *, as_json: bool
) -> None:
    found = model.diagnose(features, labels, invalid=str(bounded.invalid))
    weights = found.importance
    values = {
        "total_variation": weights.total_variation,
        "effective_share": weights.effective_share,
        "pareto_k": weights.pareto_k,
        "tail_share": weights.tail_share,
        "log_z": weights.log_z,
        "stein_p_value": found.stein,
    }
    emit(
        plain({**values, "objections": list(found.objections)}),
        "nothing was spent, and no private record was read. A flow trained on the public records:",
        *(f"  {name}: {value:.4g}" for name, value in values.items()),
        *(f"objection: {objection}" for objection in found.objections),
        "No objection is no proof: the guarantee stays CONDITIONAL.",
        as_json=as_json,
    )


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
