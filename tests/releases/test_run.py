"""A run: what is planned is released, in its order, once, and written down before it is paid."""

import dataclasses
import json
import math
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow import nn
from veilflow._core.errors import BudgetError, NotPrivateWarning, PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint
from veilflow.engine.training import Training
from veilflow.privacy.assumptions import Seeded
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate, PureDP
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases import run as runs
from veilflow.releases.columns import Columns
from veilflow.releases.plan import FitPlan
from veilflow.releases.release import Query, Release, Tools
from veilflow.releases.run import Run
from veilflow.releases.training import PrivateTraining, Task, trained

BUDGET = Budget(1.0, 1e-6)
ROWS = np.random.default_rng(0).uniform(-1, 1, (50, 2))
RECORDS = Sensitive(ROWS)
RAN: list[str] = []


@dataclass(frozen=True, kw_only=True)
class Noted(Release):
    """Lets out a name and notes that it ran."""

    cost: float = 0.1
    true_cost: float | None = None
    fails: bool = False

    @property
    def event(self) -> Event:
        return PureDP(self.cost)

    def run(self, records: Sensitive[Any], tools: Tools, *, more: int = 0) -> Released[Any]:
        RAN.append(self.purpose)
        if self.fails:
            raise RuntimeError("in the middle of it")
        value = {"of": self.purpose, "array": np.arange(3.0), "more": more}
        return Released(value, PureDP(self.true_cost or self.cost))

    def result(self, value: Any) -> Any:
        return value["of"], value["array"].sum(), value["more"]


ONE, TWO = Noted(purpose="one"), Noted(purpose="two")
COLUMNS = Columns(dim=2, bits=2, border=1.0, noise_multiplier=30.0)


@pytest.fixture(autouse=True)
def fresh():
    RAN.clear()


def planned(*releases: Release, **changes: Any) -> FitPlan:
    settings = {"model": "Toy", "budget": BUDGET, "releases": releases, "declared": ("bounds",)}
    return FitPlan(**{**settings, **changes})


PLAN = planned(ONE, TWO)


BEGUN: list[Run] = []


def started(plan: FitPlan = PLAN, records: Any = RECORDS, **changes: Any) -> Run:
    """A run; those before it are over, as if their processes had died."""
    while BEGUN:
        BEGUN.pop().close()
    BEGUN.append(Run(plan, records, **{"seed": None, "progress": False, **changes}))
    return BEGUN[0]


# -- what may be released --------------------------------------------------------------------------


def test_releases_are_executed_in_their_order_with_what_they_know():
    run = started()
    assert run.pay(ONE, Query(RECORDS, {"more": 5})) == ("one", 3.0, 5)
    assert run.pay(TWO, Query(RECORDS)) == ("two", 3.0, 0)
    run.finish()
    assert RAN == ["one", "two"]


@pytest.mark.parametrize(
    "release",
    [TWO, Noted(purpose="three"), Noted(purpose="one", cost=0.2), Noted(purpose="one", fails=True)],
    ids=["too early", "not planned", "dearer", "other settings"],
)
def test_only_the_next_release_of_the_plan_is_paid(release):
    run = started()
    with pytest.raises(PrivacyError, match="is not the next release of the plan"):
        run.pay(release, Query(RECORDS))
    assert RAN == []


def test_nothing_is_released_twice_or_after_the_end():
    run = started()
    run.pay(ONE, Query(RECORDS))
    for release in (ONE, TWO, TWO, ONE):
        if release == TWO and len(RAN) == 1:
            run.pay(TWO, Query(RECORDS))
            continue
        with pytest.raises(PrivacyError, match="is not the next release of the plan"):
            run.pay(release, Query(RECORDS))
    assert RAN == ["one", "two"]


def test_a_plan_that_was_not_executed_is_not_finished(tmp_path):
    path = tmp_path / "run"
    run = started(checkpoint=path)
    run.pay(ONE, Query(RECORDS))
    with pytest.raises(PrivacyError, match="two was planned and not released"):
        run.finish()
    assert path.exists()
    run.pay(TWO, Query(RECORDS))
    run.finish()
    assert not path.exists()


@pytest.mark.parametrize("cost", [0.2, 0.05])
def test_what_did_not_cost_what_was_planned_is_not_released(cost, tmp_path):
    lying = Noted(purpose="one", true_cost=cost)
    run = started(planned(lying), checkpoint=tmp_path / "run")
    with pytest.raises(PrivacyError, match="one did not cost what was planned"):
        run.pay(lying, Query(RECORDS))
    saved = Checkpoint(tmp_path / "run").read()
    assert saved is not None
    assert saved.context["paid"] == ["one"]  # it ran, so it is paid
    assert saved.context["released"] == {}
    with pytest.raises(PrivacyError, match="planned and not released"):
        run.finish()


def test_more_than_the_budget_is_refused_before_a_record_is_opened_or_a_file_written(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(Sensitive, "open", lambda self: pytest.fail("a record was opened"))
    for plan, error in (
        (planned(Noted(purpose="one", cost=1.5)), BudgetError),
        (planned(dataclasses.replace(COLUMNS, noise_multiplier=1e9)), BudgetError),
        (planned(ONE, dataclasses.replace(TWO, purpose="one")), ValueError),
    ):
        with pytest.raises(error):
            started(plan, checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# -- checkpoints -----------------------------------------------------------------------------------


def test_two_runs_do_not_share_a_checkpoint(tmp_path):
    path = tmp_path / "run"
    first = started(checkpoint=path)
    first.pay(ONE, Query(RECORDS))
    before = path.read_bytes()
    with pytest.raises(PrivacyError, match="another run uses the checkpoint"):
        Run(PLAN, RECORDS, seed=None, checkpoint=path)
    assert path.read_bytes() == before
    first.close()
    with Run(PLAN, RECORDS, seed=None, checkpoint=path) as second:
        second.pay(ONE, Query(RECORDS))
        second.pay(TWO, Query(RECORDS))
        second.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_another_process_is_noticed_and_ends_with_its_process(tmp_path):
    path = tmp_path / "run"
    program = (
        "import sys; from veilflow.engine.checkpoint import Checkpoint\n"
        "file = Checkpoint(sys.argv[1]); file.hold(); print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(PrivacyError, match="another run uses the checkpoint"):
        started(checkpoint=path)
    other.kill()
    other.communicate()
    started(checkpoint=path).pay(ONE, Query(RECORDS))


def test_a_spend_is_written_down_before_the_release_runs(tmp_path):
    path, seen = tmp_path / "run", []

    @dataclass(frozen=True, kw_only=True)
    class Looking(Noted):
        def run(self, *args: Any, **known: Any) -> Released[Any]:
            saved = Checkpoint(path).read()
            assert saved is not None
            seen.append((saved.context["paid"], sorted(saved.context["released"])))
            return super().run(*args, **known)

    one, two = Looking(purpose="one"), Looking(purpose="two")
    run = started(planned(one, two), checkpoint=path)
    saved = Checkpoint(path).read()
    assert saved is not None
    assert saved.context == {"plan": run.plan.identity, "paid": [], "released": {}}
    run.pay(one, Query(RECORDS))
    run.pay(two, Query(RECORDS))
    assert seen == [(["one"], []), (["one", "two"], ["one"])]


def test_a_run_goes_on_with_its_secret_and_with_what_was_released(tmp_path):
    path, plan = tmp_path / "run", planned(ONE, COLUMNS, TWO)
    first = started(plan, checkpoint=path)
    first.pay(ONE, Query(RECORDS, {"more": 7}))
    histograms = first.pay(COLUMNS, Query(RECORDS))
    RAN.clear()
    again = started(plan, checkpoint=path)
    assert again.secret.reveal() == first.secret.reveal()
    # kept values are not asked again, also where the question would be another by now
    assert again.pay(ONE, Query(Sensitive(None), {"more": 9})) == ("one", 3.0, 7)
    np.testing.assert_array_equal(
        again.pay(COLUMNS, Query(Sensitive(None))).values, histograms.values
    )
    assert RAN == []
    again.pay(TWO, Query(RECORDS))
    assert RAN == ["two"]
    again.finish()


def test_a_release_that_was_interrupted_runs_again_with_the_same_noise(tmp_path, monkeypatch):
    path, plan, values = tmp_path / "run", planned(COLUMNS), []

    class Stop(Exception):
        pass

    asked = Columns.run

    def stopped(self: Any, *args: Any) -> Any:
        values.append(asked(self, *args).value)
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Columns, "run", stopped)
        with pytest.raises(Stop):
            started(plan, checkpoint=path).pay(COLUMNS, Query(RECORDS))
    again = started(plan, checkpoint=path)
    again.pay(COLUMNS, Query(RECORDS))
    np.testing.assert_array_equal(again._kept[COLUMNS.purpose], values[0])


def test_a_checkpoint_of_another_plan_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "run"
    started(checkpoint=path).pay(ONE, Query(RECORDS))
    before = path.read_bytes()
    for other in (
        planned(ONE),
        planned(TWO, ONE),
        planned(ONE, Noted(purpose="two", cost=0.2)),
        planned(ONE, TWO, num_records=50),
        planned(ONE, TWO, budget=Budget(1.0, 1e-7)),
        planned(ONE, TWO, model="Another"),
    ):
        with pytest.raises(PrivacyError, match="belongs to other settings"):
            started(other, checkpoint=path)
    assert path.read_bytes() == before


def test_a_checkpoint_of_other_records_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "run"
    started(checkpoint=path).pay(ONE, Query(RECORDS))
    before, moved = path.read_bytes(), ROWS.copy()
    moved[3, 1] += 1e-9
    for other in (moved, ROWS[:-1], np.vstack([ROWS, ROWS[:1]]), ROWS.astype(np.float32)):
        with pytest.raises(PrivacyError, match="another set of records"):
            started(records=Sensitive(other), checkpoint=path)
    assert path.read_bytes() == before


def test_who_chose_the_seed_stays_true_whoever_goes_on(tmp_path):
    plan = planned(COLUMNS, ONE)
    for first, second in ((5, None), (None, 5)):
        path = tmp_path / f"{first}"
        begun = started(dataclasses.replace(plan, seeded=first is not None), seed=first)
        assert begun.plan.seeded == (first is not None)
        begun = started(plan, seed=first, checkpoint=path)
        begun.pay(COLUMNS, Query(RECORDS))
        again = started(plan, seed=second, checkpoint=path)
        assert again.plan.seeded == (first is not None)
        assert (Seeded() in again.plan.assumptions) == (first is not None)
        assert again.secret.reveal() == begun.secret.reveal()


def test_without_a_checkpoint_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = started()
    run.pay(ONE, Query(RECORDS))
    run.pay(TWO, Query(RECORDS))
    run.finish()
    assert list(tmp_path.iterdir()) == []


# -- training --------------------------------------------------------------------------------------

TRAINING = PrivateTraining(
    settings=Training(
        steps=40,
        sampling_rate=0.5,
        clip_norm=1.0,
        learning_rate=0.1,
        optimizer="adam",
        ema_decay=None,
    ),
    noise_multiplier=40.0,
    num_parameters=3,
)


def model() -> nn.Dense:
    return nn.Dense.create(2, 1, key=jax.random.key(0))


def loss(one: nn.Dense, row: jax.Array, key: Any) -> jax.Array:
    return (one(row)[0] - row.sum()) ** 2


def task(**changes: Any) -> Query:
    release = dataclasses.replace(TRAINING, **changes)
    return Query(Sensitive(jnp.float32(ROWS)), {"task": Task(release.plan(50), model(), loss)})


def test_a_training_goes_on_from_the_last_step_that_was_written_down(tmp_path, monkeypatch):
    plan, path, steps = planned(ONE, TRAINING), tmp_path / "run", []
    whole = started(plan, seed=1)
    whole.pay(ONE, Query(RECORDS))
    expected = whole.pay(TRAINING, task())
    monkeypatch.setitem(Checkpoint.__init__.__kwdefaults__, "seconds", 0.0)
    save = Checkpoint.save

    def noted(self: Any, state: Any, step: int, **rest: Any) -> None:
        save(self, state, step, **rest)
        steps.append(step)
        if len(steps) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", noted)
    first = started(plan, seed=1, checkpoint=path)
    first.pay(ONE, Query(RECORDS))
    with pytest.raises(KeyboardInterrupt):
        first.pay(TRAINING, task())
    again = started(plan, seed=None, checkpoint=path)
    again.pay(ONE, Query(RECORDS))
    found = again.pay(TRAINING, task())
    assert steps[1] > steps[0]  # no step was made twice
    assert steps[-1] == 40
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, two)
    again.finish()


def test_a_training_that_is_not_the_priced_one_is_refused():
    run = started(planned(TRAINING))
    with pytest.raises(PrivacyError, match="not the one that was priced"):
        run.pay(TRAINING, task(noise_multiplier=1.0))


def test_released_arrays_belong_to_the_model_that_was_trained():
    arrays = started(planned(TRAINING), seed=1).pay(TRAINING, task())
    again = trained(model(), arrays)
    assert jax.tree.structure(again) == jax.tree.structure(model())
    with pytest.raises(ValueError, match="belong to another model"):
        trained(nn.Dense.create(3, 1, key=jax.random.key(0)), arrays)


# -- what is said ----------------------------------------------------------------------------------


def test_what_a_bar_shows_is_never_below_what_is_spent_nor_above_the_budget(monkeypatch):
    shown: list[tuple[Any, ...]] = []

    @contextmanager
    def bar(doing: str, total: int, *, note: Any, show: bool) -> Any:
        yield lambda done: None
        shown.append((doing, total, show, [note(done) for done in (0, 1, 20, total)]))

    monkeypatch.setattr(runs, "counting_bar", bar)
    plan = planned(ONE, TRAINING)
    run = started(plan, progress=True)
    run.pay(ONE, Query(RECORDS))
    run.pay(TRAINING, task())
    first, (doing, total, second, words) = shown
    assert (first[2], second) == (False, True)  # what is over at once needs no bar
    assert (doing, total) == ("training", 40)
    numbers = [float(word.removeprefix("epsilon ")) for word in words]
    assert numbers[0] >= 0.1  # of the release before
    assert numbers == sorted(numbers)
    assert plan.guarantee.epsilon <= numbers[-1] * 1.01
    assert numbers[-1] <= BUDGET.epsilon


def test_no_privacy_is_warned_of_and_shown(monkeypatch):
    notes = []

    @dataclass(frozen=True, kw_only=True)
    class Openly(Noted):
        rounds = 3

        @property
        def event(self) -> Event:
            return NonPrivate()

        def run(self, *args: Any, **known: Any) -> Released[Any]:
            return Released({"of": "x", "array": np.zeros(1), "more": 0}, NonPrivate())

    bar = runs.counting_bar

    def noted(*args: Any, note: Any, **rest: Any) -> Any:
        notes.append(note(2))
        return bar(*args, note=note, **rest)

    monkeypatch.setattr(runs, "counting_bar", noted)
    release = Openly(purpose="one")
    with pytest.warns(NotPrivateWarning, match="the result is not private"):
        run = started(planned(release, budget=Budget(math.inf, 1e-6)))
    run.pay(release, Query(RECORDS))
    assert notes == ["no privacy"]


def test_a_delta_that_is_too_large_for_the_declared_records_is_warned_of():
    with pytest.warns(UserWarning, match="delta=0.1 is not below 1/50"):
        started(planned(ONE, budget=Budget(1.0, 0.1), num_records=50))


def test_a_checkpoint_shows_no_record_and_no_secret_in_what_it_prints(tmp_path):
    run = started(checkpoint=tmp_path / "run")
    run.pay(ONE, Query(RECORDS))
    saved = Checkpoint(tmp_path / "run").read()
    assert saved is not None
    assert run.secret.reveal().hex() not in repr(saved) + json.dumps(saved.context["paid"])
    assert ROWS[0].tobytes() not in (tmp_path / "run").read_bytes()
    assert isinstance(run.secret, Secret)
