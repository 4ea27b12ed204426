"""A fitted ensemble: answers to queries, each written down before it is given. Itself private."""

import os
import stat
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow._core.errors import BudgetError
from veilflow.flows import GaussianMixture
from veilflow.models import artifact as artifacts
from veilflow.models.architecture import Architecture
from veilflow.models.detect.answers import Plan, Votes
from veilflow.models.detect.data_dependent import data_dependent_epsilon
from veilflow.models.detect.journal import Counter, Journal, Unplaced
from veilflow.models.detect.part_densities import PartDensities
from veilflow.models.detect.scoring import is_outside
from veilflow.models.domain import Domain
from veilflow.models.fitted import read_schema
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import Guarantee, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import SparseVector
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
        self.asked: list[int] = []

    def __reduce__(self):
        raise TypeError("the state of a stream of queries is secret and is not copied.")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FittedEnsemble:
    """Models of parts, for the curator's machine only; its answers may be released.

    Attributes:
        domain: The declared bounds.
        columns: Names of the columns, where the rows had any.
        threshold: The public log-density above which a part calls a row normal.
        plan: What each answer costs.
        guarantee: Of all answers the plan allows, however many are asked for: so it holds, too, for
            someone who stops when the answers please.
        settings: Public settings of the fit.
    """

    densities: PartDensities = field(repr=False)
    domain: Domain
    columns: tuple[str, ...] | None
    threshold: float
    plan: Plan
    assumptions: tuple[str, ...]
    guarantee: Guarantee
    counter: Counter = field(repr=False)
    settings: dict[str, Any]
    _stream: _Stream = field(default_factory=_Stream, repr=False)

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
        if self.plan.method == "sparse_vector":
            return self._searched(votes, outside)
        answers = np.ones(len(values), bool)
        paid = np.flatnonzero(~outside)
        if len(paid):
            with self._stream.lock:
                self.counter.spend(len(paid), limit=self.plan.limit)  # before anything is answered
                answers[paid] = self.plan.odd(votes.map(lambda c: c[paid]))
                self._stream.asked += votes.open()[paid].tolist()
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
                        self.counter.spend(1, limit=self.plan.limit)
                    except BudgetError as error:
                        return self._ended(answers, error)
                    stream.search = self.plan.search()
                against = votes.map(lambda c, i=i: float(self.plan.parts - c[i]))
                answers.append(stream.search.above(against))
                if stream.search.left == 0:
                    stream.search = None
        return np.array(answers, bool)

    def _ended(self, answers: list[bool], error: BudgetError) -> Bool[np.ndarray, " answered"]:
        if not answers:
            raise BudgetError(
                f"the stream is over: {self.plan.limit * self.plan.anomalies} anomalies were paid for, "
                "and all are found or were being looked for by a process that ended. Fit a new "
                "ensemble to go on: on the same records that is a second spend."
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
        return self.plan.response_probability(votes)

    def data_dependent_epsilon(self) -> Sensitive[float]:
        """Epsilon of what this object answered, on these very records (PATE's way): private.

        For "noisy_max" and the curator's eyes: the number depends on the records, so that it is not
        part of any guarantee. It is for queries that were not chosen from answers.
        """
        return data_dependent_epsilon(
            Sensitive(list(self._stream.asked), description="votes"),
            self.plan,
            delta=self.settings["delta"],
        )

    @property
    def spent(self) -> int:
        """Queries that were spent; with sparse vector, searches that were begun."""
        return self.counter.spent()

    @property
    def queries_left(self) -> int | None:
        """Queries that can still be asked; None with sparse vector, which counts anomalies."""
        return None if self.plan.method == "sparse_vector" else self._left()

    @property
    def anomalies_left(self) -> int | None:
        """With sparse vector: anomalies that can still be found; None with other methods.

        Public, as it follows from answers. A search that a crash ended counts as spent.
        """
        if self.plan.method != "sparse_vector":
            return None
        search = self._stream.search
        return self._left() * self.plan.anomalies + (0 if search is None else search.left)

    def _left(self) -> int:
        return max(0, self.plan.limit - self.counter.spent())

    @property
    def ledger(self) -> Ledger:
        """What was spent so far; at most what the guarantee allows for."""
        ledger = self.plan.ledger(min(self.counter.spent(), self.plan.limit))
        return replace(ledger, assumptions=self.assumptions)

    def with_journal(self, path: str | os.PathLike[str]) -> "FittedEnsemble":
        """The same ensemble with its journal in another place, to which the file was moved.

        Raises:
            ValueError: The ensemble has no journal.
            PrivacyError: The file is missing, or the journal of another ensemble.
        """
        moved = Journal(path, id=self._kept().id)
        moved.spent()
        return replace(self, counter=moved, _stream=_Stream())

    def beside(self, path: str | os.PathLike[str]) -> "FittedEnsemble":
        """The same ensemble, which counts in the journal that lies beside its own file.

        Whether it is there is found out when it is asked for something.

        Args:
            path: Of the file that the ensemble was read from.
        """
        counter = self._kept()
        if isinstance(counter, Journal):  # an older file, which knew a path
            if os.path.exists(counter.path):
                return self
            counter = Unplaced(counter.path.name, id=counter.id)
        return replace(self, counter=counter.beside(path), _stream=_Stream())

    def _kept(self) -> Journal | Unplaced:
        """The journal; raises for an ensemble that lives in this process only."""
        if not isinstance(self.counter, Journal | Unplaced):
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
        if isinstance(journal, Journal) and not _same_folder(target, journal.path):
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
        ledger = Ledger(assumptions=(INTERNAL,))
        ledger = ledger.spend(NonPrivate(), purpose="models of parts, without privacy")
        columns = None if self.columns is None else list(self.columns)
        leaves = jax.tree.leaves(eqx.filter(self.densities, eqx.is_array))
        return artifacts.Artifact(
            model="EnsembleDetector",
            manifest={
                **self.settings,
                "internal": INTERNAL,
                "plan": self.plan.to_json(),
                "threshold": self.threshold,
                "answers": self.guarantee.to_json(),
                "assumptions": list(self.assumptions),
                # the folder is not written: paths tell about people and machines
                "journal": {"file": name, "id": journal.id},
            },
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.settings["delta"]),
            schema={"columns": columns, "domain": self.domain.to_json()},
            arrays={f"part{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)},
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedEnsemble":
        """The ensemble that `to_artifact` described."""
        settings = dict(artifact.manifest)
        if settings.pop("internal") != INTERNAL:
            raise ValueError("the file does not say that it is internal.")
        plan = Plan.from_json(settings.pop("plan"))
        threshold, journal = settings.pop("threshold"), settings.pop("journal")
        guarantee = Guarantee.from_json(settings.pop("answers"))
        assumptions = tuple(str(sentence) for sentence in settings.pop("assumptions"))
        domain, columns = read_schema(artifact.schema, settings["dim"])
        skeleton = eqx.filter_eval_shape(lambda: _shape(settings, plan.parts))
        return cls(
            densities=_filled(skeleton, artifact.arrays),
            domain=domain,
            columns=columns,
            threshold=float(threshold),
            plan=plan,
            assumptions=assumptions,
            guarantee=guarantee,
            counter=_counter(journal),
            settings=settings,
        )

    def _read(self, rows: Any) -> Float[np.ndarray, "rows dim"]:
        values = read_rows(rows, columns=self.columns).values
        if values.shape[1] != self.settings["dim"]:
            raise ValueError(
                f"rows must have {self.settings['dim']} columns, got {values.shape[1]}."
            )
        return values

    def _votes(self, values: Float[np.ndarray, "rows dim"]) -> Sensitive[Votes]:
        dim = values.shape[1]
        found = self.densities.log_prob(self.domain.encode(self.domain.clamp(values)))
        above = found - self.domain.log_scale(dim) > self.threshold
        return Sensitive(above.sum(axis=0), description="votes of parts")

    def __repr__(self) -> str:
        names = self.settings["dim"] if self.columns is None else ", ".join(self.columns)
        return (
            f"FittedEnsemble(columns: {names}; {self.plan.parts} parts, {self.plan.method}; "
            f"answers: {self.guarantee})"
        )


def _counter(journal: dict[str, Any]) -> Journal | Unplaced:
    """What counts, as a file says it: by name, or, in older files, by a path."""
    older = "path" in journal
    path = Path(journal["path" if older else "file"])
    by_name = Unplaced(path.name, id=str(journal["id"]))  # refuses what is no name
    if older:
        return Journal(path, id=by_name.id)
    if path.name != journal["file"]:
        raise ValueError("a journal lies beside the file of its ensemble.")
    return by_name


def _same_folder(one: Path, two: Path) -> bool:
    return os.path.realpath(one.absolute().parent) == os.path.realpath(two.absolute().parent)


_NO_JOURNAL = (
    "the ensemble has no journal, so a copy of it would not know what was spent. Fit it with "
    "journal='...' to keep it."
)


def _shape(settings: dict[str, Any], parts: int) -> PartDensities:
    """An ensemble of these sizes, whatever its numbers."""
    dim = settings["dim"]
    check.one_of(("flow", "mixture"), density=settings["density"])
    if settings["density"] == "flow":
        architecture = Architecture.from_json(settings["architecture"])
        keys = jax.random.split(jax.random.key(0), parts)
        density = eqx.filter_vmap(lambda key: architecture.build(dim, key=key))(keys)
    else:
        k = settings["num_components"]
        square = jnp.zeros((parts, k, dim, dim))
        density = GaussianMixture(
            dim, jnp.zeros((parts, k)), jnp.zeros((parts, k, dim)), square, square
        )
    return PartDensities(density, jnp.zeros((parts, dim)), jnp.ones((parts, dim)))


def _filled(skeleton: PartDensities, arrays: dict[str, np.ndarray]) -> PartDensities:
    leaves, treedef = jax.tree.flatten(skeleton)
    if set(arrays) != {f"part{i}" for i in range(len(leaves))}:
        raise ValueError("there are not as many arrays as the settings ask for.")
    found: Sequence[np.ndarray] = [arrays[f"part{i}"] for i in range(len(leaves))]
    for have, want in zip(found, leaves, strict=True):
        if have.shape != want.shape or have.dtype != want.dtype:
            raise ValueError("arrays do not have the shapes the settings ask for.")
    return jax.tree.unflatten(treedef, [jnp.asarray(array) for array in found])
