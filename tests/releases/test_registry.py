"""One contract for all releases: sensitivity, price, replay, and what a file may say of them."""

import dataclasses
import inspect
import json
import math
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from tests.releases.registry import REGISTRY, kinds, taped, without_noise
from tests.releases.tape import assert_standard, tape
from veilflow._core.codec import plain, restored
from veilflow._core.errors import BudgetError
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, NonPrivate, flat
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Entry, Ledger
from veilflow.releases.plan import SLACK, FitPlan
from veilflow.releases.release import Release

every = pytest.mark.parametrize("case", REGISTRY.values(), ids=REGISTRY)
with_noise_of_its_own = pytest.mark.parametrize(
    "case",
    [case for case in REGISTRY.values() if case.release.num_draws and case.moves is None],
    ids=lambda case: type(case.release).__name__,
)
openable = pytest.mark.parametrize(
    "case",
    [case for case in REGISTRY.values() if case.free is not None],
    ids=lambda case: type(case.release).__name__,
)


def test_every_release_is_registered():
    names = [kind.__name__ for kind in kinds()]
    assert sorted(names) == sorted(REGISTRY), "add what is missing to tests/releases/registry.py"
    assert len(set(names)) == len(names)  # a file names them


@every
def test_it_argues_its_guarantee_and_names_its_fields(case):
    kind = type(case.release)
    said = inspect.getdoc(kind) or ""
    assert kind.__doc__ is not Release.__doc__
    assert "Guarantee:" in said
    assert "Attributes:" in said
    inherited = " ".join(inspect.getdoc(base) or "" for base in kind.__mro__)
    for name in kind.__dataclass_fields__:
        assert name == "purpose" or f"{name}:" in inherited, name


# -- sensitivity -----------------------------------------------------------------------------------


@every
def test_no_neighbor_moves_it_further_than_promised(case):
    moves = list((case.moves or taped)(case))
    assert {name for name, _, _ in moves} == set(case.hostile)
    for name, move, bound in moves:
        assert move <= bound * (1 + 1e-9), name
    largest = max(move / bound for _, move, bound in moves)
    assert largest > (0.99 if case.tight else 0.5)  # and no noise is wasted


@every
def test_what_leaves_has_one_shape_whatever_the_records_are(case):
    shape = [(np.shape(x), np.asarray(x).dtype.kind) for x in leaves(case.run().value)]
    others = [case.first(case.records, number) for number in (0, 1)]
    for records in (*others, *map(case.neighbor, case.hostile)):
        values = leaves(case.run(records).value)
        if case.fixed:
            assert [(np.shape(x), np.asarray(x).dtype.kind) for x in values] == shape
        assert all(np.isfinite(x).all() for x in values if np.asarray(x).dtype.kind == "f")


@every
def test_records_stay_behind_the_door(case):
    """What leaves is made of numbers and texts, and no array of it has a record in it."""
    rows = case.records if isinstance(case.records, np.ndarray) else np.zeros(0)
    numbers = rows if rows.ndim == 2 and rows.dtype.kind == "f" else []
    for value in leaves(case.run().value):
        assert isinstance(value, np.ndarray | np.generic | int | float | str)
        assert not isinstance(value, Sensitive)
        if isinstance(value, np.ndarray):
            for record in numbers[:5]:
                assert record.tobytes() not in value.tobytes()


# -- price -----------------------------------------------------------------------------------------


@every
def test_it_costs_what_it_says(case):
    released = case.run()
    assert isinstance(released, Released)
    assert released.event == case.release.event
    assert flat(released.event).keys().isdisjoint({NonPrivate()})
    first, *rest = planned(case.release).ledger.entries
    assert first == Entry(case.release.purpose, case.release.event)
    assert [entry.purpose for entry in rest] == [SLACK] * bool(case.release.num_draws)


@every
def test_every_question_is_in_the_price(case, monkeypatch):
    """The event is that of the calls of its mechanism, no more and no fewer."""
    if case.moves is not None:
        pytest.skip("its mechanism has tests of its own: the engine, votes")
    seen = tape(monkeypatch)
    case.run()
    asked, priced = flat([call.event for call in seen.calls]), flat(case.release.event)
    if asked != priced:  # Gaussian mechanisms compose by the sum of their squared mu alone
        assert squared_mu(asked) <= squared_mu(priced)
        assert squared_mu(asked) == pytest.approx(squared_mu(priced), rel=1e-9)


def squared_mu(events: Counter[Event]) -> float:
    assert all(isinstance(event, Gaussian) for event in events)
    return math.fsum(times / event.noise_multiplier**2 for event, times in events.items())


@with_noise_of_its_own
def test_it_pays_for_every_number_that_gets_noise(case, monkeypatch):
    seen, release = tape(monkeypatch), case.release
    case.run()
    drawn = sum(np.size(query.total) for query in seen.queries)
    assert drawn == release.num_draws if case.exact else drawn <= release.num_draws
    # whether its noise can be drawn is checked beforehand, for grids as fine as they have to be
    largest = max(noise for noise, _ in release.grids)
    assert largest >= max(seen.noise_multipliers)
    assert largest == max(seen.noise_multipliers) or not case.exact
    for call in seen.gaussians:
        touched, noise = call.settings.get("touched"), call.settings["noise_multiplier"]
        changed = np.size(call.query.total) if touched is None else 4 * touched
        assert any(noise <= own and changed <= most for own, most in release.grids)


@with_noise_of_its_own
def test_the_noise_is_of_the_promised_size(case, monkeypatch):
    seen = tape(monkeypatch)
    case.run()
    assert_standard(seen.noise())


@every
def test_what_is_done_so_far_costs_no_more_than_all_of_it(case):
    release = case.release
    costs = [
        Ledger().spend(release.event_after(done), purpose="x").epsilon(delta=1e-6)
        for done in sorted({1, (release.rounds + 1) // 2, release.rounds})
    ]
    assert costs == sorted(costs)
    assert release.event_after(release.rounds) == release.event


@every
def test_the_rest_of_a_budget_is_taken_whole_or_not_at_all(case):
    budget, others = Budget(1.0, 1e-6), Ledger()
    if "priced" not in vars(type(case.release)):
        with pytest.raises(NotImplementedError, match="has a fixed price"):
            case.release.priced(budget, others)
        return
    priced = case.release.priced(budget, others)
    assert type(priced) is type(case.release)
    spent = others.spend(priced.event, purpose="x").epsilon(delta=budget.delta)
    assert 0.99 * budget.epsilon < spent <= budget.epsilon * (1 + 1e-9)
    with pytest.raises(BudgetError):
        case.release.priced(budget, others.spend(NonPrivate(), purpose="all of it"))


@openable
def test_without_noise_it_says_so(case):
    release = without_noise(case)
    assert set(flat(release.event)) == {NonPrivate()}
    assert case.run(release=release).event == release.event
    assert release.num_draws == 0
    ledger = Ledger().spend(release.event, purpose="x")
    assert ledger.epsilon(delta=1e-6) == math.inf


# -- replay ----------------------------------------------------------------------------------------


@every
def test_the_secret_decides_what_it_says_it_decides(case):
    first = case.run().value
    if case.replays:
        assert same(first, case.run().value)
        assert case.release.from_secret  # so that a chosen seed is on the guarantee
    else:  # answers are few, so that two may be the same by chance
        assert not all(same(first, case.run().value) for _ in range(50))


@every
def test_a_value_survives_its_checkpoint(case, tmp_path):
    value, secret = case.run().value, Secret.fresh()
    checkpoint = Checkpoint(tmp_path / "run")
    checkpoint.begin(secret, {}, records=Sensitive(case.records))
    checkpoint.note({"released": {case.release.purpose: value}}, secret)
    saved = Checkpoint(tmp_path / "run").read()
    assert saved is not None
    again = saved.context["released"][case.release.purpose]
    assert structure(again) == structure(value)
    for one, two in zip(leaves(value), leaves(again), strict=True):
        np.testing.assert_array_equal(one, two, strict=isinstance(one, np.ndarray))
    before, after = (leaves(case.release.result(x)) for x in (value, again))
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, two)


@every
def test_a_monitor_hears_of_its_rounds_and_of_nothing_else(case):
    heard: list[int] = []
    case.run(monitor=heard.append)
    assert all(type(done) is int for done in heard)
    assert heard == sorted(heard)
    if case.release.rounds > 1:
        assert heard[-1] == case.release.rounds
    if case.fixed:
        assert structure(case.run(monitor=heard.append).value) == structure(case.run().value)


# -- as settings -----------------------------------------------------------------------------------


@every
def test_it_comes_back_from_a_file(case):
    data = json.loads(json.dumps(plain(case.release), allow_nan=False))
    assert data["kind"] == type(case.release).__name__
    assert restored(Release, data) == case.release
    if case.free is not None:
        free = without_noise(case)
        assert restored(Release, json.loads(json.dumps(plain(free)))) == free
    with pytest.raises(dataclasses.FrozenInstanceError):
        case.release.purpose = "another"
    assert hash(case.release) == hash(restored(Release, data))


def whole_numbers(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a file has them."""
    for name, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list):
            yield from whole_numbers(value, (*path, name))
        elif type(value) is int:
            yield (*path, name)


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = data.copy()
    copy[path[0]] = changed(data[path[0]], path[1:], value)
    return copy


@every
def test_no_number_in_a_file_makes_it_take_all_memory(case):
    data = plain(case.release)
    for path in whole_numbers(data):
        for value in (0, -1, 10**6, 10**12, 10**30):
            tracemalloc.start()
            try:
                release = restored(Release, changed(data, path, value))
                _ = release.event, release.num_draws, release.grids, release.assumptions
                _ = planned(release).ledger
            except (ValueError, ArithmeticError, TypeError, BudgetError):
                pass  # as a file with it is refused
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert peak < 50e6, (path, value)


# -- helpers ---------------------------------------------------------------------------------------


def planned(release: Release) -> FitPlan:
    return FitPlan(model="Toy", budget=Budget(1e6, 1e-6), releases=(release,), declared=("x",))


def leaves(value: Any) -> list[Any]:
    plain_fields = dataclasses.is_dataclass(value) and not isinstance(value, eqx.Module)
    return jax.tree.leaves(dataclasses.asdict(value) if plain_fields else value)


def same(one: Any, two: Any) -> bool:
    return structure(one) == structure(two) and all(map(np.array_equal, leaves(one), leaves(two)))


def structure(value: Any) -> Any:
    return jax.tree.structure(value)
