import json

import pytest

RUN = ("--sampling-rate", 0.1, "--noise-multiplier", 4.5, "--steps", 300, "--delta", 1e-5)


def test_account_prints_one_object_with_the_three_fields(in_json):
    assert in_json("account", *RUN) == {
        "epsilon": pytest.approx(1.5432, abs=2e-3),
        "delta": 1e-5,
        "accountant": "pld",
    }


def test_account_for_people_states_the_guarantee(veilflow):
    done = veilflow("account", *RUN)
    assert done.exit_code == 0
    assert done.stdout == "(1.543, 1e-05)-differential privacy, add-remove one row, by PLD\n"


def test_looser_accountants_answer_more(in_json):
    pld, rdp = (in_json("account", *RUN, "--accountant", name) for name in ("pld", "rdp"))
    assert pld["epsilon"] < rdp["epsilon"] < 2.1
    assert rdp["accountant"] == "rdp"


def test_an_approximation_is_labelled_wherever_it_is_printed(veilflow, in_json):
    flags = (*RUN, "--accountant", "gdp")
    assert "not a bound" in veilflow("account", *flags).stdout
    assert any("bound" in one["sentence"] for one in in_json("account", *flags)["assumptions"])


def test_a_ledger_in_a_model_file_is_added_up_at_its_own_delta(in_json, model):
    found = in_json("account", "--ledger", model)
    assert found["delta"] == 1e-5
    assert [one["sentence"] for one in found["assumptions"]] == ["a test"]
    assert found["epsilon"] == pytest.approx(in_json("inspect", model)["guarantee"]["epsilon"])


def test_a_ledger_in_a_json_file_is_added_up(in_json, tmp_path):
    from veilflow.privacy.events import Gaussian, PoissonSampled, Repeated
    from veilflow.privacy.ledger import Ledger

    ledger = Ledger().spend(Repeated(300, PoissonSampled(0.1, Gaussian(4.5))), purpose="training")
    (tmp_path / "ledger.json").write_text(json.dumps(ledger.to_json()))
    found = in_json("account", "--ledger", "ledger.json", "--delta", 1e-5)
    assert found == in_json("account", *RUN)


def test_an_unprotected_release_costs_infinity_in_valid_json(in_json, tmp_path):
    from veilflow.privacy.events import NonPrivate
    from veilflow.privacy.ledger import Ledger

    ledger = Ledger().spend(NonPrivate(), purpose="training")
    (tmp_path / "ledger.json").write_text(json.dumps(ledger.to_json()))
    assert in_json("account", "--ledger", "ledger.json", "--delta", 1e-5)["epsilon"] == "inf"


GIVEN = {
    "noise_multiplier": ("--sampling-rate", 0.1, "--steps", 300),
    "steps": ("--sampling-rate", 0.1, "--noise-multiplier", 4.5),
    "sampling_rate": ("--noise-multiplier", 4.5, "--steps", 300),
}


@pytest.mark.parametrize(("missing", "flags"), GIVEN.items(), ids=GIVEN.keys())
def test_calibrating_and_then_accounting_returns_the_target(missing, flags, in_json):
    found = in_json("calibrate", "--epsilon", 1, "--delta", 1e-5, *flags)
    assert found["target_epsilon"] == 1
    assert 0.97 < found["epsilon"] <= 1
    again = in_json(
        "account",
        *("--sampling-rate", found["sampling_rate"], "--steps", found["steps"]),
        *("--noise-multiplier", found["noise_multiplier"], "--delta", 1e-5),
    )
    assert again["epsilon"] == found["epsilon"]


def test_calibrate_for_people_starts_with_what_it_found(veilflow):
    done = veilflow("calibrate", "--epsilon", 1, "--delta", 1e-5, *GIVEN["steps"])
    assert done.stdout.startswith("steps = ")
    assert "differential privacy" in done.stdout


WRONG = {
    "nothing": (("account",), "give --sampling-rate"),
    "no delta": (("account", *RUN[:-2]), "give --delta"),
    "noise 0": (("account", *RUN, "--noise-multiplier", 0), "noise_multiplier must be positive"),
    "noise nan": (("account", *RUN, "--noise-multiplier", "nan"), "noise_multiplier"),
    "steps 0": (("account", *RUN, "--steps", 0), "times must be at least 1|steps"),
    "rate 1.5": (("account", *RUN, "--sampling-rate", 1.5), "sampling_rate must be"),
    "delta 1": (("account", *RUN, "--delta", 1), "delta must be"),
    "both": (("account", *RUN, "--ledger", "x"), "leave out the settings"),
    "epsilon 0": (
        ("calibrate", "--epsilon", 0, "--delta", 1e-5, "--sampling-rate", 0.1, "--steps", 3),
        "epsilon must be positive",
    ),
    "one of three": (
        ("calibrate", "--epsilon", 1, "--delta", 1e-5, "--steps", 3),
        "exactly two",
    ),
    "all three": (
        ("calibrate", "--epsilon", 1, *RUN),
        "exactly two",
    ),
}


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_wrong_settings_are_one_line_on_standard_error(words, message, as_json, veilflow):
    import re

    done = veilflow(*words, *as_json)
    assert done.exit_code == 2
    if as_json:  # the same for programs
        told = json.loads(done.stdout)
        assert told == {"error": done.stderr.removeprefix("error: ").rstrip(), "kind": "usage"}
    else:
        assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert re.search(message, done.stderr)


def test_an_unknown_accountant_is_a_usage_error(veilflow):
    done = veilflow("account", *RUN, "--accountant", "magic")
    assert done.exit_code == 2
    assert "magic" in done.stderr


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"a": NaN}', b"\xff\xfe", b"PK\x03\x04 and no more"]
)
def test_a_file_that_is_no_ledger_is_one_line_on_standard_error(content, veilflow, tmp_path):
    (tmp_path / "x.json").write_bytes(content)
    done = veilflow("account", "--ledger", "x.json", "--delta", 1e-5)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_missing_ledger_is_named(veilflow):
    done = veilflow("account", "--ledger", "no.json", "--delta", 1e-5)
    assert done.exit_code == 1
    assert done.stderr == "error: no.json: no such file or directory.\n"
