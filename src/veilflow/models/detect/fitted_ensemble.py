"""A fitted ensemble: its answers may be released, the ensemble itself is private."""

import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import codec, fields
from veilflow.models import artifact as artifacts
from veilflow.models.detect.counter import Counter, InFile, Unplaced
from veilflow.models.detect.data_dependent import data_dependent_epsilon
from veilflow.models.detect.ensemble_plan import EnsemblePlan
from veilflow.models.detect.scoring import is_outside
from veilflow.models.detect.stream import Stream
from veilflow.models.domain import Domain
from veilflow.models.fitted import ARRAYS, STATE, Fitted
from veilflow.privacy.assumptions import Conditional
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import Guarantee, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.answers import Answers, Votes
from veilflow.releases.part_densities import PartDensities
from veilflow.releases.plan import FitPlan
from veilflow.tabular.io import read_rows

INTERNAL = (
    "INTERNAL, NOT PRIVATE: this file holds models trained on records without privacy. Never release "
    "it; only the answers of the ensemble are private."
)
_RELEASABLE = ".veil"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FittedEnsemble(Fitted):
    """Models of parts, for the curator's machine only; its answers may be released.

    Attributes:
        plan: What all answers cost, with bounds and threshold.
        guarantee: That of all answers the plan allows, however many are asked for. So it also holds
            for someone who decides by the answers when to stop.
        columns: Names of the columns, where the rows had any.
    """

    kind: ClassVar[str] = "EnsembleDetector"

    plan: EnsemblePlan
    densities: PartDensities = field(repr=False, metadata=ARRAYS)
    columns: tuple[str, ...] | None
    counter: Counter = field(repr=False, metadata=STATE)
    _stream: Any = field(init=False, default=None, metadata=STATE)

    def __post_init__(self) -> None:
        fields.convert(self, _stream=lambda *_: Stream(self.answers, self.counter))

    @property
    def answers(self) -> Answers:
        """How answers are given, and what one costs: public."""
        return self.plan.answers

    @property
    def domain(self) -> Domain:
        """The declared bounds."""
        return self.plan.domain

    @property
    def threshold(self) -> float:
        """The public log-density above which a part calls a row normal."""
        return self.plan.threshold

    def query(self, rows: Any) -> Bool[np.ndarray, " answered"]:
        """Which rows are anomalies. Each row is paid for; the same row twice is paid for twice.

        Rows outside the declared bounds are anomalies by declaration and cost nothing. A call that
        asks for more answers than are left is refused as a whole. With sparse vector a stream ends at
        the last anomaly that is paid for: the answers up to it are returned, with a warning.

        Args:
            rows: Array, frame or file, as for `fit`. The rows are taken as public.

        Returns:
            One flag per answered row, in order: True for an anomaly.

        Raises:
            BudgetError: The budget is spent. Nothing was answered.
            PrivacyError: The journal is missing or damaged. Nothing was answered.
            OSError: The journal cannot be written. Nothing was answered.
        """
        values = self._read(rows)
        return self._stream.answer(self._votes(values), is_outside(self.domain, values))

    def votes(self, rows: Any) -> Sensitive[Votes]:
        """The number of parts that call each row normal: private, never to be released.

        Args:
            rows: As for `query`.
        """
        return self._votes(self._read(rows))

    def response_probability(self, votes: Any) -> Float[np.ndarray, "..."]:
        """The probability of the answer "normal", given the number of votes for it: public."""
        return self.answers.response_probability(votes)

    def data_dependent_epsilon(self) -> Sensitive[float]:
        """Epsilon of this object's answers on these very records, as in PATE: private.

        For "noisy_max", and for the curator only: the number depends on the records, so it is part of
        no guarantee. It holds for queries that were not chosen from earlier answers.
        """
        return data_dependent_epsilon(
            self._stream.asked, self.answers, delta=self.plan.budget.delta
        )

    @property
    def spent(self) -> int:
        """The number of queries spent; with sparse vector, of searches begun."""
        return self.counter.spent()

    @property
    def queries_left(self) -> int | None:
        """Queries that can still be asked; None with sparse vector, which counts anomalies."""
        return None if self.answers.method == "sparse_vector" else self._stream.left

    @property
    def anomalies_left(self) -> int | None:
        """With sparse vector: anomalies that can still be found; None with other methods.

        Public, since it follows from the answers. A search that a crash ended counts as spent.
        """
        return self._stream.left if self.answers.method == "sparse_vector" else None

    @property
    def ledger(self) -> Ledger:
        """What was spent so far; at most what the guarantee allows for."""
        return replace(self.plan.ledger, entries=self.answers.entries(self.counter.spent()))

    def with_journal(self, path: str | os.PathLike[str]) -> "FittedEnsemble":
        """The same ensemble, with its journal at another path.

        Raises:
            ValueError: The ensemble has no journal.
            PrivacyError: The file is missing, or the journal of another ensemble.
        """
        moved = InFile(path, id=self._journal().id)
        moved.spent()
        return replace(self, counter=moved)

    def beside(self, path: str | os.PathLike[str]) -> "FittedEnsemble":
        """The same ensemble, with its journal in the folder of its own file.

        The journal is looked for when the ensemble is first asked for something.

        Args:
            path: The file that the ensemble was read from.
        """
        counter = self._journal()
        if isinstance(counter, InFile):
            return self
        return replace(self, counter=counter.beside(path))

    def _journal(self) -> InFile | Unplaced:
        """The journal.

        Raises:
            ValueError: The ensemble has none, and lives in this process only.
        """
        if not isinstance(self.counter, InFile | Unplaced):
            raise ValueError(
                "the ensemble has no journal, so a copy of it would not know what was spent. Fit it "
                "with answers=vf.Answering(..., journal='...') to keep it."
            )
        return self.counter

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble to a file that only its owner can read.

        The file says of itself that it is not private: its ledger records a use of the records
        without privacy and its guarantee is infinite, whatever the answers cost. It holds the name of
        the journal, in which spent queries are counted, but not the key that split the records.

        Args:
            path: A file in the folder of the journal. A name that ends in `.veil` is refused: those
                are files to release.
        """
        if Path(path).suffix.lower() == _RELEASABLE:
            raise ValueError(
                "an ensemble is never released, and *.veil files are. Give another name, such as "
                f"{Path(path).stem}.private."
            )
        target, journal = Path(path), self._journal()
        if isinstance(journal, InFile) and not _same_folder(target, journal.path):
            raise ValueError(
                f"the journal {journal.path.name} lies in another folder, and the file of an ensemble "
                "knows it by name only. Save the ensemble there, or move the journal here and use "
                "with_journal(path)."
            )
        if target.is_file():
            target.chmod(stat.S_IRUSR | stat.S_IWUSR)
        elif target.parent.is_dir() and not target.exists():
            # a replaced file keeps its mode, so that nobody else can read the new one at any moment
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The ensemble as plain data, marked as not private."""
        journal = self._journal()
        name = journal.name if isinstance(journal, Unplaced) else journal.path.name
        ledger = Ledger().assuming(Conditional(INTERNAL))
        ledger = ledger.spend(NonPrivate(), purpose="models of parts, without privacy")
        artifact = super().to_artifact()
        return replace(
            artifact,
            manifest={
                **artifact.manifest,
                "internal": INTERNAL,
                "answers": self.guarantee.to_json(),
                # without its folder: paths reveal people and machines
                "journal": {"file": name, "id": journal.id},
            },
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.plan.budget.delta),
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact, **state: Any) -> Self:
        """The ensemble that `to_artifact` described; it answers once it knows its journal's folder."""
        manifest = dict(artifact.manifest)
        if manifest.pop("internal") != INTERNAL:
            raise ValueError("the file does not say that it is internal.")
        guarantee, journal = Guarantee.from_json(manifest.pop("answers")), manifest.pop("journal")
        ledger = codec.restored(FitPlan, manifest["plan"]).ledger
        artifact = replace(artifact, manifest=manifest, ledger=ledger, guarantee=guarantee)
        artifacts.check(artifact)
        counter = Unplaced(journal["file"], id=str(journal["id"]))
        return super().from_artifact(artifact, counter=counter, **state)

    @classmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> PartDensities:
        if not isinstance(plan, EnsemblePlan):
            raise ValueError("the plan is not one of an ensemble.")
        if public["columns"] is not None and len(public["columns"]) != plan.dim:
            raise ValueError("columns must name every number of a row.")
        # before anything is built: a file cannot demand more work than it has numbers
        if plan.num_numbers > num_numbers:
            raise ValueError("the arrays hold fewer numbers than the settings ask for.")
        return plan.untrained()

    def _read(self, rows: Any) -> Float[np.ndarray, "rows dim"]:
        values = read_rows(rows, columns=self.columns).values
        if values.shape[1] != self.plan.dim:
            raise ValueError(f"rows must have {self.plan.dim} columns, got {values.shape[1]}.")
        return values

    def _votes(self, values: Float[np.ndarray, "rows dim"]) -> Sensitive[Votes]:
        dim = values.shape[1]
        log_prob = self.densities.log_prob(self.domain.encode(self.domain.clamp(values)))
        above = log_prob - self.domain.log_scale(dim) > self.threshold
        return Sensitive(above.sum(axis=0), description="votes of parts")

    def __repr__(self) -> str:
        names = self.plan.dim if self.columns is None else ", ".join(self.columns)
        return (
            f"FittedEnsemble(columns: {names}; {self.answers.parts} parts, {self.answers.method}; "
            f"answers: {self.guarantee})"
        )


def _same_folder(one: Path, two: Path) -> bool:
    return os.path.realpath(one.absolute().parent) == os.path.realpath(two.absolute().parent)
