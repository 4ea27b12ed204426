"""Every release of the package, at its smallest, with records that try to move it too far."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import veilflow.releases
from tests.models.posterior import line
from tests.releases.expm import exact_problem
from tests.releases.tape import tape
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
from veilflow.releases.expm.draw import ExponentialDraw
from veilflow.releases.expm.zoom import ZoomSampler
from veilflow.releases.grid import Grid
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.part_mixtures import PartMixtures
from veilflow.releases.products import Products
from veilflow.releases.quantile import Quantile
from veilflow.releases.release import Derived, Release, Tools
from veilflow.releases.rounds.newton import NewtonRounds
from veilflow.releases.rounds.values import LikelihoodValues
from veilflow.releases.table.cells import cells_of
from veilflow.releases.table.details import ColumnDetails
from veilflow.releases.table.discovery import ColumnBounds, ColumnValues
from veilflow.releases.table.histograms import ColumnHistograms, level_sizes
from veilflow.releases.table.pairs import PairCounts
from veilflow.releases.table.questions import GapsOf, RelationOf
from veilflow.releases.training import PrivateTraining, Task
from veilflow.releases.whitening import Whitening
from veilflow.tabular.codec import encode
from veilflow.tabular.columns import Boolean, Datetime, Numeric, OpenCategorical
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.schema import Schema

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


def _add(records: Any, record: Any) -> Any:
    """One record more, for arrays and trees of arrays with the record as first axis."""
    return jax.tree.map(
        lambda array, one: np.concatenate([array, np.array([one], array.dtype)]), records, record
    )


def _first(records: Any, number: int) -> Any:
    return jax.tree.map(lambda array: array[:number], records)


@dataclass(frozen=True)
class Case:
    """What the tests have to know about a release.

    Attributes:
        release: A small one, with privacy.
        records: What it is run on.
        hostile: Records that are added, by name.
        add: From records and a hostile one to a neighbor.
        first: From records and a number to so many of them.
        known: From the release to the other arguments of `run`.
        free: Fields that take the privacy away; None where there is no such thing.
        moves: How far hostile neighbors move what is asked; None for what the tape says.
        replays: Whether the same secret gives the same value.
        tight: Whether some neighbor moves the answer as far as is promised.
        fixed: Whether the value has one shape, whatever the records are.
        exact: Whether all of `num_draws` are drawn, and not only at most so many.
    """

    release: Release
    records: Any = field(default_factory=lambda: np.float32(ROWS))
    hostile: dict[str, Any] = field(default_factory=lambda: HOSTILE)
    add: Callable[[Any, Any], Any] = _add
    first: Callable[[Any, int], Any] = _first
    known: Callable[[Any], dict[str, Any]] = lambda release: {}
    free: dict[str, Any] | None = None
    moves: Callable[["Case"], Moves] | None = None
    replays: bool = True
    tight: bool = True
    fixed: bool = True
    exact: bool = True

    def neighbor(self, name: str) -> Any:
        """The records with a hostile one more."""
        return self.add(self.records, self.hostile[name])

    def run(self, records: Any = None, *, release: Release | None = None, **tools: Any) -> Any:
        """What is released, under a secret that is always the same."""
        release = self.release if release is None else release
        rows = Sensitive(self.records if records is None else records)
        return release.run(rows, Tools(SECRET, **tools), **self.known(release))


def taped(case: Case) -> Moves:
    """By a tape in the place of the mechanisms."""
    with pytest.MonkeyPatch.context() as patch:
        seen = tape(patch)
        case.run()
        for name in case.hostile:
            seen.replayed = []
            case.run(case.neighbor(name))
            for move, call in zip(seen.moves(), seen.calls, strict=True):
                yield name, move, call.bound


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


def stepped(case: Case) -> Moves:
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


def voted(case: Case) -> Moves:
    """How many parts have another model, hence another vote, whatever the row."""
    before = case.run().value["parts"]
    for name in case.hostile:
        after = case.run(case.neighbor(name)).value["parts"]
        differ = [
            (one != two).reshape(len(one), -1).any(axis=1)
            for one, two in zip(before, after, strict=True)
        ]
        yield name, float(np.any(differ, axis=0).sum()), 1.0


# -- tables: words, numbers, encoded rows, codes ----------------------------------------------------

WORDS = np.array(["b"] * 30 + ["a"] * 10 + ["alone"] + [None] * 5, object)
"""Ten records are the threshold for epsilon 0.5 and delta 0.01, so that noise decides about one."""
NUMBERS = np.append(np.full(60, 1.5), np.full(38, 100.0))
"""Thirty-eight records are just enough for a magnitude to stand out at epsilon 0.5."""

SCHEMA = Schema(
    age=Numeric(17, 90, integer=True, nullable=True),
    gain=Numeric(-50, 1000),
    city=OpenCategorical(nullable=True),
    seen=Datetime("2020-01-01", "2021-12-31", resolution="day"),
    smoker=Boolean(),
)
COLUMNS = tuple(SCHEMA.columns.values())
CITIES = {"city": ("oslo", "rome")}
PERSON = {"age": 40, "gain": 0.0, "city": "rome", "seen": "2020-06-01", "smoker": True}


def encoded(*people: dict[str, Any]) -> EncodedRows:
    table = pd.DataFrame([{**PERSON, **person} for person in people])
    table["seen"] = pd.to_datetime(table["seen"]).astype("datetime64[us]")
    return encode(table, SCHEMA, vocabularies=CITIES)


def _levels(column: Any) -> tuple[int, ...]:
    return level_sizes(cells_of(column).num) if column.has_position else (2 + column.nullable,)


def _histograms(release: Release) -> dict[str, Any]:
    sizes = [column.num_codes(CITIES.get(name)) for name, column in SCHEMA.columns.items()]
    return {"columns": COLUMNS, "sizes": sizes}


PAIRS = (GapsOf(0, 2), RelationOf(0, 1, ("x", "x // 10", "x % 100"), (1.0, 5.0)), GapsOf(2, 0))
"""Each row answers each of them once, whatever it holds."""


def _pairs(release: Release) -> dict[str, Any]:
    return {**_histograms(release), "written": COLUMNS, "questions": PAIRS}


AMOUNTS = Schema(
    loan=Numeric(0, 1_000_000, integer=True, nullable=True),
    paid=Numeric(-500, 500, resolution=0.01),
    rate=Numeric(0, 10),
    seen=Datetime("2020-01-01", "2021-12-31", resolution="day"),
    smoker=Boolean(),
)
AMOUNT = {"loan": 10_000, "paid": 5.0, "rate": 1.0, "seen": "2020-06-01", "smoker": True}


def amounts(*loans: dict[str, Any]) -> EncodedRows:
    table = pd.DataFrame([{**AMOUNT, **loan} for loan in loans])
    table["seen"] = pd.to_datetime(table["seen"]).astype("datetime64[us]")
    return encode(table, AMOUNTS)


def _tails(release: Release) -> dict[str, Any]:
    """The upper and the lower half of each range as tails, in groups of cells."""
    columns = tuple(AMOUNTS.columns.values())
    borders = [
        np.linspace(0, cells_of(column).num, 9).astype(int) if column.has_position else None
        for column in columns
    ]
    return {
        "columns": columns,
        "groups": [None if b is None else np.stack([b[:-1], b[1:]]) for b in borders],
    }


CODES = np.random.default_rng(1).integers(0, [3, 4, 2], (NUMBER, 3)).astype(np.int32)

# -- parameters: losses and gradients without a bound ----------------------------------------------


HOSTILE_POINTS = {
    "nothing": (0.0, 0.0),
    "a huge gradient": (1.0, 1e30),
    "a huge curvature": (-1e18, 1e18),
    "both beyond single precision": (1e38, 1e38),
    "infinite": (np.inf, 0.0),
    "no number": (0.5, np.nan),
    "tiny": (1e-30, 1e-30),
}
"""Of a line: x and y."""


def labelled(x: float, label: int) -> tuple[np.ndarray, int]:
    return np.array([x], np.float32), label


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
        free={"epsilon": float("inf")},
        replays=False,
    ),
    Case(
        Grid(dim=DIM, bits=2, border=BORDER, epsilon=0.5),
        free={"epsilon": float("inf")},
        replays=False,
    ),
    Case(
        Quantile(probability=0.25, epsilon=0.5, num_candidates=16),
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
        ExpectationMaximization(
            purpose="mixture of a counted size",
            dim=DIM,
            num_components=5,
            steps=6,
            spread=1.0,
            noise_multiplier=30.0,
            records_per_component=NUMBER / 3,
        ),
        records=ROWS,
        known=lambda release: {"num_records": NUMBER},
        free={"noise_multiplier": 0.0},
        tight=False,
        exact=False,
    ),
    Case(
        Products(dim=DIM, noise_multiplier=20.0),
        records=ROWS,
        free={"noise_multiplier": 0.0},
    ),
    Case(
        TRAINING,
        hostile={name: HOSTILE[name] for name in ("a corner", "huge beside tiny", "missing")},
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
        moves=voted,
        records=ROWS,
        hostile=_finite(HOSTILE),
        known=lambda release: {"encode": lambda rows: rows},
        replays=False,  # but for a random name
    ),
    Case(
        ColumnValues(
            purpose="values of town", column="town", max_values=5, epsilon=0.5, delta=0.01
        ),
        records=WORDS,
        hostile={
            "a value that is there": "a",
            "one that nobody has": "atlantis",
            "nothing": None,
            "no number": np.nan,
            "a number": 7,
            "no text": "",
            "a long text": "x" * 10_000,
            "half a character": "\ud800",
        },
        free={"epsilon": float("inf"), "delta": 0.0},
        replays=False,
        fixed=False,  # how many values are released is what is released
    ),
    Case(
        ColumnBounds(purpose="bounds of wage", column="wage", step=None, epsilon=0.5),
        records=NUMBERS,
        hostile={
            "zero": 0.0,
            "there already": 1.5,
            "huge": 1e300,
            "tiny": -1e-300,
            "infinite": -np.inf,
            "no number": np.nan,
        },
        free={"epsilon": float("inf")},
        replays=False,
    ),
    Case(
        ColumnHistograms(
            num_columns=len(COLUMNS),
            most_numbers=sum(sum(_levels(column)) + column.nullable for column in COLUMNS),
            most_touched=sum(len(_levels(column)) for column in COLUMNS),
            noise_multiplier=20.0,
        ),
        records=encoded(*({"age": age, "gain": age / 7} for age in range(20, 60))),
        hostile={
            "an ordinary record": {},
            "gaps": {"age": None, "city": None},
            "huge": {"age": 1e300, "gain": -np.inf},
            "tiny": {"age": -(2.0**60), "gain": 1e-300},
            "on the bounds": {"age": 90, "gain": 1000.0, "seen": "2021-12-31"},
            "a value that nobody knows": {"city": "atlantis", "age": np.nan},
            "outside all bounds": {"age": -1, "gain": 1e9, "city": "", "seen": "1700-01-01"},
        },
        add=lambda rows, person: EncodedRows.concatenate([rows, encoded(person)]),
        first=lambda rows, number: rows.take(slice(number)),
        known=_histograms,
        free={"noise_multiplier": 0.0},
    ),
    Case(
        PairCounts(num_questions=len(PAIRS), noise_multiplier=20.0),
        records=encoded(*({"age": age, "gain": 10.0 * age} for age in range(20, 60))),
        hostile={
            "an ordinary record": {},
            "gaps": {"age": None, "city": None},
            "one gap": {"age": None},
            "huge": {"age": 1e300, "gain": -np.inf},
            "a relation": {"age": 40, "gain": 400.0},
            "several relations": {"age": 40, "gain": 40.0},
            "nearly one": {"age": 41, "gain": 44.0},
            "no number": {"age": np.nan},
            "outside all bounds": {"age": -1, "gain": 1e9, "city": "", "seen": "1700-01-01"},
        },
        add=lambda rows, person: EncodedRows.concatenate([rows, encoded(person)]),
        first=lambda rows, number: rows.take(slice(number)),
        known=_pairs,
        free={"noise_multiplier": 0.0},
        exact=False,
    ),
    Case(
        ColumnDetails(num_columns=4, num_units=2, most_levels=500, noise_multiplier=20.0),
        records=amounts(*({"loan": 1000 * i, "paid": i / 3} for i in range(NUMBER))),
        hostile={
            "an ordinary record": {},
            "gaps": {"loan": None},
            "huge": {"loan": 1e300, "paid": -np.inf, "rate": 1e300},
            "tiny": {"loan": 1, "paid": 0.01, "rate": 1e-300},
            "on the bounds": {"loan": 1_000_000, "paid": -500, "rate": 10, "seen": "2021-12-31"},
            "zeros": {"loan": 0, "paid": 0, "rate": 0},
            "no number": {"loan": np.nan, "rate": -np.inf},
        },
        add=lambda rows, loan: EncodedRows.concatenate([rows, amounts(loan)]),
        first=lambda rows, number: rows.take(slice(number)),
        known=_tails,
        free={"noise_multiplier": 0.0},
        exact=False,
    ),
    Case(
        Marginals(most_codes=(3, 4, 2), label=2, mu=1.0),
        records=CODES,
        hostile={
            "the lowest codes": [0, 0, 0],
            "the highest codes": [2, 3, 1],
            "one that is there": CODES[5],
            "another": [0, 3, 0],
        },
        known=lambda release: {
            "sizes": (3, 4, 2),
            "ordered": (False, True, False),
            "num_records": NUMBER,
        },
        free={"mu": float("inf")},
        replays=False,  # choices are drawn from the operating system
        fixed=False,  # which tables it has is chosen
        exact=False,
    ),
    Case(
        ExponentialDraw(
            target=exact_problem.target(0.5),
            sampler=ZoomSampler(num_candidates=16, rounds=3, growth=1.5, num_records=NUMBER),
            num_models=2,
        ),
        records=_first(exact_problem.RECORDS, NUMBER),
        hostile={
            "nothing": labelled(0.0, 0),
            "far away": labelled(1e30, 1),
            "far on the other side": labelled(-3e38, 1),
            "infinite": labelled(np.inf, 0),
            "no number": labelled(np.nan, 1),
            "of a class that is not there": labelled(0.5, 10**9),
        },
        replays=False,
    ),
    Case(
        NewtonRounds(start=(0.0, 0.0), scale=(1.0, 1.0), noise_multiplier=20.0, early=2, late=2),
        records=line.records(NUMBER),
        hostile=HOSTILE_POINTS,
        known=lambda release: {"log_likelihood": line.log_likelihood, "log_prior": line.log_prior},
        free={"noise_multiplier": 0.0},
    ),
    Case(
        LikelihoodValues(num_points=6, noise_multiplier=20.0),
        records=line.records(NUMBER),
        hostile=HOSTILE_POINTS,
        known=lambda release: {
            "log_likelihood": line.log_likelihood,
            "points": np.random.default_rng(2).standard_normal((6, 2)),
            "weights": np.linspace(1.0, 0.2, 6),
        },
        free={"noise_multiplier": 0.0},
    ),
)
REGISTRY = {type(case.release).__name__: case for case in CASES}


def kinds() -> list[type[Release]]:
    """Every release that the package has, but for `Derived`, which is handed no records."""
    for module in pkgutil.walk_packages(veilflow.releases.__path__, "veilflow.releases."):
        importlib.import_module(module.name)
    waiting, asking = [Release], []
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        ours = kind.__module__.startswith("veilflow.") and kind is not Derived
        if ours and not inspect.isabstract(kind):
            asking.append(kind)
    return asking


def without_noise(case: Case) -> Release:
    """The release without privacy."""
    assert case.free is not None
    return dataclasses.replace(case.release, **case.free)
