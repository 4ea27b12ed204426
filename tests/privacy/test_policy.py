"""What a policy forbids, and that it does so before anything is read."""

import math
from dataclasses import dataclass

import pytest

from veilflow.privacy import policy as policies
from veilflow.privacy.assumptions import (
    Assumption,
    Conditional,
    FloatSums,
    Generator,
    Seeded,
    Unproved,
    conditions,
    declared,
)
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Gaussian, PureDP
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.policy import Policy, PolicyError

USUAL = (
    FloatSums(),
    Generator(),
    declared("bounds"),
)


@dataclass(frozen=True)
class SomethingNew(Assumption):
    """A kind that says nothing about being a condition."""

    @property
    def sentence(self):
        return "something new"


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return path

    return write


def test_a_policy_is_read_from_a_file(written):
    path = written(
        "max_epsilon = 4\nmin_delta_exponent = 6\naccountants = ['pld']\nconditional = false\n"
        "[datasets]\npatients = 1.0\n'two words' = 2"
    )
    found = Policy.from_file(path)
    assert (found.max_epsilon, found.max_delta, found.accountants) == (4.0, 1e-6, ("pld",))
    assert not found.conditional
    assert found.limit("patients") == 1.0
    assert found.limit("two words") == 2.0
    assert found.limit("others") == found.limit() == 4.0
    assert str(path) == found.source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_epsilom = 4", "'max_epsilom' is not a field"),
        ("max_epsilon = '4'", "max_epsilon must be a number"),
        ("max_epsilon = true", "max_epsilon must be a number"),
        ("max_epsilon = 0", "above 0"),
        ("max_epsilon = nan", "above 0"),
        ("min_delta_exponent = 0", "min_delta_exponent"),
        ("min_delta_exponent = 2.5", "min_delta_exponent"),
        ("min_delta_exponent = 400", "1 to 300"),
        ("accountants = []", "at least one"),
        ("accountants = ['pdl']", "pdl"),
        ("conditional = 'no'", "true or false"),
        ("datasets = 3", "table of names"),
        ("[datasets]\nhint = -1", "hint must be a number above 0"),
        ("= 3", "not valid TOML"),
        ("#" * 100_000, "not a policy"),
    ],
)
def test_what_is_no_policy_is_refused_for_it_would_forbid_nothing(written, text, message):
    with pytest.raises(ValueError, match=message):
        Policy.from_file(written(text))


def test_the_policy_in_force_is_the_given_one_then_the_variable_then_the_folder(
    written, tmp_path, monkeypatch
):
    monkeypatch.delenv(policies.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    assert Policy.find() is None
    written("max_epsilon = 1")
    assert Policy.find().max_epsilon == 1  # pyright: ignore[reportOptionalMemberAccess]
    (tmp_path / "b.toml").write_text("max_epsilon = 2")
    monkeypatch.setenv(policies.VARIABLE, str(tmp_path / "b.toml"))
    assert Policy.find().max_epsilon == 2  # pyright: ignore[reportOptionalMemberAccess]
    (tmp_path / "c.toml").write_text("max_epsilon = 3")
    assert Policy.find(tmp_path / "c.toml").max_epsilon == 3  # pyright: ignore
    monkeypatch.setenv(policies.VARIABLE, "not there.toml")
    with pytest.raises(FileNotFoundError):
        Policy.find()


@pytest.mark.parametrize("bits", ["32", "64"])
def test_noise_in_floating_point_is_a_condition(bits):
    """It excludes neighbors outright, so a model that has it does not pass for a plain one."""
    condition = Conditional(f"noise and sums in float{bits} count as exact")
    assert conditions((*USUAL, condition)) == (condition,)
    with pytest.raises(PolicyError, match="forbids conditional guarantees"):
        Policy(conditional=False).check_assumptions((condition,))


@pytest.mark.parametrize(
    ("policy", "budget", "message"),
    [
        (Policy(max_epsilon=1.0), Budget(1.01, 1e-6), "epsilon=1.01 is above 1"),
        (Policy(max_epsilon=1.0), Budget(math.inf, 1e-6), "epsilon=inf"),
        (Policy(max_delta=1e-6), Budget(1.0, 1e-5), "delta=1e-05 is above 1e-06"),
        (Policy(datasets={"a": 0.5}), Budget(1.0, 1e-6), "above 0.5"),
    ],
)
def test_a_budget_beyond_the_policy_is_refused(policy, budget, message):
    with pytest.raises(PolicyError, match=message):
        policy.check(budget, dataset="a")


def test_what_the_policy_allows_passes():
    policy = Policy(max_epsilon=1.0, max_delta=1e-6, accountants=("pld",), conditional=False)
    policy.check(Budget(1.0, 1e-6))
    policy.check(Budget(0.1, 0.0))
    policy.check_guarantee(Guarantee(epsilon=1.0, delta=1e-6, assumptions=USUAL))


def test_another_accountant_is_refused_before_and_after():
    policy = Policy(accountants=("pld",))
    with pytest.raises(PolicyError, match="'gdp'"):
        policy.check(Budget(1.0, 1e-6), accountant="gdp")
    spent = Ledger().spend(Gaussian(3.0), purpose="x")
    policy.check_guarantee(spent.guarantee(delta=1e-6))
    for name in ("gdp", "rdp"):
        with pytest.raises(PolicyError, match="allows the accountants pld"):
            policy.check_guarantee(spent.guarantee(delta=1e-6, accountant=name))


def test_conditional_guarantees_are_refused_and_what_is_unknown_counts_as_one():
    strict = Policy(conditional=False)
    with pytest.raises(PolicyError, match="forbids conditional"):
        strict.check(Budget(1.0, 0.0), conditional=True)
    spent = Ledger().spend(PureDP(1.0), purpose="x")
    spent = spent.assuming(*USUAL)
    assert conditions(spent.assumptions) == ()
    for condition in (
        Conditional("all was declared, not read from the records"),
        Unproved("all was declared"),
        Seeded(),
        SomethingNew(),
    ):
        doubtful = spent.assuming(condition)
        assert conditions(doubtful.assumptions) == (condition,)
        with pytest.raises(PolicyError, match="forbids conditional"):
            strict.check_guarantee(doubtful.guarantee(delta=0.0))
        Policy().check_guarantee(doubtful.guarantee(delta=0.0))


def test_an_approximation_counts_as_conditional():
    spent = Ledger().spend(Gaussian(3.0), purpose="x")
    with pytest.raises(PolicyError, match="conditional"):
        Policy(conditional=False).check_guarantee(spent.guarantee(delta=1e-6, accountant="gdp"))
