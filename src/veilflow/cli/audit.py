"""`veilflow audit`: attack a model with rows that were in and rows that were not, or the engine."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.flags import flag_of, refuse
from veilflow.cli.output import emit, guarded, note
from veilflow.cli.records import feature_names, is_series, read_labels, read_series

if TYPE_CHECKING:
    from veilflow.audit import AuditResult


# a test compares these words with those of the library
Method = StrEnum("Method", ["DENSITY", "LABEL", "RECONSTRUCTION", "SYNTHETIC"])
_ENGINE = "engine"


@dataclass(frozen=True, kw_only=True)
class Records:
    """Flags for the audit of a model.

    Attributes:
        data: For a model: rows that it was fitted on.
        holdout: For a model: rows like them, put aside before the fit by a coin each.
        method: What rows are scored by; by default the strongest method for the model.
        reference: A model of other, public rows, to take away what is likely anyway.
        label: For a classifier: the column of labels.
        labels: Labels of the images in --data, as for fit images.
        holdout_labels: The same for --holdout.
        column: Instead, guess this column from the others.
    """

    data: Path | None = None
    holdout: Path | None = None
    method: Method | None = None
    reference: Path | None = None
    label: str | None = None
    labels: Path | None = None
    holdout_labels: Path | None = None
    column: str | None = None


@dataclass(frozen=True, kw_only=True)
class EngineRun:
    """Flags for the audit of the engine.

    Attributes:
        epsilon: For the engine: the budget of the run.
        delta: For the engine: the delta of the run.
        sampling_rate: For the engine: the probability that a record enters a batch.
        steps: For the engine: the number of steps.
        canaries: For the engine: the number of generated records.
    """

    epsilon: float = 4.0
    delta: float = 1e-5
    sampling_rate: float = 0.1
    steps: int = 100
    canaries: int = 1000


@guarded
def audit(
    target: Annotated[str, typer.Argument(metavar="MODEL|engine")],
    records: Records,
    run: EngineRun,
    confidence: float = 0.95,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Attack a model or the engine: a lower bound on epsilon, held against the claim.

    veilflow audit m.veil --data train.csv --holdout out.csv reads private rows: what it prints is
    INTERNAL. Image models take folders, NPZ and IDX files, classifiers --label. veilflow audit engine
    reads none: it measures the compiled step on generated rows and attacks a run of it with canaries.

    The exit code is 1 if the claim is refuted or a check fails. A bound below the claim proves
    nothing.

    Flags:
        target: A model file, or the word engine.
        confidence: The confidence of the bound.
    """
    if target == _ENGINE:
        unused = {flag_of(name): value for name, value in vars(records).items()}
        refuse(unused, "is for models. The engine is audited on generated rows.")
        _audit_engine(run, confidence, seed, as_json=as_json)
    else:
        _audit_model(Path(target), records, confidence, seed or 0, as_json=as_json)


def _audit_model(
    path: Path, records: Records, confidence: float, seed: int, *, as_json: bool
) -> None:
    if records.data is None or records.holdout is None:
        raise ValueError(
            "an audit of a model needs --data, rows that it was fitted on, and --holdout, rows "
            "like them that it was not. For the engine: veilflow audit engine."
        )
    from veilflow.audit import audit as attack
    from veilflow.audit import audit_attribute
    from veilflow.models import registry

    model, reference, method = registry.load(path), records.reference, records.method
    rows = (
        read_attacked(model, records.data, label=records.label, labels=records.labels),
        read_attacked(model, records.holdout, label=records.label, labels=records.holdout_labels),
    )
    settings: dict[str, Any] = {"confidence": confidence, "seed": seed}
    if records.column is not None:
        if reference is not None or method is not None:
            raise ValueError(
                "--column is an attack of its own: leave --method and --reference out."
            )
        result = audit_attribute(model, *rows, records.column, **settings)
    else:
        if reference is not None and method is Method.SYNTHETIC:
            raise ValueError("--reference is for --method density and label.")
        settings["reference"] = None if reference is None else registry.load(reference)
        result = attack(model, *rows, method=method, **settings)
    note("warning: INTERNAL. The result was computed from private rows; do not publish it.")
    emit(result.to_json(), _text(result), as_json=as_json)
    _refuse([result.sentence] if result.exceeds_claim else [])


def _audit_engine(run: EngineRun, confidence: float, seed: int | None, *, as_json: bool) -> None:
    from veilflow.audit import audit_gradients, engine_check, with_epsilon
    from veilflow.audit.bounds import available
    from veilflow.engine import Flat, TrainingPlan

    rate = run.sampling_rate
    plan = TrainingPlan(
        clipping=Flat(1.0),
        noise_multiplier=1.0,
        sampling_rate=rate,
        expected_batch_size=max(1.0, rate * run.canaries),
        steps=run.steps,
    )
    plan = with_epsilon(plan, run.epsilon, run.delta)
    report = engine_check(plan, seed=0 if seed is None else seed)
    # with full batches the engine is a Gaussian mechanism, and the tighter bound is exact
    bound = "one-run-f-dp" if rate == 1 and available() else "one-run"
    result = audit_gradients(
        plan,
        delta=run.delta,
        num_canaries=run.canaries,
        confidence=confidence,
        bound=bound,
        seed=seed,
    )
    results = {"engine_check": report.to_json(), "canaries": result.to_json()}
    emit(results, f"{report}\n\n{_text(result)}", as_json=as_json)
    failed = [f"the check of {name} failed" for name in report.failed]
    _refuse(failed + ([result.sentence] if result.exceeds_claim else []))


def _text(result: "AuditResult") -> str:
    counts = ", ".join(f"{name} {value}" for name, value in result.counts.items())
    scores = ", ".join(f"{name} {value:.4g}" for name, value in result.scores.items())
    return f"{result}\n  {counts}; {scores}"


def _refuse(reasons: list[str]) -> None:
    if reasons:
        from veilflow._core.errors import PrivacyError

        raise PrivacyError("; ".join(reasons))


def read_attacked(model: Any, data: Path, *, label: str | None, labels: Path | None) -> Any:
    """What a file or folder holds, as an audit of the model takes it.

    Args:
        model: The loaded model.
        data: The file or folder of `--data` or `--holdout`.
        label: The column of labels, for a classifier.
        labels: The file of labels, for images.

    Raises:
        ValueError: The model is of a kind that is not audited with rows, or a flag is not for it.
    """
    from veilflow.audit.rows import attacked, is_classifier, is_image

    model = attacked(model)
    if labels is not None and not is_image(model):
        raise ValueError("--labels and --holdout-labels are for image models.")
    if label is not None and not is_classifier(model):
        raise ValueError("--label is for classifiers. To guess a column: --column.")
    if is_image(model):
        return _images(model, data, labels)
    return _labeled(model, data, label) if is_classifier(model) else data


def _images(model: Any, data: Path, labels: Path | None) -> Any:
    from veilflow.images import read_images

    if labels is None and model.classes and data.is_file() and data.suffix.lower() != ".npz":
        raise ValueError(
            f"the images of this model have classes, and {data} has no labels with it. Name their "
            "files by --labels and --holdout-labels, or give NPZ files or folders by class."
        )
    return read_images(data, model.spec, labels=labels)


def _labeled(model: Any, data: Path, label: str | None) -> tuple[Any, list[Any]]:
    """Features, and labels as the model names them."""
    features: Any = data
    if is_series(data):
        if label is not None:
            raise ValueError(f"{data} holds series with their labels. Leave --label out.")
        features = read_series(data)
    elif label is None:
        raise ValueError(
            "a classifier is audited by the labels of records. Name their column: --label."
        )
    elif model.columns is None:
        from veilflow.tabular.io import read_rows

        features = read_rows(data, columns=feature_names(data, label)).values
    # in files labels are words, and classes may have been declared as numbers
    named = {str(name): name for name in model.classes}
    return features, [named.get(word, word) for word in read_labels(data, label)]
