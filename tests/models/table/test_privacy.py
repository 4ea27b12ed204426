"""One record reaches the model through ledgered mechanisms, and in no other way."""

import math

import equinox as eqx
import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.table import small
from veilflow.models import artifact as artifacts
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import discover_categories
from veilflow.releases import count, training
from veilflow.releases.marginals import fit as marginal_fit
from veilflow.releases.table import details, discovery, histograms

MECHANISMS = (
    (discovery, "discover_categories"),
    (discovery, "private_bounds"),
    (count, "count_records"),
    (histograms, "gaussian_once"),
    (details, "gaussian_once"),
    (marginal_fit, "gaussian_once"),
    (marginal_fit, "private_choice"),
    (training, "train"),
)
"""All that a fit asks of the records: what each of them answers is paid for."""

SCHEMA = vf.Schema(
    age=small.SCHEMA.columns["age"],
    gain=vf.Numeric(),
    city=vf.OpenCategorical(nullable=True),
    smoker=vf.Boolean(),
    label="smoker",
)


class Tape:
    """Answers of mechanisms, recorded in one fit and played in the next."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, object]] = []
        self.playing = False
        self.place = 0

    def wrap(self, name, mechanism):
        def run(*args, **kwargs):
            if self.playing:
                found, answer = self.answers[self.place]
                self.place += 1
                assert found == name
                return answer
            answer = mechanism(*args, **kwargs)
            self.answers.append((name, answer))
            return answer

        return run

    def play(self) -> None:
        assert not self.playing or self.place == len(self.answers)
        self.playing, self.place = True, 0


@pytest.fixture
def tape(monkeypatch):
    tape = Tape()
    for module, name in MECHANISMS:
        monkeypatch.setattr(module, name, tape.wrap(name, getattr(module, name)))
    return tape


def with_row(table: pd.DataFrame, **cells) -> pd.DataFrame:
    return pd.concat([table, table.iloc[[0]].assign(**cells)], ignore_index=True)


def same(one, two) -> bool:
    """Whether two artifacts are equal to the last bit."""
    arrays = one.arrays.keys() == two.arrays.keys() and all(
        np.array_equal(array, two.arrays[name]) and array.dtype == two.arrays[name].dtype
        for name, array in one.arrays.items()
    )
    return arrays and (one.manifest, one.ledger, one.guarantee, one.schema) == (
        two.manifest,
        two.ledger,
        two.guarantee,
        two.schema,
    )


NEIGHBORS = {
    "one more": lambda table: with_row(table),
    "one less": lambda table: table.iloc[1:],
    "an outlier": lambda table: with_row(table, age=1e300, gain=-math.inf),
    "a gap everywhere": lambda table: with_row(table, age=None, city=None),
    "a word of its own": lambda table: with_row(table, city="atlantis", gain=1e-12),
    "another order": lambda table: table.iloc[::-1],
}


def test_given_the_answers_of_the_mechanisms_the_rows_change_nothing(tape):
    estimator = small.estimator(schema=SCHEMA, num_records=None)
    table = small.frame(300)[list(SCHEMA.names)]
    expected = estimator.fit(table, progress=False).to_artifact()
    names = [name for name, _ in tape.answers]
    assert {name for _, name in MECHANISMS} == set(names)
    for name, change in NEIGHBORS.items():
        tape.play()
        found = estimator.fit(change(table), progress=False).to_artifact()
        assert same(found, expected), name
    # other answers do change it: what is compared is not empty
    tape.play()
    place = names.index("train")
    flow = tape.answers[place][1].value
    bias = flow.layers[-1].bias
    moved = eqx.tree_at(lambda f: f.layers[-1].bias, flow, bias + 0.1)
    tape.answers[place] = ("train", Released(moved, tape.answers[place][1].event))
    assert not same(estimator.fit(table, progress=False).to_artifact(), expected)


def test_a_value_of_one_record_is_discovered_with_probability_at_most_delta():
    delta, runs = 0.02, 3000
    words = np.array(["common"] * 40 + ["atlantis"], object)
    hits = sum(
        "atlantis"
        in [w for w, _ in discover_categories(Sensitive(words), epsilon=1.0, delta=delta).value]
        for _ in range(runs)
    )
    # five deviations above the mean: a fair mechanism fails once in some million runs
    assert hits <= runs * delta + 5 * math.sqrt(runs * delta)
    assert hits > 0  # the bound is tight enough to be worth testing


def test_what_one_record_alone_holds_shows_nowhere_and_what_many_hold_does(tmp_path):
    word, number = small.CANARY
    assert (small.frame().city == word).sum() == 1
    model = small.fitted()
    model.save(tmp_path / "m.veil")
    assert model.vocabularies["city"] == ("oslo", "paris", "rome")
    sampled = model.sample(4000)
    assert set(sampled.city.dropna()) == {"oslo", "paris", "rome", "(other)"}
    assert number not in set(sampled.gain)
    shares = sampled.city.value_counts(normalize=True)
    assert shares["paris"] > shares["rome"] > shares["oslo"]
    artifact = artifacts.read(tmp_path / "m.veil")
    text = str([artifact.manifest, artifact.schema, artifact.ledger, artifact.guarantee])
    held = [text.encode(), repr(model).encode(), (tmp_path / "m.veil").read_bytes()]
    held += [array.tobytes() for array in artifact.arrays.values()]
    assert not any(word.encode() in part for part in held)
    assert not any(np.float64(number).tobytes() in part for part in held)


def test_errors_name_columns_and_never_cells():
    bad = small.frame(20)
    bad.loc[3, "sex"] = "secret word"
    with pytest.raises(ValueError, match="column 'sex'") as caught:
        small.estimator().fit(bad, progress=False)
    assert "secret" not in str(caught.value)
