"""`veilflow audit`: attack a model with rows that were in and rows that were not, or the engine."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.flags import refuse
from veilflow.cli.output import emit, guarded, note
from veilflow.cli.records import feature_names, is_series, read_labels, read_series

if TYPE_CHECKING:
    from veilflow.audit import AuditResult


# a test keeps these words those of the library
Method = StrEnum("Method", ["DENSITY", "LABEL", "RECONSTRUCTION", "SYNTHETIC"])
_ENGINE = "engine"


@guarded
def audit(
    target: Annotated[
        str, typer.Argument(metavar="MODEL|engine", help="A model file, or the word engine.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="Rows that the model was fitted on. Of a model.")
    ] = None,
    holdout: Annotated[
        Path | None,
        typer.Option(help="Rows like them, put aside before the fit by a coin each. Of a model."),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option(help="What rows are scored by; the strongest for the model by default."),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="A model of other, public rows, to take away what is likely."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Of a classifier: the column of labels.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels of the images in --data, as for fit images.")
    ] = None,
    holdout_labels: Annotated[Path | None, typer.Option(help="The same for --holdout.")] = None,
    column: Annotated[
        str | None, typer.Option(help="Guess this column from the others instead.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the bound.")] = 0.95,
    epsilon: Annotated[float, typer.Option(help="Of the engine's run.")] = 4.0,
    delta: Annotated[float, typer.Option(help="Of the engine's run.")] = 1e-5,
    sampling_rate: Annotated[float, typer.Option(help="Of the engine's run.")] = 0.1,
    steps: Annotated[int, typer.Option(help="Of the engine's run.")] = 100,
    canaries: Annotated[int, typer.Option(help="Generated records in the engine's run.")] = 1000,
    seed: Annotated[int | None, typer.Option(help="For the same audit again.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Bound epsilon from below by an attack, and hold the bound against the claim.

    veilflow audit m.veil --data train.csv --holdout out.csv reads private rows: what it prints is
    INTERNAL. Image models take folders, NPZ and IDX files, classifiers --label. veilflow audit engine
    reads none: it measures the compiled step on generated rows and attacks a run of it with canaries.

    The exit code is 1 if the claim is refuted or a check fails. A bound below the claim proves
    nothing.
    """
    if target == _ENGINE:
        unused = {
            "--data": data,
            "--holdout": holdout,
            "--method": method,
            "--reference": reference,
            "--label": label,
            "--labels": labels,
            "--holdout-labels": holdout_labels,
            "--column": column,
        }
        refuse(unused, "is for models. The engine is audited on generated rows.")
        run = {"epsilon": epsilon, "delta": delta, "sampling_rate": sampling_rate, "steps": steps}
        _audit_engine(run, canaries, confidence, seed, as_json=as_json)
        return
    if data is None or holdout is None:
        raise ValueError(
            "an audit of a model needs --data, rows that it was fitted on, and --holdout, rows "
            "like them that it was not. For the engine: veilflow audit engine."
        )
    from veilflow.audit import audit as attack
    from veilflow.audit import audit_attribute
    from veilflow.models import registry

    model = registry.load(Path(target))
    rows = (
        read_attacked(model, data, label=label, labels=labels),
        read_attacked(model, holdout, label=label, labels=holdout_labels),
    )
    settings: dict[str, Any] = {"confidence": confidence, "seed": 0 if seed is None else seed}
    if column is not None:
        if reference is not None or method is not None:
            raise ValueError(
                "--column is an attack of its own: leave --method and --reference out."
            )
        result = audit_attribute(model, *rows, column, **settings)
    else:
        if reference is not None and method is Method.SYNTHETIC:
            raise ValueError("--reference is for --method density and label.")
        settings["reference"] = None if reference is None else registry.load(reference)
        result = attack(model, *rows, method=method, **settings)
    note("warning: INTERNAL. The result was computed from private rows; do not publish it.")
    emit(result.to_json(), _text(result), as_json=as_json)
    _refuse([result.sentence] if result.exceeds_claim else [])


def _audit_engine(
    run: dict[str, Any], canaries: int, confidence: float, seed: int | None, *, as_json: bool
) -> None:
    from veilflow.audit import audit_gradients, engine_check, with_epsilon
    from veilflow.audit.f_dp import available
    from veilflow.engine import Flat, TrainingPlan

    rate, delta = run["sampling_rate"], run["delta"]
    plan = TrainingPlan(
        clipping=Flat(1.0),
        noise_multiplier=1.0,
        sampling_rate=rate,
        expected_batch_size=max(1.0, rate * canaries),
        steps=run["steps"],
    )
    plan = with_epsilon(plan, run["epsilon"], delta)
    report = engine_check(plan, seed=0 if seed is None else seed)
    # with full batches the engine is a Gaussian mechanism, and the tighter bound is exact
    bound = "one-run-f-dp" if rate == 1 and available() else "one-run"
    result = audit_gradients(
        plan, delta=delta, num_canaries=canaries, confidence=confidence, bound=bound, seed=seed
    )
    found = {"engine_check": report.to_json(), "canaries": result.to_json()}
    emit(found, f"{report}\n\n{_text(result)}", as_json=as_json)
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
        data: Of `--data` or `--holdout`.
        label: The column of labels, of a classifier.
        labels: The file of labels, of images.

    Raises:
        ValueError: The model is of a kind that is not audited with rows, or a flag is not for it.
    """
    from veilflow.audit.kinds import attacked, is_classifier, is_image

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
