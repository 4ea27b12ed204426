"""`veilflow report`, policies and the ledger of a data set, as a person at the keyboard has them."""

import contextlib
import json
import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.test_models import refused
from veilflow.privacy.dataset_ledger import DatasetLedger

BOX = ("--low", -9, "--high", 9)
BUDGET = ("--epsilon", 1, "--delta", 1e-5)
FIT = ("fit", "density", "data.csv", *BOX, *BUDGET)
MIXTURE = ("fit", "mixture", "data.csv", *BOX, "--components", 2, "--steps", 3)


@pytest.fixture
def policy(tmp_path):
    def write(text, name="policy.toml"):
        (tmp_path / name).write_text(text)
        return name

    return write


def test_the_card_reads_no_data_and_prints_what_it_wrote(in_json, model, tmp_path):
    os.unlink("data.csv")
    found = in_json("report", model, "--out", "r")
    assert found["internal"] is False
    assert sorted(found["files"]) == ["r/card.html", "r/card.json", "r/card.md"]
    assert sorted(os.listdir("r")) == ["card.html", "card.json", "card.md"]
    assert found["guarantee"] == json.loads((tmp_path / "r/card.json").read_text())["guarantee"]


def test_a_card_is_replaced_only_if_asked_and_then_by_the_same_bytes(veilflow, model, tmp_path):
    assert veilflow("report", model, "--out", "r").exit_code == 0
    before = (tmp_path / "r/card.html").read_bytes()
    refused(veilflow("report", model, "--out", "r"), "pass --force to replace")
    assert veilflow("report", model, "--out", "r", "--force").exit_code == 0
    assert (tmp_path / "r/card.html").read_bytes() == before


def test_the_curators_report_is_another_file_and_is_never_published(veilflow, quick, data):
    assert veilflow(*MIXTURE, *BUDGET, "--out", "m.veil").exit_code == 0
    done = veilflow("report", "m.veil", "--data", data, "--out", "r")
    assert done.exit_code == 0, done.stderr
    assert "INTERNAL" in done.stdout
    assert os.listdir("r") == ["curator.html"]
    refused(
        veilflow("report", "m.veil", "--data", data, "--out", "p", "--publish"), "never published"
    )
    done = veilflow("report", "m.veil", "--out", "r", "--publish")
    assert done.exit_code == 1
    assert "must not hold it" in done.stderr
    assert os.listdir("r") == ["curator.html"]
    assert veilflow("report", "m.veil", "--out", "p", "--publish").exit_code == 0


def test_flags_of_the_curators_report_need_data(veilflow, model):
    refused(veilflow("report", model, "--out", "r", "--label", "y"), "give --data, too")


# policies


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_epsilon = 0.5", "epsilon=1 is above 0.5"),
        ("min_delta_exponent = 6", "delta=1e-05 is above 1e-06"),
        ("accountants = ['rdp']", "allows the accountants rdp"),
    ],
)
@pytest.mark.parametrize("where", ["flag", "variable", "folder"])
def test_a_fit_beyond_the_policy_is_refused_before_data_is_read(
    veilflow, quick, policy, monkeypatch, text, message, where
):
    name = policy(text, "policy.toml" if where == "folder" else "other.toml")
    flags = ("--policy", name) if where == "flag" else ()
    if where == "variable":
        monkeypatch.setenv("VEILFLOW_POLICY", name)
    # there is no data file at all: whoever tried to read it would fail in another way
    done = veilflow(*FIT, "--out", "m.veil", *flags)
    assert done.exit_code == 1
    assert message in done.stderr
    assert f"policy: {name}" in done.stderr
    assert quick == []
    assert not os.path.exists("m.veil")


@pytest.mark.parametrize(
    "command",
    [
        ("mixture", "d.csv", *BOX, "--delta", 1e-5),
        ("table", "d.csv", "--schema", "s.toml", "--delta", 1e-5),
        ("images", "d", "--spec", "s.toml", "--delta", 1e-5),
        ("classifier", "d.csv", "--classes", "0,1", "--prior-scale", 1, "--label", "y", *BOX),
    ],
    ids=lambda command: command[0],
)
def test_every_fit_knows_the_policy(veilflow, policy, command):
    policy("max_epsilon = 0.5")
    done = veilflow("fit", *command, "--epsilon", 1, "--out", "m.veil")
    assert done.exit_code == 1
    assert "above 0.5" in done.stderr


def test_conditional_samplers_and_seeds_are_refused_where_a_policy_forbids_them(veilflow, policy):
    policy("conditional = false")
    classifier = ("fit", "classifier", "d.csv", "--classes", "0,1", "--prior-scale", 1, *BOX)
    done = veilflow(
        *classifier, "--label", "y", "--epsilon", 1, "--sampler", "flow", "--out", "m.veil"
    )
    assert "forbids conditional" in done.stderr
    done = veilflow(*FIT, "--seed", 3, "--out", "m.veil")
    assert "forbids conditional" in done.stderr


def test_a_report_beyond_the_policy_is_refused(veilflow, model, policy):
    policy("max_epsilon = 0.01")
    done = veilflow("report", model, "--out", "r")
    assert done.exit_code == 1
    assert "the most that policy.toml allows" in done.stderr
    assert not os.path.exists("r")


def test_a_policy_that_says_nothing_is_an_error_and_not_a_blank_cheque(veilflow, policy):
    policy("max_epsilom = 1")
    refused(veilflow(*FIT, "--out", "m.veil"), "is not a field of a policy")


# the ledger of a data set


LEDGER = ("--data-ledger", "spent.ledger", "--dataset", "patients")


def test_fits_on_one_data_set_add_up_until_the_policy_stops_them(veilflow, in_json, data, policy):
    policy("max_epsilon = 1.3\nmin_delta_exponent = 5")
    in_json(*MIXTURE, *BUDGET, *LEDGER, "--out", "1.veil")
    done = veilflow(*MIXTURE, *BUDGET, *LEDGER, "--out", "2.veil")
    assert done.exit_code == 1
    assert "all models of 'patients' together would cost" in done.stderr
    assert not os.path.exists("2.veil")
    small = ("--epsilon", 0.3, "--delta", 1e-5)
    done = veilflow(*MIXTURE, *small, *LEDGER, "--out", "2.veil")
    assert done.exit_code == 0, done.stderr
    assert "all models of 'patients' together" in done.stderr
    (found,) = in_json("spending", "spent.ledger")["datasets"]
    assert found["fits"] == ["spent", "spent"]
    assert 1.0 < found["guarantee"]["epsilon"] < 1.3
    assert veilflow(*MIXTURE, *BUDGET, *LEDGER[:3], "others", "--out", "3.veil").exit_code == 0


def test_a_fit_that_fails_counts_as_spent(veilflow, data, tmp_path, monkeypatch):
    import veilflow as vf

    def fail(*_, **__):
        raise RuntimeError("power cut")

    monkeypatch.setattr(vf.MixtureDensity, "fit", fail)
    done = veilflow(*MIXTURE, *BUDGET, *LEDGER, "--out", "m.veil")
    assert done.exit_code == 1
    assert "power cut" not in done.stderr  # errors of others may quote a record
    assert "counts it as spent" in done.stderr
    (one,) = DatasetLedger(tmp_path / "spent.ledger").entries()
    assert one.state == "reserved"
    assert one.ledger.epsilon(delta=1e-5) == pytest.approx(1.0, rel=1e-3)


def test_a_file_that_is_not_there_costs_nothing(veilflow, tmp_path):
    done = veilflow(*MIXTURE, *BUDGET, *LEDGER, "--out", "m.veil")
    assert done.exit_code != 0
    assert not os.path.exists("spent.ledger")


def test_the_ledger_and_the_name_come_together(veilflow, data):
    refused(veilflow(*FIT, "--data-ledger", "spent.ledger", "--out", "m.veil"), "--dataset")


def test_a_damaged_ledger_stops_everything_and_a_lost_fit_is_settled_by_a_person(
    veilflow, in_json, data, tmp_path
):
    in_json(*MIXTURE, *BUDGET, *LEDGER, "--out", "1.veil")
    path = tmp_path / "spent.ledger"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    fit = veilflow(*MIXTURE, *BUDGET, *LEDGER, "--out", "2.veil")
    for done in (veilflow("spending", "spent.ledger"), fit):
        assert done.exit_code == 1
        assert "Restore the file from a copy" in done.stderr
    assert not (tmp_path / "2.veil").exists()
    path.write_bytes(whole)
    refused(veilflow("spending", "spent.ledger", "--settle"), "--epsilon")
    budget = ("--epsilon", 1, "--delta", 1e-6)
    done = veilflow("spending", "spent.ledger", "--settle", "--dataset", "patients", *budget)
    assert done.exit_code == 0, done.stderr
    assert "patients: 2 fits" in done.stdout
    done = veilflow("spending", "new", "--settle", "--dataset", "patients", *budget)
    assert "patients: 1 fit" in done.stdout


def test_a_checkpoint_goes_on_with_its_own_reservation_and_with_no_other(tmp_path, data):
    from veilflow.cli.fitting import FitFlags
    from veilflow.privacy.events import Gaussian
    from veilflow.privacy.ledger import Ledger

    checkpoint = tmp_path / "run"
    plan: Any = SimpleNamespace(ledger=Ledger().spend(Gaussian(9.0), purpose="fit"))
    plan.checked = lambda: plan
    journal = DatasetLedger(tmp_path / "j")

    def killed(data_ledger):
        name = None if data_ledger is None else "d"
        flags = FitFlags(
            epsilon=1.0,
            delta=1e-5,
            out=tmp_path / "m.veil",
            checkpoint=checkpoint,
            data_ledger=data_ledger,
            dataset=name,
        )
        with (
            contextlib.suppress(KeyboardInterrupt),
            flags.begin().reserved(plan, data=tmp_path / data),
        ):
            checkpoint.touch()
            raise KeyboardInterrupt

    killed(journal.path)
    killed(journal.path)
    assert len(journal.entries()) == 1
    checkpoint.unlink()
    killed(None)  # another fit, of which the ledger knows nothing
    killed(journal.path)
    assert len(journal.entries()) == 2
