"""A fitted ensemble: answers to queries, each written down before it is given. Itself private."""

import os
import stat
import threading
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import codec
from veilflow._core.errors import BudgetError
from veilflow.models import artifact as artifacts
from veilflow.models.detect.counter import Counter, InFile, Unplaced
from veilflow.models.detect.data_dependent import data_dependent_epsilon
from veilflow.models.detect.ensemble_plan import EnsemblePlan
from veilflow.models.detect.scoring import is_outside
from veilflow.models.domain import Domain
from veilflow.models.fitted import ARRAYS, STATE, Fitted
from veilflow.privacy.assumptions import Conditional
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import Guarantee, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import SparseVector
from veilflow.releases import answers as answering
from veilflow.releases.answers import Answers, Votes
from veilflow.releases.part_densities import PartDensities
from veilflow.releases.plan import FitPlan
from veilflow.tabular.io import read_rows

INTERNAL = (
    "INTERNAL, NOT PRIVATE: this file holds models trained on records without privacy. Never release "
    "it; only the answers of the ensemble are private."
)
_RELEASABLE = ".veil"


class _Stream:
    """What changes while queries are answered: the search under way, and votes that were counted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.search: SparseVector | None = None
        self.asked: list[Sensitive[Votes]] = []

    def __reduce__(self):
        raise TypeError("the state of a stream of queries is secret and is not copied.")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FittedEnsemble(Fitted):
    """Models of parts, for the curator's machine only; its answers may be released.

    Attributes:
        plan: What all answers cost, with bounds and threshold.
        guarantee: Of all answers the plan allows, however many are asked for: so it holds, too, for
            someone who stops when the answers please.
        columns: Names of the columns, where the rows had any.
    """

    kind: ClassVar[str] = "EnsembleDetector"

    plan: EnsemblePlan
    densities: PartDensities = field(repr=False, metadata=ARRAYS)
    columns: tuple[str, ...] | None
    counter: Counter = field(repr=False, metadata=STATE)
    _stream: _Stream = field(default_factory=_Stream, repr=False, metadata=STATE)

    @property
    def answers(self) -> Answers:
        """How it answers, and what an answer costs: public."""
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
        the last anomaly that is paid for: the answers up to there are returned, with a warning.

        Args:
            rows: Array, frame or file, as for `fit`; also single rows. They are taken as public.

        Returns:
            True for an anomaly, one for each row that was answered, in order.

        Raises:
            BudgetError: The budget is spent. Nothing was answered.
            PrivacyError: The journal is missing or damaged. Nothing was answered.
            OSError: The journal cannot be written. Nothing was answered.
        """
        values = self._read(rows)
        outside = is_outside(self.domain, values)
        votes = self._votes(values)
        if self.answers.method == "sparse_vector":
            return self._searched(votes, outside)
        answers = np.ones(len(values), bool)
        paid = np.flatnonzero(~outside)
        if len(paid):
            with self._stream.lock:
                self.counter.spend(len(paid), limit=self.answers.limit)  # before it is answered
                asked = votes.map(lambda c: c[paid])
                answers[paid] = answering.odd(self.answers, asked)
                self._stream.asked.append(asked)
        return answers

    def _searched(
        self, votes: Sensitive[Votes], outside: Bool[np.ndarray, " rows"]
    ) -> Bool[np.ndarray, " answered"]:
        """Answers one by one; when a search is over, the next is paid for."""
        answers: list[bool] = []
        stream = self._stream
        with stream.lock:
            for i, free in enumerate(outside):
                if free:
                    answers.append(True)
                    continue
                if stream.search is None:
                    try:
                        self.counter.spend(1, limit=self.answers.limit)
                    except BudgetError as error:
                        return self._ended(answers, error)
                    stream.search = answering.search(self.answers)
                against = votes.map(lambda c, i=i: float(self.answers.parts - c[i]))
                answers.append(stream.search.above(against))
                if stream.search.left == 0:
                    stream.search = None
        return np.array(answers, bool)

    def _ended(self, answers: list[bool], error: BudgetError) -> Bool[np.ndarray, " answered"]:
        if not answers:
            most = self.answers.limit * self.answers.anomalies
            raise BudgetError(
                f"the stream is over: {most} anomalies were paid for, and all are found or were "
                "being looked for by a process that ended. Fit a new ensemble to go on: on the same "
                "records that is a second spend."
            ) from error
        warnings.warn(
            f"the stream ended after {len(answers)} answers of this call: the last anomaly that was "
            "paid for is found. Later rows have no answer.",
            stacklevel=4,
        )
        return np.array(answers, bool)

    def votes(self, rows: Any) -> Sensitive[Votes]:
        """How many parts call each row normal: private, never to be released.

        Args:
            rows: As for `query`.
        """
        return self._votes(self._read(rows))

    def response_probability(self, votes: Any) -> Float[np.ndarray, "..."]:
        """The probability of the answer "normal" by the number of votes for it: public."""
        return self.answers.response_probability(votes)

    def data_dependent_epsilon(self) -> Sensitive[float]:
        """Epsilon of what this object answered, on these very records (PATE's way): private.

        For "noisy_max" and the curator's eyes: the number depends on the records, so that it is not
        part of any guarantee. It is for queries that were not chosen from answers.
        """
        return data_dependent_epsilon(
            answering.joined(self._stream.asked), self.answers, delta=self.plan.budget.delta
        )

    @property
    def spent(self) -> int:
        """Queries that were spent; with sparse vector, searches that were begun."""
        return self.counter.spent()

    @property
    def queries_left(self) -> int | None:
        """Queries that can still be asked; None with sparse vector, which counts anomalies."""
        return None if self.answers.method == "sparse_vector" else self._left()

    @property
    def anomalies_left(self) -> int | None:
        """With sparse vector: anomalies that can still be found; None with other methods.

        Public, as it follows from answers. A search that a crash ended counts as spent.
        """
        if self.answers.method != "sparse_vector":
            return None
        search = self._stream.search
        return self._left() * self.answers.anomalies + (0 if search is None else search.left)

    def _left(self) -> int:
        return max(0, self.answers.limit - self.counter.spent())

    @property
    def ledger(self) -> Ledger:
        """What was spent so far; at most what the guarantee allows for."""
        return replace(self.plan.ledger, entries=self.answers.entries(self.counter.spent()))

    def with_journal(self, path: str | os.PathLike[str]) -> "FittedEnsemble":
        """The same ensemble with its journal in another place, to which the file was moved.

        Raises:
            ValueError: The ensemble has no journal.
            PrivacyError: The file is missing, or the journal of another ensemble.
        """
        moved = InFile(path, id=self._kept().id)
        moved.spent()
        return replace(self, counter=moved, _stream=_Stream())

    def beside(self, path: str | os.PathLike[str]) -> "FittedEnsemble":
        """The same ensemble, which counts in the journal that lies beside its own file.

        Whether it is there is found out when it is asked for something.

        Args:
            path: Of the file that the ensemble was read from.
        """
        counter = self._kept()
        if isinstance(counter, InFile):
            return self
        return replace(self, counter=counter.beside(path), _stream=_Stream())

    def _kept(self) -> InFile | Unplaced:
        """The journal; raises for an ensemble that lives in this process only."""
        if not isinstance(self.counter, InFile | Unplaced):
            raise ValueError(_NO_JOURNAL)
        return self.counter

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble to a file for this curator only; readable by nobody else.

        The file says of itself that it is not private: its ledger records the use of the records
        without privacy and its guarantee is infinite, whatever its answers cost. The key that made
        the parts is not in it, nor what was spent: that is in the journal, whose name is.

        Args:
            path: Where to, in the folder of the journal. A name that ends in `.veil` is refused:
                those are files to release.
        """
        if Path(path).suffix.lower() == _RELEASABLE:
            raise ValueError(
                "an ensemble is never released, and *.veil files are. Give another name, such as "
                f"{Path(path).stem}.private."
            )
        target, journal = Path(path), self._kept()
        if isinstance(journal, InFile) and not _same_folder(target, journal.path):
            raise ValueError(
                f"the journal {journal.path.name} lies in another folder, and the file of an ensemble "
                f"knows it by name only. Save it there, or move the journal here and take "
                "with_journal(path)."
            )
        if target.is_file():
            target.chmod(stat.S_IRUSR | stat.S_IWUSR)
        elif target.parent.is_dir() and not target.exists():
            # a file that is replaced passes its mode on: nobody else can read it at any moment
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The ensemble as plain data, labeled as not private."""
        journal = self._kept()
        name = journal.name if isinstance(journal, Unplaced) else journal.path.name
        ledger = Ledger().assuming(Conditional(INTERNAL))
        ledger = ledger.spend(NonPrivate(), purpose="models of parts, without privacy")
        whole = super().to_artifact()
        return replace(
            whole,
            manifest={
                **whole.manifest,
                "internal": INTERNAL,
                "answers": self.guarantee.to_json(),
                # the folder is not written: paths tell about people and machines
                "journal": {"file": name, "id": journal.id},
            },
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.plan.budget.delta),
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact, **state: Any) -> Self:
        """The ensemble that `to_artifact` described; it answers when it knows where its journal is."""
        manifest = dict(artifact.manifest)
        if manifest.pop("internal") != INTERNAL:
            raise ValueError("the file does not say that it is internal.")
        guarantee, journal = Guarantee.from_json(manifest.pop("answers")), manifest.pop("journal")
        ledger = codec.restored(FitPlan, manifest["plan"]).ledger
        whole = replace(artifact, manifest=manifest, ledger=ledger, guarantee=guarantee)
        artifacts.check(whole)
        counter = Unplaced(journal["file"], id=str(journal["id"]))
        return super().from_artifact(whole, counter=counter, **state)

    @classmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> PartDensities:
        if not isinstance(plan, EnsemblePlan):
            raise ValueError("the plan is not one of an ensemble.")
        if public["columns"] is not None and len(public["columns"]) != plan.dim:
            raise ValueError("columns must name every number of a row.")
        # before anything is built: a file cannot ask for more work than it has numbers
        if plan.num_numbers > num_numbers:
            raise ValueError("there are not as many numbers as the settings ask for.")
        return plan.untrained()

    def _read(self, rows: Any) -> Float[np.ndarray, "rows dim"]:
        values = read_rows(rows, columns=self.columns).values
        if values.shape[1] != self.plan.dim:
            raise ValueError(f"rows must have {self.plan.dim} columns, got {values.shape[1]}.")
        return values

    def _votes(self, values: Float[np.ndarray, "rows dim"]) -> Sensitive[Votes]:
        dim = values.shape[1]
        found = self.densities.log_prob(self.domain.encode(self.domain.clamp(values)))
        above = found - self.domain.log_scale(dim) > self.threshold
        return Sensitive(above.sum(axis=0), description="votes of parts")

    def __repr__(self) -> str:
        names = self.plan.dim if self.columns is None else ", ".join(self.columns)
        return (
            f"FittedEnsemble(columns: {names}; {self.answers.parts} parts, {self.answers.method}; "
            f"answers: {self.guarantee})"
        )


def _same_folder(one: Path, two: Path) -> bool:
    return os.path.realpath(one.absolute().parent) == os.path.realpath(two.absolute().parent)


_NO_JOURNAL = (
    "the ensemble has no journal, so a copy of it would not know what was spent. Fit it with "
    "journal='...' to keep it."
)
