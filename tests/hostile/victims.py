"""What is killed: processes that save, query or fit until they die. Imported once, forked for each.

What they say they did goes into a log before and after they do it, so that whoever killed them knows
what must be in the files.
"""

import contextlib
import io
import itertools
import os
import time
from pathlib import Path

import jax
import numpy as np

# what a process would import at its start is imported before it is forked
import pandas  # noqa: F401
import pyarrow.csv  # noqa: F401
import safetensors.numpy  # noqa: F401
import scipy.stats  # noqa: F401

from veilflow.cli.main import app
from veilflow.engine import blocks, checkpoint
from veilflow.models import artifact, density, fitted_density, registry  # noqa: F401
from veilflow.models.detect import fitted_ensemble  # noqa: F401
from veilflow.privacy.events import Gaussian
from veilflow.privacy.ledger import Ledger

ASKED, ANSWERED, READY, FAILED = b"?", b"!", "ready", "failed"
FIT = ("--epsilon", "2", "--delta", "1e-5", "--low", "0", "--high", "1", "--num-records", "60")
FIT += ("--flow", "maf", "--blocks", "1", "--hidden", "3", "--base", "normal", "--start", "none")
FIT += ("--steps", "40", "--batch-size", "10", "--seed", "3", "--dataset", "people", "--force")


def artifacts(size: int = 400_000) -> tuple[artifact.Artifact, artifact.Artifact]:
    """Two files that cannot be mixed up, each large enough to be met half written."""
    ledger = Ledger().spend(Gaussian(2.0), purpose="a model")
    first, second = (
        artifact.Artifact(
            model=f"Nothing {number}",
            manifest={"number": number},
            ledger=ledger,
            guarantee=ledger.guarantee(delta=1e-6),
            schema={},
            arrays={"all": np.full(size, number, np.float32)},
        )
        for number in (1, 2)
    )
    return first, second


def _keep_programs(folder: Path) -> None:
    """What one process compiled the next one finds, so that not most deaths are of a compiler."""
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


def save(folder: Path) -> None:
    """Save one and the other in turn, over the same file."""
    both = artifacts()
    (folder / READY).touch()
    for one in itertools.cycle(both):
        artifact.save(one, folder / "m.veil")


def query(folder: Path) -> None:
    """Ask one question after the other."""
    _keep_programs(folder)
    ensemble = registry.load(folder / "ensemble.private")
    log = os.open(folder / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    while True:
        os.write(log, ASKED)
        ensemble.query([[0.5, 0.5]])
        os.write(log, ANSWERED)
        (folder / READY).touch()  # the first one compiles


def fit(folder: Path) -> None:
    """Fit by the command line, one model after the other, each in a folder of its own.

    What was not finished is finished first. There is a checkpoint after every block of steps.
    """
    _keep_programs(folder)
    blocks.BLOCK = 2
    start, save_state = checkpoint.Checkpoint.__init__, checkpoint.Checkpoint.save

    def often(self, path, *, seconds=0.0):
        start(self, path, seconds=0.0)

    def slowly(self, *args, **kwargs):
        save_state(self, *args, **kwargs)
        time.sleep(0.005)

    checkpoint.Checkpoint.__init__ = often
    checkpoint.Checkpoint.save = slowly
    for number in itertools.count():
        own = folder / f"{number:04d}"
        own.mkdir(exist_ok=True)
        if not ended(own):
            _fit_once(folder / "rows.csv", own)
            (folder / READY).touch()


def ended(own: Path) -> bool:
    """Whether a fit is over: its model is there, and nothing that it would go on from."""
    return (own / "m.veil").exists() and not (own / "run").exists()


def _fit_once(rows: Path, own: Path) -> None:
    arguments = ["fit", "density", str(rows), "--out", str(own / "m.veil")]
    arguments += ["--checkpoint", str(own / "run"), "--data-ledger", str(own / "spending")]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            app([*arguments, *FIT], standalone_mode=False)
    except BaseException as error:
        (own / FAILED).write_text(f"{type(error).__name__}: {error}\n{said.getvalue()}")
        raise
