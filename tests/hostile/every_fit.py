"""Kill -9 at random moments of the fits of every estimator, and what must hold afterwards.

A killed fit goes on from its checkpoint. Its log tells which releases were run and which values were
kept: a value that was kept is never asked for again, and nothing is asked that is not written down as
paid before. Where the seed decides all noise, the model is the one of a fit that was left alone.
"""

import itertools
import random
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import veilflow as vf
from tests.contracts.registry import ESTIMATORS
from tests.hostile import victims
from tests.hostile.kills import Deaths, _born, _killed, _started
from veilflow.engine.checkpoint import Checkpoint
from veilflow.releases.release import Release
from veilflow.releases.run import Run

RAN, KEPT = "ran", "kept"
_JUDGE = "judge.veil"


def fit(name: str, folder: Path) -> None:
    """Fit one estimator over and over, each time in a folder of its own; go on with what is there."""
    warnings.simplefilter("ignore")
    victims._keep_programs(folder)
    one = ESTIMATORS[name]
    if name == "LikelihoodDetector":  # it fits the model that it judges by: that is not logged
        model = one.make().model
        if not (folder / _JUDGE).exists():  # every process must judge by the same one
            model.save(folder / _JUDGE)
    log = _logged_releases()
    for number in itertools.count():
        own = folder / f"{number:04d}"
        own.mkdir(exist_ok=True)
        if not _ended(name, own):
            files = {"checkpoint": own / "run", "save_as": own / str(one.saved)}
            with (own / "log").open("a", buffering=1) as log.file:
                try:
                    one.fitted(one.make(**_settings(name, own)), *one.data, **files)
                except BaseException as error:
                    (own / victims.FAILED).write_text(f"{type(error).__name__}: {error}")
                    raise
        (folder / victims.READY).touch()


def _settings(name: str, own: Path) -> dict[str, Any]:
    """Settings with which a seed decides as much as it can."""
    one = ESTIMATORS[name]
    count = {"num_records": 12} if one.counts else {}
    settings = {**one.seeded, **count}
    if name == "EnsembleDetector":  # it is saved beside its journal
        settings["answers"] = vf.Answering(max_queries=4, journal=own / "journal")
    if name == "LikelihoodDetector":
        settings["model"] = vf.load(own.parent / _JUDGE)
    return settings


class _Log:
    file: Any


def _logged_releases() -> _Log:
    """Let this process write down each release that it runs and each value that it keeps."""
    log, note = _Log(), Run._note

    def noting(self: Any, *, paid: str | None = None) -> None:
        note(self, paid=paid)
        if paid is None:
            log.file.write("".join(f"{KEPT} {purpose}\n" for purpose in self._kept))

    Run._note = noting
    waiting: list[Any] = [Release]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if "run" in vars(kind):
            kind.run = _logged(kind.run, log)
    return log


def _logged(run: Any, log: _Log) -> Any:
    def running(release: Any, *args: Any, **known: Any) -> Any:
        log.file.write(f"{RAN} {release.purpose}\n")
        return run(release, *args, **known)

    return running


def _ended(name: str, own: Path) -> bool:
    return (own / str(ESTIMATORS[name].saved)).exists() and not (own / "run").exists()


def kill_every_fit(folder: Path, *, moments: int, seed: int = 0) -> Deaths:
    """Kill fits of all estimators in turn, about as many of each."""
    rng, deaths = random.Random(seed), Deaths()
    each = -(-moments // len(ESTIMATORS))
    for name in ESTIMATORS:
        own = folder / name
        own.mkdir()
        _kill_fits_of(name, own, min(each, moments - deaths.moments), rng, deaths)
    return deaths


def _kill_fits_of(
    name: str, folder: Path, moments: int, rng: random.Random, deaths: Deaths
) -> None:
    victim: Any = partial(fit, name)
    victim.__name__ = f"the fit of {name}"
    process = _started(victim, folder)
    _killed(process, 0)
    reference = _answers(name, folder / "0000")
    (folder / victims.READY).unlink()
    began = time.monotonic()
    _killed(_started_new(victim, folder), 0)
    warm = time.monotonic() - began
    _looked_at(name, folder, reference, deaths)
    for _ in range(moments):
        alive = _killed(_born(victim, folder), rng.uniform(0, 1.5 * warm))
        deaths.moments += alive
        if not alive:
            deaths.unreadable.append(f"{name}: a process that fits ended by itself")
        if not _looked_at(name, folder, reference, deaths):
            return
    # and what was killed last comes to its end
    last = sum(1 for _ in folder.glob("????"))
    while not all(_ended(name, folder / f"{number:04d}") for number in range(last)):
        _killed(_started_new(victim, folder), 0)
        if not _looked_at(name, folder, reference, deaths):
            return
    deaths.notes[name] = last


def _started_new(victim: Any, folder: Path) -> Any:
    """A process that has ended one more fit than there was."""
    before = sum((own / "log").exists() for own in folder.glob("????"))
    process = _born(victim, folder)
    while sum((own / "log").exists() for own in folder.glob("????")) <= before:
        if not process.is_alive():
            raise RuntimeError(f"{victim.__name__} ended by itself")
        time.sleep(0.005)
    return process


def _answers(name: str, own: Path) -> Any:
    one = ESTIMATORS[name]
    model = vf.load(own / str(one.saved))
    return model.plan, one.answers(model) if one.repeats else ()


def _looked_at(name: str, folder: Path, reference: Any, deaths: Deaths) -> bool:
    """Look at all fits that were not looked at before; whether they are as they must be."""
    for own in sorted(folder.glob("????")):
        if (own / "looked-at").exists():
            continue
        try:
            _look(name, own, reference, deaths)
        except (vf.ArtifactError, vf.PrivacyError) as error:
            deaths.unreadable.append(f"{name}: {error}")
        if (own / victims.FAILED).exists():
            deaths.unreadable.append(f"{name}: {(own / victims.FAILED).read_text()}")
        if _ended(name, own):
            (own / "looked-at").touch()
    return deaths.clean


def _look(name: str, own: Path, reference: Any, deaths: Deaths) -> None:
    log = (own / "log").read_text().splitlines() if (own / "log").exists() else []
    lines = [tuple(line.split(" ", 1)) for line in log if " " in line]
    kept: set[str] = set()
    for what, purpose in lines:
        if what == KEPT:
            kept.add(purpose)
        elif purpose in kept:
            deaths.double.append(f"{name}: {purpose} was asked again")
    saved = Checkpoint(own / "run").read()
    if saved is not None:
        unpaid = {purpose for what, purpose in lines if what == RAN} - set(saved.context["paid"])
        deaths.lost += [f"{name}: {purpose} was run and not written down" for purpose in unpaid]
        paid = len(saved.context["paid"]), len(saved.context["released"])
        deaths.note(f"{name}: killed with {paid[0]} paid and {paid[1]} released")
    if not _ended(name, own):
        return
    plan, answers = _answers(name, own)
    if plan.ledger != reference[0].ledger:
        deaths.lost.append(f"{name}: the model's ledger is not that of a fit left alone")
    same = [np.array_equal(a, b) for a, b in zip(answers, reference[1], strict=True)]
    if not all(same):
        deaths.double.append(f"{name}: other noise than that of a fit left alone")
