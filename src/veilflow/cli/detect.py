"""`veilflow detect`: make a detector of anomalies, and ask it about rows."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import detect_query, options
from veilflow.cli.fitting import RunFlags
from veilflow.cli.flags import Settings, SettingsOf, flag_of, given, refuse
from veilflow.cli.output import guarded, note, tell
from veilflow.cli.records import Bounded

if TYPE_CHECKING:
    from veilflow.models.detect.likelihood import LikelihoodDetector

app = typer.Typer(help="Anomalies: make a detector, ask it about rows.", no_args_is_help=True)

_MODEL = ".veil"

Density = StrEnum("Density", ["FLOW", "MIXTURE"])
# a test compares these words with those of the library
Method = StrEnum("Method", ["EXPONENTIAL", "SPARSE_VECTOR", "NOISY_MAX"])


@dataclass(frozen=True, kw_only=True)
class DetectFlags(RunFlags):
    """The flags of every fit. A detector may cost nothing, so that the budget can be left out."""

    epsilon: float | None = None
    delta: float | None = None


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Flags that say when a row is odd. All but `--threshold` are for the detector of a model.

    Attributes:
        false_alarm_rate: For a model: share of normal rows that may be called odd.
        threshold: Instead, a public number: a score; for an ensemble, a log density.
        public: For a model: public normal rows that set the threshold, at no cost.
        private: For a model: private normal rows that set it, paid by --epsilon.
        label: For a model of images: the class to compare with.
    """

    false_alarm_rate: float | None = None
    threshold: float | None = None
    public: Path | None = None
    private: Path | None = None
    label: str | None = None

    @property
    def source(self) -> str:
        """What sets the threshold of a model's detector.

        Raises:
            ValueError: Several flags say so.
        """
        ways = {"--threshold": self.threshold, "--public": self.public, "--private": self.private}
        chosen = [flag for flag, value in ways.items() if value is not None]
        if len(chosen) > 1:
            raise ValueError(f"give one of {', '.join(ways)}, got {' and '.join(chosen)}.")
        return chosen[0].removeprefix("--") if chosen else "samples"


@app.command("fit")
@guarded
def fit(
    source: options.File,
    flags: DetectFlags,
    threshold: Threshold,
    bounded: Bounded,
    settings: Annotated[
        Settings,
        SettingsOf(
            "veilflow.models.detect.ensemble.EnsembleDetector",
            only=("parts", "num_components"),
            flags={"num_components": "components"},
        ),
    ],
    answers: Annotated[
        Settings,
        SettingsOf(
            "veilflow.models.detect.ensemble_plan.Answering",
            leave_out=("renew",),
            words={"method": Method},
        ),
    ],
    training: Annotated[Settings, SettingsOf("veilflow.engine.training.Training", only=("steps",))],
    density: Density | None = None,
    journal: Path | None = None,
) -> None:
    """Make a detector of anomalies, from a fitted model or from the records themselves.

    From a model, the threshold comes from its own samples, which is free, unless --public, --private
    or --threshold says otherwise. The detector may be released, and answers any number of queries.

    From records, an ensemble is trained without privacy and stays with you. Its answers are private,
    and there are as many as --max-queries says.

    Flags:
        source: A model (*.veil): rows that it finds unlikely are odd. Or a file of records: an
            ensemble that answers with privacy is trained on them.
        out: The file to write: d.veil; for an ensemble, e.private.
        epsilon: The budget of all answers; with --private, that of the threshold.
        delta: For an ensemble: delta of all answers; default 0.
        seed: Repeat the same threshold or parts; answers stay random.
        parts: For an ensemble: how many parts the records are split into.
        density: For an ensemble: what each part learns.
        method: For an ensemble: how it answers.
        max_queries: For an ensemble: number of answers that share the budget.
        steps: For flow: number of training steps.
        journal: File of spent queries, beside --out; default: its name with .journal.
    """
    flags.check(source, bounded.bounds, threshold.public, threshold.private)
    ensemble = settings | answers | training | given(density=density)
    ensemble = {flag_of(name.removeprefix("num_")): value for name, value in ensemble.items()}
    if source.suffix.lower() == _MODEL:
        ensemble |= {"--journal": journal, "--delta": flags.delta, "--columns": bounded.columns}
        refuse(
            bounded.declared | ensemble,
            "is for an ensemble, which is trained on a file of records. Leave it out.",
        )
        _from_model(source, flags, threshold, invalid=str(bounded.invalid))
        return
    refuse(
        {
            "--false-alarm-rate": threshold.false_alarm_rate,
            "--public": threshold.public,
            "--private": threshold.private,
            "--label": threshold.label,
        },
        f"is for the detector of a fitted model, and {source} is not one (*{_MODEL}). Leave it out.",
    )
    settings |= given(threshold=threshold.threshold)
    if density is Density.MIXTURE:
        settings["flow"] = str(density)
    journal = journal or flags.out.with_name(f"{flags.out.name}.journal")
    _from_records(source, flags, bounded, settings, answers | {"journal": journal}, training)


app.command("query")(detect_query.query)


def _from_model(source: Path, flags: DetectFlags, threshold: Threshold, *, invalid: str) -> None:
    from veilflow.models import registry
    from veilflow.models.detect.likelihood import LikelihoodDetector

    origin, private = threshold.source, threshold.private
    if (private is None) != (flags.epsilon is None):
        raise ValueError(
            "--epsilon pays for a threshold of --private rows: give both, or neither. Other "
            "thresholds cost nothing."
        )
    if private is None:
        paid = {"--checkpoint": flags.checkpoint, "--dry-run": flags.dry_run}
        paid["--invalid"] = invalid != "error"
        refuse(paid, "is for rows that are paid for: give --private, or leave it out.")
    detector = LikelihoodDetector(
        registry.load(source),
        **given(
            false_alarm_rate=threshold.false_alarm_rate,
            threshold=threshold.threshold,
            label=threshold.label,
        ),
    )
    if private is not None:
        detector = _with_private_threshold(detector, private, flags, invalid=invalid)
    else:
        if threshold.public is not None:
            detector = detector.from_public(detect_query.readable(detector, threshold.public))
        elif threshold.threshold is None:
            detector = detector.from_samples(seed=flags.seed)
        detector.save(flags.out)
    result = {"out": flags.out, "threshold": detector.threshold, "from": origin}
    text = f"wrote {flags.out}\na row is odd if its score is above {detector.threshold:.6g}"
    tell(result, text, detector.guarantee, as_json=flags.as_json)


def _with_private_threshold(
    detector: "LikelihoodDetector", private: Path, flags: DetectFlags, *, invalid: str
) -> "LikelihoodDetector":
    assert flags.epsilon is not None
    fitting = flags.begin_with(flags.epsilon, 0.0, private, conditional=True)
    plan = detector.plan_private(fitting.budget)
    if fitting.policy is not None:
        # what will be written states the model and its threshold together
        whole = detector.plan_with(plan).guarantee
        fitting.policy.check_guarantee(whole, dataset=flags.dataset)

    def fit(**how: Any) -> "LikelihoodDetector":
        rows = detect_query.readable(detector, private, invalid=invalid)
        return detector.from_private(rows, budget=fitting.budget, invalid=invalid, **how)

    # the ledger of the detector also holds what its model cost
    return fitting.run(plan, fit, data=private, ledger=plan.ledger)


def _from_records(
    source: Path,
    flags: DetectFlags,
    bounded: Bounded,
    settings: Settings,
    answers: Settings,
    training: Settings,
) -> None:
    from veilflow._core.codec import plain
    from veilflow.engine.training import Training
    from veilflow.models.detect.ensemble import Answering, EnsembleDetector

    out, journal = flags.out, answers["journal"]
    if flags.epsilon is None:
        raise ValueError("give --epsilon: what all answers together may cost.")
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
    fitting = flags.begin_with(flags.epsilon, flags.delta or 0.0, source, conditional=False)
    rows, bounds = bounded.read(source)
    estimator = EnsembleDetector(
        bounds=bounds,
        row_norm=bounded.row_norm,
        answers=Answering(**answers),
        training=Training(**training),
        **fitting.settings,
        **settings,
    )
    plan = estimator.plan(rows.values.shape[1])

    def fit(**how: Any) -> Any:
        return estimator.fit(rows, invalid=str(bounded.invalid), **how)

    # counts all answers that the plan allows: later queries need not come back to the ledger
    ensemble = fitting.run(plan, fit, data=source, ledger=plan.ledger)
    note(f"{out} and {journal} are not private: keep them where the records are.")
    result = {"out": out, "journal": journal, "answers": plain(plan.answers)}
    tell(result, f"wrote {out}", ensemble.guarantee, as_json=flags.as_json)
