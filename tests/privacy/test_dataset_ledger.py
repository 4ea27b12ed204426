"""Spending over several models on one data set: nothing is lost, nothing is overspent."""

import json
import os
import subprocess
import sys

import pytest
from tests import journals

from veilflow._core.errors import ArtifactError, PrivacyError
from veilflow.privacy.assumptions import Seeded
from veilflow.privacy.budget import Budget
from veilflow.privacy.dataset_ledger import ADAPTIVE, DatasetLedger
from veilflow.privacy.events import ApproximateDP, Gaussian, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.policy import Policy, PolicyError
from veilflow.privacy.unit import Adjacency, Unit

DELTA = 1e-6
ONE = Ledger().spend(Gaussian(10.0), purpose="a model").assuming(Seeded())
STEPS = Ledger().spend(Repeated(50, PoissonSampled(0.1, Gaussian(2.0))), purpose="training")


@pytest.fixture
def journal(tmp_path):
    return DatasetLedger(tmp_path / "data.ledger")


def reserve(journal, ledger=ONE, dataset="a", **settings):
    return journal.reserve(ledger, dataset=dataset, delta=DELTA, **settings)


def test_fits_are_composed_and_not_added(journal):
    journal.spent(reserve(journal), ONE)
    journal.spent(reserve(journal, STEPS), STEPS)
    reserve(journal, dataset="b")
    total = journal.total(dataset="a", delta=DELTA)
    together = Ledger().spend(ONE.entries[0].event, purpose="x")
    together = together.spend(STEPS.entries[0].event, purpose="y")
    assert total.epsilon == together.epsilon(delta=DELTA)
    assert total.epsilon < ONE.epsilon(delta=DELTA) + STEPS.epsilon(delta=DELTA)
    assert total.assumptions == (Seeded(), ADAPTIVE)
    assert journal.total(dataset="b", delta=DELTA).epsilon == ONE.epsilon(delta=DELTA)
    assert journal.total(dataset="c", delta=DELTA).epsilon == 0


def test_a_row_an_image_and_a_record_are_one_record_each_and_add_up(journal):
    for unit in (Unit.ROW, Unit.IMAGE, Unit.RECORD):
        reserve(journal, Ledger(unit=unit, entries=ONE.entries))
    assert journal.total(dataset="a", delta=DELTA).unit is Unit.RECORD
    reserve(journal, Ledger(unit=Unit.USER, entries=ONE.entries))
    with pytest.raises(PrivacyError, match="different adjacencies or units"):
        journal.total(dataset="a", delta=DELTA)


def test_a_fit_that_never_ended_counts_as_spent(journal):
    reserve(journal, STEPS)
    assert [one.state for one in journal.entries()] == ["reserved"]
    assert journal.total(dataset="a", delta=DELTA).epsilon == STEPS.epsilon(delta=DELTA)


def test_what_was_spent_takes_the_place_of_what_was_reserved(journal):
    worst = Ledger().spend(ApproximateDP(1.0, DELTA), purpose="all of a budget")
    name = reserve(journal, worst)
    journal.spent(name, ONE)
    assert [(one.id, one.state) for one in journal.entries()] == [(name, "spent")]
    assert journal.total(dataset="a", delta=DELTA).epsilon == ONE.epsilon(delta=DELTA)
    assert len(journals.bodies(journal.path.read_bytes())) == 1 + 2  # nothing is removed


def test_a_reservation_beyond_the_policy_is_refused_and_not_written(journal):
    two = Ledger(entries=ONE.entries * 2).epsilon(delta=DELTA)
    policy = Policy(max_epsilon=two, max_delta=DELTA)
    reserve(journal, policy=policy)
    reserve(journal, policy=policy)
    before = journal.path.read_bytes()
    with pytest.raises(PolicyError, match="all models of 'a' together would cost"):
        reserve(journal, policy=policy)
    assert journal.path.read_bytes() == before
    reserve(journal, policy=policy, dataset="b")


def test_a_total_is_stated_at_the_delta_of_the_policy(journal):
    loose = Policy(max_epsilon=ONE.epsilon(delta=1e-3), max_delta=1e-3)
    reserve(journal, policy=loose)
    strict = Policy(max_epsilon=loose.max_epsilon)
    with pytest.raises(PolicyError):
        reserve(DatasetLedger(journal.path.with_name("other")), policy=strict)


def test_a_fit_that_goes_on_from_its_checkpoint_is_not_counted_twice(journal):
    name = reserve(journal, STEPS)
    assert reserve(journal, STEPS, resume=name) == name
    assert reserve(journal, STEPS, dataset="b", resume=name) != name
    assert reserve(journal, ONE, resume=name) != name
    journal.spent(name, STEPS)
    assert reserve(journal, STEPS, resume=name) != name


def test_the_reservation_of_a_fit_that_died_is_not_taken_over(journal):
    dead = reserve(journal, STEPS)
    for other in (None, "", "0" * 16):
        assert reserve(journal, STEPS, resume=other) != dead
    assert len(journal.entries()) == 4


def test_reservations_that_are_not_there_cannot_be_spent(journal):
    reserve(journal)
    with pytest.raises(PrivacyError, match="no reservation"):
        journal.spent("0" * 16, ONE)


def test_ledgers_of_different_neighbors_do_not_add_up(journal):
    reserve(journal)
    reserve(journal, Ledger(adjacency=Adjacency.REPLACE_ONE, entries=ONE.entries))
    with pytest.raises(PrivacyError, match="do not compose"):
        journal.total(dataset="a", delta=DELTA)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201])
def test_a_data_set_needs_a_name_that_can_be_printed(journal, name):
    with pytest.raises(ValueError, match="name"):
        reserve(journal, dataset=name)


def test_a_fit_that_the_file_does_not_know_of_is_settled_by_a_person(journal):
    reserve(journal)
    older = journal.path.read_bytes()
    reserve(journal, STEPS)
    journal.path.write_bytes(older)  # all that is left
    journal.settle(Budget(0.5, 1e-8), dataset="a")
    assert [one.state for one in journal.entries()] == ["reserved", "settled"]
    expected = Ledger(entries=ONE.entries).spend(ApproximateDP(0.5, 1e-8), purpose="x")
    assert journal.total(dataset="a", delta=DELTA).epsilon == expected.epsilon(delta=DELTA)
    journal.settle(Budget(0.5, 0.0), dataset="a")
    assert len(journal.entries()) == 3
    with pytest.raises(PrivacyError, match="no reservation"):
        DatasetLedger(journal.path).spent("settled", ONE)


@pytest.mark.parametrize("size", [1, 100, 4096, -1, -4096])
def test_a_file_that_is_cut_short_stops_everything(journal, size):
    for _ in range(4):
        reserve(journal, STEPS)
    keep = size % journal.path.stat().st_size
    os.truncate(journal.path, keep)
    for attempt in (
        journal.entries,
        lambda: reserve(journal),
        lambda: journal.settle(Budget(0.5, 1e-8), dataset="a"),
    ):
        with pytest.raises(ArtifactError, match="Nothing was changed"):
            attempt()
    assert journal.path.stat().st_size == keep


def test_a_ledger_of_an_earlier_version_is_refused_and_says_what_to_do(journal):
    lines = (
        b'{"check": "0", "dataset": "a", "format": 1, "id": "0", "ledger": {}, "state": "spent"}\n'
    )
    journal.path.write_bytes(lines)
    for attempt in (journal.entries, lambda: reserve(journal)):
        with pytest.raises(ArtifactError, match="begin a new file and enter there what was spent"):
            attempt()
    assert journal.path.read_bytes() == lines


@pytest.mark.parametrize(
    "change",
    [
        {"state": "free"},
        {"id": 1},
        {"dataset": None},
        {"ledger": {}},
        {"ledger": {"adjacency": "none"}},
        {"ledger": []},
    ],
    ids=str,
)
def test_an_entry_that_is_no_spend_stops_everything(journal, change):
    reserve(journal)
    title, body = journals.bodies(journal.path.read_bytes())
    changed = json.dumps(json.loads(body) | change).encode()
    journal.path.write_bytes(journals.forged([title, body, changed]))
    for attempt in (journal.entries, lambda: reserve(journal)):
        with pytest.raises(ArtifactError, match=r"entry 2 .* nothing may be spent"):
            attempt()


def test_nobody_else_can_read_the_file(journal):
    reserve(journal)
    assert journal.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in journal.path.parent.iterdir()] == [journal.path.name]


RACE = """
import sys
from veilflow.privacy.dataset_ledger import DatasetLedger
from veilflow.privacy.events import Gaussian
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.policy import Policy, PolicyError
path, limit = sys.argv[1], float(sys.argv[2])
one = Ledger().spend(Gaussian(10.0), purpose="a model")
print("ready", flush=True)
sys.stdin.readline()
done = 0
for _ in range(40):
    try:
        DatasetLedger(path).reserve(
            one, dataset="a", delta=1e-6, policy=Policy(max_epsilon=limit, max_delta=1e-6)
        )
        done += 1
    except PolicyError:
        pass
print(done)
"""


def test_two_processes_on_one_file_cannot_overspend(journal):
    limit = Ledger().spend(Repeated(25, Gaussian(10.0)), purpose="x").epsilon(delta=DELTA)
    command = [sys.executable, "-c", RACE, str(journal.path), repr(limit)]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    answers = [process.communicate("\n", timeout=120)[0] for process in both]
    assert sum(map(int, answers)) == 25  # as many as the policy has room for, and no more
    assert len(journal.entries()) == 25
    assert journal.total(dataset="a", delta=DELTA).epsilon <= limit * (1 + 1e-9)


KILLED = """
import os, random, signal, sys, time
from veilflow.privacy.dataset_ledger import DatasetLedger
from veilflow.privacy.events import Gaussian
from veilflow.privacy.ledger import Ledger
journal = DatasetLedger(sys.argv[1])
one = Ledger().spend(Gaussian(10.0), purpose="a model")
random.seed(7)
begun = set()
for _ in range(40):
    out, into = os.pipe()
    child = os.fork()
    if not child:
        while True:
            name = journal.reserve(one, dataset="a", delta=1e-6)
            os.write(into, name.encode())  # the fit begins
            journal.spent(name, one)
    os.close(into)
    time.sleep(random.uniform(0.0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = b""
    while part := os.read(out, 1 << 16):
        said += part
    os.close(out)
    begun |= {said[i : i + 16].decode() for i in range(0, len(said) // 16 * 16, 16)}
    written = {spend.id for spend in journal.entries()}
    assert begun <= written, begun - written
print(len(begun), len(written))
"""


def test_a_process_that_is_killed_never_loses_a_spend(journal):
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(journal.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    begun, written = map(int, done.stdout.split())
    assert 0 < begun <= written <= begun + 40  # at most one a kill was reserved and not begun
