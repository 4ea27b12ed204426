"""`veilflow audit`: attack a model with rows that were in and rows that were not, or the engine."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.output import emit, guarded, note
from veilflow.cli.values import left_out

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
        left_out(unused, "is for models. The engine is audited on generated rows.")
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
    from veilflow.cli import audit_rows
    from veilflow.models import registry

    model = registry.load(Path(target))
    rows = (
        audit_rows.read(model, data, label=label, labels=labels),
        audit_rows.read(model, holdout, label=label, labels=holdout_labels),
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
    from veilflow.audit.bounds import available
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
