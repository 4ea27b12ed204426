"""`veilflow detect`: make a detector of anomalies, and ask it about rows."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import detect_query, options
from veilflow.cli.bounds import read_bounded
from veilflow.cli.inspect import show_plan
from veilflow.cli.output import check_out, guarded, note, tell
from veilflow.cli.spending import begin
from veilflow.cli.values import given, left_out

if TYPE_CHECKING:
    from veilflow.models.detect.likelihood import LikelihoodDetector

app = typer.Typer(help="Anomalies: make a detector, ask it about rows.", no_args_is_help=True)

_MODEL = ".veil"


Density = StrEnum("Density", ["FLOW", "MIXTURE"])
# a test keeps these words those of the library
Method = StrEnum("Method", ["EXPONENTIAL", "SPARSE_VECTOR", "NOISY_MAX"])


@app.callback()
def _group() -> None:
    """Anomalies: make a detector, ask it about rows."""


@app.command("fit")
@guarded
def fit(
    source: Annotated[
        Path,
        typer.Argument(
            help="A model (*.veil): its density tells what is odd. Or a file of records: an ensemble "
            "that answers with privacy is trained on them."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="The file to write: d.veil; of an ensemble, e.private.")
    ],
    false_alarm_rate: Annotated[
        float | None,
        typer.Option(help="Of a model: share of normal rows that may be called odd."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="A public number instead: a score; of an ensemble, a log density."),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(help="Of a model: public normal rows that set the threshold, for nothing."),
    ] = None,
    private: Annotated[
        Path | None,
        typer.Option(help="Of a model: private normal rows that do, for --epsilon."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Of a model of images: the class to compare with.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Of all answers; with --private, of the threshold.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Of all answers; default 0.")] = None,
    low: options.Low = None,
    high: options.High = None,
    bounds: options.BoundsFile = None,
    row_norm: options.RowNorm = None,
    columns: options.Columns = None,
    invalid: options.Invalid = options.InvalidCells.ERROR,
    parts: Annotated[int | None, typer.Option(help="Parts of an ensemble.")] = None,
    density: Annotated[
        Density | None, typer.Option(help="What each part of an ensemble learns.")
    ] = None,
    method: Annotated[Method | None, typer.Option(help="How an ensemble answers.")] = None,
    max_queries: Annotated[
        int | None, typer.Option(help="Answers that the budget is shared by.")
    ] = None,
    max_anomalies: Annotated[
        int | None, typer.Option(help="Of sparse_vector, instead: anomalies.")
    ] = None,
    quorum: Annotated[
        float | None, typer.Option(help="Of sparse_vector: share of parts against a row.")
    ] = None,
    components: Annotated[int | None, typer.Option(help="Of mixture: normals of a part.")] = None,
    steps: Annotated[int | None, typer.Option(help="Of flow: steps of training.")] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="File of spent queries, beside --out; default: its name with .journal."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="For the same threshold or parts; answers stay random.")
    ] = None,
    checkpoint: options.CheckpointFile = None,
    dry_run: options.DryRun = False,
    policy: options.PolicyFile = None,
    data_ledger: options.DataLedger = None,
    dataset: options.Dataset = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a detector of anomalies: of a fitted model, or of the records themselves.

    Of a model, the threshold comes from its own samples, which is free, unless --public, --private or
    --threshold says otherwise; the detector may be released, and answers any number of queries.

    Of records, an ensemble is trained without privacy and kept to yourself; its answers are private,
    and there are as many as --max-queries says.
    """
    check_out(out, force=force, inputs=(source,))
    of_model = {
        "--false-alarm-rate": false_alarm_rate,
        "--public": public,
        "--private": private,
        "--label": label,
    }
    bounded = {"low": low, "high": high, "file": bounds, "row_norm": row_norm}
    answers = {
        "method": method,
        "max_queries": max_queries,
        "max_anomalies": max_anomalies,
        "quorum": quorum,
    }
    models = {"parts": parts, "density": density, "components": components, "steps": steps}
    spending = (policy, data_ledger, dataset)
    how = {"checkpoint": checkpoint, "dry_run": dry_run, "as_json": as_json}
    if source.suffix.lower() == _MODEL:
        own = {"--low": low, "--high": high, "--bounds": bounds, "--row-norm": row_norm}
        own |= {"--columns": columns, "--journal": journal, "--delta": delta}
        own |= {f"--{name.replace('_', '-')}": one for name, one in (answers | models).items()}
        left_out(own, "is for an ensemble, which is trained on a file of records. Leave it out.")
        _of_model(
            source,
            out,
            false_alarm_rate=false_alarm_rate,
            threshold=threshold,
            public=public,
            private=private,
            label=label,
            epsilon=epsilon,
            invalid=str(invalid),
            seed=seed,
            spending=spending,
            **how,
        )
        return
    left_out(
        of_model,
        f"is for the detector of a fitted model, and {source} is not one (*{_MODEL}). Leave it out.",
    )
    if epsilon is None:
        raise ValueError("give --epsilon: what all answers together may cost.")
    _ensemble(
        source,
        out,
        columns=columns,
        bounded=bounded,
        invalid=str(invalid),
        answers=given(**answers),
        models=given(**models),
        settings=given(threshold=threshold, seed=seed),
        epsilon=epsilon,
        delta=delta or 0.0,
        journal=journal or out.with_name(f"{out.name}.journal"),
        spending=spending,
        **how,
    )


app.command("query")(detect_query.query)


def _of_model(
    source: Path,
    out: Path,
    *,
    false_alarm_rate: float | None,
    threshold: float | None,
    public: Path | None,
    private: Path | None,
    label: str | None,
    epsilon: float | None,
    invalid: str,
    seed: int | None,
    spending: tuple[Path | None, Path | None, str | None],
    checkpoint: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    from veilflow.models import registry
    from veilflow.models.detect.likelihood import LikelihoodDetector

    ways = {"--threshold": threshold, "--public": public, "--private": private}
    chosen = [flag for flag, value in ways.items() if value is not None]
    if len(chosen) > 1:
        raise ValueError(f"give one of {', '.join(ways)}, got {' and '.join(chosen)}.")
    paid = {"--invalid": invalid != "error", "--checkpoint": checkpoint, "--dry-run": dry_run}
    if private is None:
        left_out(paid, "is for rows that are paid for: give --private, or leave it out.")
    if (private is None) != (epsilon is None):
        raise ValueError(
            "--epsilon pays for a threshold of --private rows: give both, or neither. Other "
            "thresholds cost nothing."
        )
    fitted = registry.load(source)
    settings = given(false_alarm_rate=false_alarm_rate, threshold=threshold, label=label)
    detector = LikelihoodDetector(fitted, **settings)
    if private is None:
        if public is not None:
            detector = detector.from_public(detect_query.readable(detector, public))
        elif threshold is None:
            detector = detector.from_samples(seed=seed)
        detector.save(out)
        _released(out, detector, chosen, as_json=as_json)
        return
    assert epsilon is not None
    allowed = begin(epsilon, 0.0, *spending)
    plan = detector.plan_private(allowed.budget)
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    with allowed.reserved(
        lambda: plan.checked().ledger, data=private, checkpoint=checkpoint
    ) as spent:
        rows = detect_query.readable(detector, private, invalid=invalid)
        run = {"checkpoint": checkpoint, "save_as": out}
        detector = detector.from_private(rows, budget=allowed.budget, invalid=invalid, **run)
        spent(plan.ledger)
    _released(out, detector, chosen, as_json=as_json)


def _released(
    out: Path, detector: "LikelihoodDetector", chosen: list[str], *, as_json: bool
) -> None:
    source = chosen[0].removeprefix("--") if chosen else "samples"
    found = {"out": out, "threshold": detector.threshold, "from": source}
    text = f"wrote {out}\nodd is a score above {detector.threshold:.6g}"
    tell(found, text, detector.guarantee, as_json=as_json)


def _ensemble(
    source: Path,
    out: Path,
    *,
    columns: str | None,
    bounded: dict[str, Any],
    invalid: str,
    answers: dict[str, Any],
    models: dict[str, Any],
    settings: dict[str, Any],
    epsilon: float,
    delta: float,
    journal: Path,
    spending: tuple[Path | None, Path | None, str | None],
    checkpoint: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    from veilflow._core.codec import plain
    from veilflow.engine.training import Training
    from veilflow.models.detect.ensemble import Answering, EnsembleDetector

    if out.suffix.lower() == _MODEL:
        raise ValueError(
            f"--out {out}: an ensemble is never released, and *.veil files are. Give another name, "
            f"such as {out.stem}.private."
        )
    if journal.resolve().parent != out.resolve().parent:
        raise ValueError(
            f"--journal {journal} must lie in the folder of --out: the file of an ensemble knows its "
            "journal by name only."
        )
    allowed = begin(epsilon, delta, *spending)
    rows, box = read_bounded(source, columns, **bounded, invalid=invalid)
    mixture = models.get("density") == Density.MIXTURE
    estimator = EnsembleDetector(
        budget=allowed.budget,
        answers=Answering(**answers, journal=journal),
        bounds=box,
        row_norm=bounded["row_norm"],
        flow=str(Density.MIXTURE) if mixture else None,
        training=Training(steps=models.get("steps")),
        **given(parts=models.get("parts"), num_components=models.get("components")),
        **settings,
    )
    plan = estimator.plan(rows.values.shape[1])
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    run = {"checkpoint": checkpoint, "save_as": out}
    is_new = not journal.exists()
    # all answers that the plan allows: whoever asks later need not come back to the ledger
    with allowed.reserved(
        lambda: plan.checked().ledger, data=source, checkpoint=checkpoint
    ) as spent:
        try:
            ensemble = estimator.fit(rows, progress=True, invalid=invalid, **run)
        except BaseException:
            if is_new:  # nothing was answered, so nothing is forgotten
                journal.unlink(missing_ok=True)
            raise
        spent(plan.ledger)
    note(f"{out} and {journal} are not private: keep them where the records are.")
    result = {"out": out, "journal": journal, "answers": plain(plan.answers)}
    tell(result, f"wrote {out}", ensemble.guarantee, as_json=as_json)
