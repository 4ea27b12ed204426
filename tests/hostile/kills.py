"""Kill -9 at random moments, and what must hold afterwards.

Processes are forked from one that has imported everything and computed nothing, so that a death costs
a fraction of a second.
"""

import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import veilflow as vf
from tests.hostile import victims
from veilflow.engine.checkpoint import Checkpoint
from veilflow.models import artifact, registry
from veilflow.privacy.dataset_ledger import DatasetLedger

_LONGEST = 120.0
_QUERIES = 100_000


@dataclass
class Deaths:
    """How many there were, and what was found at them."""

    moments: int = 0
    lost: list[str] = field(default_factory=list)
    """Spends that no file knows of."""
    double: list[str] = field(default_factory=list)
    """Spends that were counted more than once, or made more than once."""
    unreadable: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    """What the moments were, so that it shows that they were spread."""

    @property
    def clean(self) -> bool:
        """Whether nothing happened that must not."""
        return not (self.lost or self.double or self.unreadable)

    def note(self, what: str) -> None:
        self.notes[what] = self.notes.get(what, 0) + 1


def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.hostile.victims", "tests.contracts.registry"])
    return context


def _born(victim: Callable[[Path], None], folder: Path) -> Any:
    (folder / victims.READY).unlink(missing_ok=True)
    process = _context().Process(target=victim, args=(folder,), daemon=True)
    process.start()
    return process


def _started(victim: Callable[[Path], None], folder: Path) -> Any:
    """A process that has done what it does once."""
    process = _born(victim, folder)
    deadline = time.monotonic() + _LONGEST
    while not (folder / victims.READY).exists():
        if not process.is_alive() or time.monotonic() > deadline:
            process.kill()
            process.join()
            raise RuntimeError(f"{victim.__name__} did not begin")
        time.sleep(0.002)
    return process


def _killed(process: Any, seconds: float) -> bool:
    """Kill it after a while; whether it was still alive."""
    process.join(seconds)
    alive = process.is_alive()
    process.kill()
    process.join()
    return alive


def kill_saves(folder: Path, *, moments: int, seed: int = 0) -> Deaths:
    """Kill a process that replaces a file over and over."""
    rng, deaths = random.Random(seed), Deaths()
    expected = {one.model: one for one in victims.artifacts()}
    for _ in range(moments):
        alive = _killed(_started(victims.save, folder), rng.uniform(0, 0.1))
        deaths.moments += alive
        path = folder / "m.veil"
        if not path.exists():
            deaths.note("no file yet")
            continue
        try:
            found = artifact.read(path)
        except vf.ArtifactError as error:
            deaths.unreadable.append(str(error))
            continue
        whole = np.array_equal(found.arrays["all"], expected[found.model].arrays["all"])
        if not whole or found.manifest != expected[found.model].manifest:
            deaths.unreadable.append("a mixture of two files")
        half = list(folder.glob(".*.tmp.veil"))
        deaths.note("killed while writing" if half else "killed between two files")
        for one in half:
            one.unlink()
    return deaths


def make_ensemble(folder: Path) -> None:
    """An ensemble with a journal, for many queries."""
    rows = np.random.default_rng(0).uniform(size=(40, 2))
    estimator = vf.EnsembleDetector(
        budget=vf.Budget(50.0, 1e-6),
        bounds=(0, 1),
        parts=2,
        flow="mixture",
        num_components=1,
        answers=vf.Answering(max_queries=_QUERIES, journal=folder / "journal"),
        seed=0,
    )
    estimator.fit(rows, progress=False).save(folder / "ensemble.private")


def kill_queries(folder: Path, *, moments: int, seed: int = 0) -> Deaths:
    """Kill a process that asks an ensemble; the journal is shared by all of them, one after another."""
    rng, deaths = random.Random(seed), Deaths()
    make_ensemble(folder)
    for _ in range(moments):
        process = _started(victims.query, folder)
        deaths.moments += _killed(process, rng.uniform(0, 0.05))
        log = (folder / "log").read_bytes()
        asked, answered = (log.count(mark) for mark in (victims.ASKED, victims.ANSWERED))
        deaths.note("killed within a query" if asked > answered else "killed between queries")
        try:
            spent = registry.load(folder / "ensemble.private").spent
        except vf.PrivacyError as error:
            deaths.unreadable.append(str(error))
            continue
        if spent < answered:
            deaths.lost.append(f"{answered} answers, {spent} spent")
        if spent > asked:
            deaths.double.append(f"{asked} asked, {spent} spent")
        deaths.notes["queries asked"] = asked
    return deaths


def kill_fits(folder: Path, *, moments: int, seed: int = 0) -> Deaths:
    """Kill fits with a checkpoint and a data-set ledger; the next process goes on with them."""
    rng, deaths = random.Random(seed), Deaths()
    rows = np.random.default_rng(0).uniform(size=(60, 2))
    text = "\n".join(f"{a:.6f},{b:.6f}" for a, b in rows)
    for own in (folder, folder / "undisturbed"):
        own.mkdir(exist_ok=True)
        (own / "rows.csv").write_text(f"a,b\n{text}\n")
    began = time.monotonic()
    process = _started(victims.fit, folder / "undisturbed")
    cold = time.monotonic() - began
    reference = (folder / "undisturbed" / "0000" / "m.veil").read_bytes()
    _killed(process, 0)
    checked = _Checked(folder, reference, deaths)
    while deaths.moments < moments:
        checked.before_a_start()
        if rng.random() < 0.25:  # any time from its birth on
            alive = _killed(_born(victims.fit, folder), rng.uniform(0, cold))
        else:  # when programs are compiled, and a fit takes a moment
            alive = _killed(_started(victims.fit, folder), rng.uniform(0, 0.2 * cold))
        deaths.moments += alive
        checked.after_a_death()
        if not alive:
            deaths.unreadable.append("a process that fits ended by itself")
            break
    deaths.notes["fits"] = checked.ended
    return deaths


class _Checked:
    """The folders of fits, looked at after each death."""

    def __init__(self, folder: Path, reference: bytes, deaths: Deaths) -> None:
        self.folder, self.reference, self.deaths = folder, reference, deaths
        self.ended = 0
        """Fits that are over and were looked at for the last time."""
        self.resumed, self.before = False, 0

    def _at(self, number: int) -> Path:
        return self.folder / f"{number:04d}"

    def before_a_start(self) -> None:
        """Whether the next process has something to go on from, and what is counted already."""
        own = self._at(self.ended)
        self.resumed = (own / "run").exists()
        self.before = len(DatasetLedger(own / "spending").entries())

    def after_a_death(self) -> None:
        """Everything that must hold for the fits that the process has been at."""
        while (own := self._at(self.ended)).exists():
            if (own / victims.FAILED).exists():
                self.deaths.unreadable.append((own / victims.FAILED).read_text()[-500:])
                return
            if not self._look(own) or not victims.ended(own):
                return
            self.ended += 1
            self.resumed, self.before = False, 0

    def _look(self, own: Path) -> bool:
        deaths, over = self.deaths, victims.ended(own)
        try:
            entries = DatasetLedger(own / "spending").entries()
            saved = Checkpoint(own / "run").read()
            model = vf.load(own / "m.veil") if (own / "m.veil").exists() else None
        except (vf.ArtifactError, vf.PrivacyError) as error:
            deaths.unreadable.append(str(error))
            return False
        if not over:
            begun = "training" if saved and saved.step else "before the first step"
            deaths.note(f"fit killed: {begun if saved else 'before its checkpoint'}")
        elif not any(entry.state == "spent" for entry in entries):
            deaths.note("fit killed: after its model was saved")
        new = len(entries) - self.before
        if new > (0 if self.resumed else 1):
            deaths.double.append(f"counted {new} times more, going on: {self.resumed}")
        if not self.resumed and not new and (saved is not None or over):
            deaths.lost.append("a fit began that was not counted")
        if model is None:
            return True
        if (own / "m.veil").read_bytes() != self.reference:
            deaths.double.append("a fit that went on has other noise than one that was left alone")
        if not any(entry.ledger == model.ledger for entry in entries):
            deaths.lost.append("the model's spending is not in the data-set ledger")
        return True
