"""Every release of the package, at its smallest, with records that try to move it too far."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import veilflow.releases
from tests.releases import tape
from veilflow import nn
from veilflow._core.keys import Secret
from veilflow.engine.loop import noise_of
from veilflow.engine.step import Step
from veilflow.engine.training import Training
from veilflow.flows import maf
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.actnorm import ActNorms
from veilflow.releases.answers import Answers
from veilflow.releases.columns import Columns
from veilflow.releases.count import Count
from veilflow.releases.grid import Grid
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.part_mixtures import PartMixtures
from veilflow.releases.products import Products
from veilflow.releases.quantile import Quantile
from veilflow.releases.release import Release, Tools
from veilflow.releases.training import PrivateTraining, Task
from veilflow.releases.whitening import Whitening

DIM, NUMBER = 3, 40
BORDER = 3**0.5
SECRET = Secret.from_seed(0)
ROWS = np.random.default_rng(0).uniform(-1, 1, (NUMBER, DIM))
HOSTILE = {
    "zeros": np.zeros(DIM),
    "one that is there": ROWS[3],
    "a corner": np.full(DIM, BORDER),
    "the other corner": np.full(DIM, -BORDER),
    "far in one direction": np.array([0.0, 0.0, 1e30]),
    "as far as it goes": np.full(DIM, -3.4e38),
    "huge beside tiny": np.array([1e38, 1e-38, -1.0]),
    "missing": np.array([0.5, np.nan, -0.5]),
    "infinite": np.array([np.inf, 0.5, -np.inf]),
}
"""One record more, each a row by itself."""

Moves = Iterator[tuple[str, float, float]]
"""For each neighbor and question: a name, how far the answer moved, and how far it may."""


@dataclass(frozen=True)
class Case:
    """What the tests have to know of a release.

    Attributes:
        release: A small one, with privacy.
        mechanism: What draws its noise, one call for each question; None where it is none of
            `tests.releases.tape`, and `moves` measures by itself.
        records: What it is run on.
        hostile: Records that are added, by name.
        known: From the release to the other arguments of `run`.
        free: Fields that take the privacy away; None where there is no such thing.
        moves: How far hostile neighbors move what is asked.
        replays: Whether the same secret gives the same value.
        tight: Whether some neighbor moves the answer as far as is promised.
    """

    release: Release
    mechanism: tape.Mechanism | None = tape.GAUSSIAN
    records: Any = field(default_factory=lambda: np.float32(ROWS))
    hostile: dict[str, Any] = field(default_factory=lambda: HOSTILE)
    known: Callable[[Any], dict[str, Any]] = lambda release: {}
    free: dict[str, Any] | None = None
    moves: Callable[["Case", pytest.MonkeyPatch], Moves] | None = None
    replays: bool = True
    tight: bool = True

    @property
    def module(self) -> Any:
        """Where the release lives."""
        return importlib.import_module(type(self.release).__module__)

    def neighbor(self, name: str) -> Any:
        """The records with a hostile one more."""
        more = np.asarray(self.hostile[name], self.records.dtype)
        return np.concatenate([self.records, more[None]])

    def run(self, records: Any = None, *, release: Release | None = None, **tools: Any) -> Any:
        """What is released, under a secret that is always the same."""
        release = self.release if release is None else release
        rows = Sensitive(self.records if records is None else records)
        return release.run(rows, Tools(SECRET, **tools), **self.known(release))


def taped(case: Case, patch: pytest.MonkeyPatch) -> Moves:
    """By a tape in the place of the mechanism."""
    assert case.mechanism is not None
    seen = tape.tape(patch, case.module, case.mechanism)
    case.run()
    for name in case.hostile:
        seen.replayed = []
        case.run(case.neighbor(name))
        for move, bound in zip(seen.moves(), seen.bounds, strict=True):
            yield name, move, bound


# -- training: the clipped sum of a step -----------------------------------------------------------

TRAINING = PrivateTraining(
    settings=Training(
        steps=3,
        sampling_rate=0.5,
        clip_norm=0.5,
        optimizer="adam",
        learning_rate=0.1,
        ema_decay=None,
    ),
    noise_multiplier=20.0,
    num_parameters=DIM + 1,
)


def network() -> nn.Dense:
    return nn.Dense.create(DIM, 1, key=jax.random.key(0))


def steep(model: nn.Dense, row: jax.Array, key: Any) -> jax.Array:
    """A loss whose gradient is far longer than the clip."""
    return 1e3 * model(row)[0]


def task(release: PrivateTraining) -> dict[str, Any]:
    return {"task": Task(release.plan(NUMBER), network(), steep)}


def stepped(case: Case, patch: pytest.MonkeyPatch) -> Moves:
    """The sum of clipped gradients of all records, as a step of the engine computes it."""
    plan = TRAINING.plan(NUMBER)
    trainable, fixed = eqx.partition(network(), eqx.is_inexact_array)
    step = Step(plan, steep, None, fixed, 4, noise_of(plan, network()))
    state, words = step.init(trainable), jnp.zeros(2, jnp.uint32)

    def total(rows: np.ndarray) -> np.ndarray:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        drawn = np.ones(len(rows), bool)
        found = step.clipped_sum(trainable, state.clipping, jnp.asarray(rows), drawn, key).total
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(found)]).astype(np.float64)

    for name in case.hostile:
        # alone: a sum over all rows in float32 would measure its own rounding
        yield (
            name,
            float(np.linalg.norm(total(case.neighbor(name)[-1:]))),
            plan.clipping.sensitivity,
        )


# -- answers: the models of the parts --------------------------------------------------------------


def voted(case: Case, patch: pytest.MonkeyPatch) -> Moves:
    """How many parts have another model, hence another vote, whatever the row."""
    before = case.run().value["parts"]
    for name in case.hostile:
        after = case.run(case.neighbor(name)).value["parts"]
        differ = [
            (one != two).reshape(len(one), -1).any(axis=1)
            for one, two in zip(before, after, strict=True)
        ]
        yield name, float(np.any(differ, axis=0).sum()), 1.0


# -- all of them -----------------------------------------------------------------------------------


def _flow(release: Release) -> dict[str, Any]:
    flow = maf(DIM, key=jax.random.key(0), blocks=2, hidden=(4,), actnorm=True)
    return {"flow": flow, "num_records": NUMBER}


def _finite(hostile: dict[str, Any]) -> dict[str, Any]:
    """Those that a model's own reading lets through: clamped, and none that is no number."""
    return {
        name: np.clip(row, -BORDER, BORDER)
        for name, row in hostile.items()
        if np.isfinite(row).all()
    }


CASES = (
    Case(
        Count(epsilon=0.5),
        mechanism=tape.COUNT,
        free={"epsilon": float("inf")},
        replays=False,
    ),
    Case(
        Grid(dim=DIM, bits=2, border=BORDER, epsilon=0.5),
        mechanism=tape.HISTOGRAM,
        free={"epsilon": float("inf")},
        replays=False,
    ),
    Case(
        Quantile(probability=0.25, epsilon=0.5, num_candidates=16),
        mechanism=tape.QUANTILE,
        records=ROWS[:, 0],
        hostile={
            "least": -np.inf,
            "most": np.inf,
            "nothing": np.nan,
            "on the grid": -1.0,
            "there already": ROWS[0, 0],
        },
        known=lambda release: {"lower": -1.0, "upper": 1.0},
        replays=False,
    ),
    Case(
        Columns(dim=DIM, bits=3, border=BORDER, noise_multiplier=20.0),
        free={"noise_multiplier": 0.0},
    ),
    Case(
        Whitening(dim=DIM, radius=3.0, noise_multipliers=(30.0, 20.0, 10.0)),
        known=lambda release: {"num_records": NUMBER},
        free={"noise_multipliers": (0.0, 0.0, 0.0)},
    ),
    Case(
        ActNorms(dim=DIM, noise_multipliers=(30.0, 20.0)),
        known=_flow,
        free={"noise_multipliers": (0.0, 0.0)},
    ),
    Case(
        ExpectationMaximization(
            dim=DIM, num_components=2, steps=6, spread=1.0, noise_multiplier=30.0
        ),
        records=ROWS,
        free={"noise_multiplier": 0.0},
        tight=False,  # a row has all of its weight in the first step only, with one component
    ),
    Case(
        Products(dim=DIM, noise_multiplier=20.0),
        records=ROWS,
        free={"noise_multiplier": 0.0},
    ),
    Case(
        TRAINING,
        mechanism=None,
        moves=stepped,
        known=task,
        free={"noise_multiplier": 0.0},
    ),
    Case(
        Answers(
            method="exponential",
            parts=4,
            limit=2,
            epsilon=0.5,
            settings=PartMixtures(num_components=1, iterations=3),
        ),
        mechanism=None,
        moves=voted,
        records=ROWS,
        hostile=_finite(HOSTILE),
        known=lambda release: {"encode": lambda rows: rows},
        replays=False,  # but for a random name
    ),
)
REGISTRY = {type(case.release).__name__: case for case in CASES}


def kinds() -> list[type[Release]]:
    """Every release that the package has."""
    for module in pkgutil.walk_packages(veilflow.releases.__path__, "veilflow.releases."):
        importlib.import_module(module.name)
    waiting, found = [Release], []
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        if one is not Release and one.__module__.startswith("veilflow."):
            found.append(one)
    return found


def without_noise(case: Case) -> Release:
    """The release without privacy."""
    assert case.free is not None
    return dataclasses.replace(case.release, **case.free)
