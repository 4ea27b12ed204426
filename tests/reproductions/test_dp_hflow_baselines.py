"""The baselines of the DP-HFlow reproduction: what DP-MERF releases, and how dpmm is run."""

import json
import math
import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reproductions.dp_hflow import (
    ablations,
    gradients,
    merf,
    merf_generator,
    peers,
    verdicts,
)
from reproductions.dp_hflow.merf_features import Features
from reproductions.records import Record

import veilflow as vf

SCHEMA = vf.Schema(
    age=vf.Numeric(0, 99, integer=True, nullable=True),
    wage=vf.Numeric(0.0, 1e6),
    town=vf.Categorical("a", "b", "c", nullable=True),
    rich=vf.Categorical("no", "yes"),
    label="rich",
)
CLOSED = vf.Schema(
    age=vf.Numeric(0, 99, integer=True),
    town=vf.Categorical("a", "b", "c", nullable=True),
    rich=vf.Boolean(),
    label="rich",
)
N = 2000


def rows(n: int = N) -> pd.DataFrame:
    """The town follows from being rich, and so does the age."""
    rng = np.random.default_rng(0)
    rich = rng.uniform(size=n) < 0.3
    town = np.where(rng.uniform(size=n) < 0.9, np.where(rich, "a", "b"), "c").astype(object)
    town[rng.uniform(size=n) < 0.1] = None
    age = pd.Series(np.clip(np.where(rich, 70, 30) + 5 * rng.normal(size=n), 0, 99).round())
    age[rng.uniform(size=n) < 0.2] = np.nan
    names = np.where(rich, "yes", "no")
    wage = rng.uniform(0, 1e6, n)
    return pd.DataFrame({"age": age.astype("Int64"), "wage": wage, "town": town, "rich": names})


def estimator(epsilon: float = 8.0, **settings) -> merf.Merf:
    settings = {"num_records": N, "frequencies": 50, "steps": 300, "seed": 1, **settings}
    return merf.Merf(schema=SCHEMA, budget=vf.Budget(epsilon, 1e-5), **settings)


# --- DP-MERF


def hostile() -> pd.DataFrame:
    """Rows with gaps, and at and beyond the ends of their ranges."""
    return pd.DataFrame(
        {
            "age": pd.Series([None, 0, 99, 10**9, -(10**9)], dtype="Int64"),
            "wage": [0.0, 1e6, 1e300, -1e300, 0.5],
            "town": [None, "a", "b", "c", None],
            "rich": ["no", "yes", "no", "yes", "no"],
        }
    )


@pytest.mark.parametrize("frequencies", [1, 50])
def test_one_row_changes_the_whole_sum_by_a_vector_of_length_one(frequencies: int):
    features = Features.create(SCHEMA, frequencies=frequencies)
    every = hostile()
    for i in range(len(every)):
        one = merf.embedding(every.iloc[i : i + 1], features)
        assert one.shape == (features.size, 2)
        assert np.linalg.norm(one) == pytest.approx(1, abs=1e-12)
        assert np.linalg.norm(merf._BELOW_ONE * one) < 1
        assert (np.linalg.norm(one, axis=0) > 0).sum() == 1  # the column of its class


def test_rows_add_up():
    features = Features.create(SCHEMA, frequencies=3)
    every = rows(50)
    parts = (merf.embedding(every.iloc[i : i + 1], features) for i in range(50))
    np.testing.assert_allclose(merf.embedding(every, features), sum(parts), atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_one_gaussian_release_takes_the_whole_budget(epsilon: float):
    model = estimator(epsilon, steps=1, frequencies=3).fit(rows(), progress=False)
    purposes = [entry.purpose for entry in model.ledger.entries]
    assert purposes == ["distance of grid noise from Gaussian", "mean embedding"]
    assert 0.99 * epsilon < model.guarantee.epsilon <= epsilon
    assert model.to_artifact().manifest["plan"]["noise_multiplier"] == model.noise_multiplier


def test_the_generator_is_given_a_sum_with_the_planned_noise(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def trained(features, mean, of_classes, key, steps):
        seen.append((mean, of_classes))

    monkeypatch.setattr(merf_generator, "trained", trained)
    exact = merf.embedding(rows(), estimator().features)
    for seed in range(3):
        estimator(seed=seed).fit(rows(), progress=False)
    noise = [N * mean - exact for mean, _ in seen]
    assert np.std(noise) == pytest.approx(estimator().noise_multiplier, rel=0.1)
    assert not np.allclose(noise[0], noise[1])
    assert all(shares.sum() == pytest.approx(1) and shares.min() > 0 for _, shares in seen)


def test_the_generator_learns_classes_values_and_gaps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merf_generator, "_HIDDEN", (32,))
    monkeypatch.setattr(merf_generator, "_BATCH", 256)
    model = estimator(50.0, steps=1000).fit(rows(), progress=False)
    drawn = model.sample(4000, seed=2)
    assert list(drawn.columns) == list(SCHEMA.names)
    yes = drawn["rich"].eq("yes")
    assert yes.mean() == pytest.approx(0.3, abs=0.05)
    assert drawn["age"].isna().mean() == pytest.approx(0.2, abs=0.07)
    assert drawn["town"].isna().mean() == pytest.approx(0.1, abs=0.06)
    assert drawn["town"][yes].eq("a").mean() > 0.55 > 0.3 > drawn["town"][~yes].eq("a").mean()
    assert drawn["age"][yes].mean() > drawn["age"][~yes].mean() + 20
    pd.testing.assert_frame_equal(drawn, model.sample(4000, seed=2))


def test_without_privacy_there_is_no_noise_and_no_guarantee():
    model = estimator(math.inf, steps=1).fit(rows(), progress=False)
    assert model.noise_multiplier == 0
    assert model.guarantee.epsilon == math.inf


def test_open_columns_are_refused():
    schema = vf.Schema(town=vf.OpenCategorical(), rich=vf.Boolean(), label="rich")
    with pytest.raises(ValueError, match="closed lists, and numbers with bounds; got town"):
        merf.Merf(schema=schema, budget=vf.Budget(1.0, 1e-5), num_records=9)


# --- dpmm


@pytest.fixture
def dpmm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the same name that draws each column by itself, and notes what it was told."""
    package = tmp_path / "site" / "dpmm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "pipelines.py").write_text(
        textwrap.dedent(
            """
            import json, os
            class AIMPipeline:
                def __init__(self, **settings): self.settings = settings
                def fit(self, df, domain, random_state):
                    self.df = df
                    kinds = {name: str(kind) for name, kind in df.dtypes.items()}
                    told = {"settings": self.settings, "domain": domain, "kinds": kinds}
                    told["name"] = type(self).__name__
                    open(os.environ["TOLD"], "w").write(json.dumps(told))
                def generate(self, n_records, random_state):
                    return self.df.sample(n_records, replace=True, random_state=random_state)
            class MSTPipeline(AIMPipeline): pass
            """
        )
    )
    metadata = tmp_path / "site" / "dpmm-0.1.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: dpmm\nVersion: 0.1.9\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("TOLD", str(tmp_path / "told.json"))
    monkeypatch.setenv(peers.INTERPRETER, sys.executable)
    return tmp_path / "told.json"


def closed(n: int = 300) -> pd.DataFrame:
    frame = rows(n)
    frame["age"] = frame["age"].fillna(0).astype(int)
    return frame.assign(rich=frame["rich"].eq("yes"))[list(CLOSED.names)]


@pytest.mark.parametrize(("method", "name"), [("aim", "AIMPipeline"), ("mst", "MSTPipeline")])
def test_dpmm_is_told_what_is_public_and_its_rows_come_back(dpmm: Path, method: str, name: str):
    real = closed()
    found = peers.Peer(method, CLOSED, 1.0, 1e-5, 3).fit_and_sample(real, 500)
    told = json.loads(dpmm.read_text())
    assert told["name"] == name
    settings = told["settings"]
    assert settings["epsilon"] + settings["proc_epsilon"] == pytest.approx(1.0)
    assert settings["delta"] == 1e-5
    assert ("max_model_size" in settings) is (method == "aim")
    assert told["domain"]["age"] == {"lower": 0, "upper": 99}
    assert told["domain"]["town"] == {"categories": ["0", "1", "2", "3"]}
    assert told["kinds"] == {"age": "int64", "town": "category", "rich": "category"}
    assert len(found.rows) == 500
    assert found.rows["age"].dtype == np.int64
    assert found.rows["age"].between(0, 99).all()
    assert found.rows["rich"].isin([True, False]).all()
    assert set(found.rows["town"].dropna()) == {"a", "b", "c"}
    assert found.rows["town"].isna().any()
    assert found.done["dpmm"] == "0.1.9"
    assert found.done["fit_seconds"] >= 0


def test_dpmm_is_told_the_gaps_of_numbers_in_columns_of_their_own(dpmm: Path):
    real = rows(300)
    found = peers.Peer("mst", SCHEMA, 1.0, 1e-5, 3).fit_and_sample(real, 1000)
    told = json.loads(dpmm.read_text())
    assert told["domain"]["age is empty"] == {"categories": ["0", "1"]}
    assert told["kinds"]["age is empty"] == "category"
    assert list(found.rows) == list(SCHEMA.names)
    assert found.rows["age"].isna().mean() == pytest.approx(real["age"].isna().mean(), abs=0.07)
    assert found.rows["age"].dropna().isin(real["age"].dropna()).all()


def test_without_an_interpreter_or_with_a_broken_one_it_says_so(monkeypatch: pytest.MonkeyPatch):
    peer = peers.Peer("aim", CLOSED, 1.0, 1e-5, 3)
    monkeypatch.delenv(peers.INTERPRETER, raising=False)
    monkeypatch.setattr(peers, "_MADE", Path("nowhere"))
    with pytest.raises(ValueError, match="VEILFLOW_DPMM must name a Python"):
        peer.fit_and_sample(closed(20), 5)
    monkeypatch.setenv(peers.INTERPRETER, sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.devnull)
    with pytest.raises(RuntimeError, match="dpmm failed: ModuleNotFoundError"):
        peer.fit_and_sample(closed(20), 5)


@pytest.mark.parametrize(
    ("method", "schema", "message"),
    [
        ("privbayes", CLOSED, "the methods of dpmm are aim, mst"),
        (
            "aim",
            vf.Schema({**SCHEMA.columns, "age is empty": vf.Boolean()}, label="rich"),
            "no column may be named 'age is empty'",
        ),
    ],
)
def test_what_dpmm_cannot_do_is_refused(method: str, schema: vf.Schema, message: str):
    with pytest.raises(ValueError, match=message):
        peers.Peer(method, schema, 1.0, 1e-5, 1)


# --- Figure 2


@pytest.mark.slow
def test_gradients_of_all_three_networks_are_shown_layer_by_layer(tmp_path: Path):
    real = closed()
    flow = vf.hflow(blocks=2, bins=3, hidden=(4,), dequantization="variational")
    model = vf.TableFlow(
        schema=CLOSED,
        budget=vf.Budget(8.0, 1e-5),
        num_records=len(real),
        warm_start=False,
        flow=flow,
        training=vf.Training(steps=1),
        seed=1,
    ).fit(real, progress=False)
    found = gradients.by_layer(model, real, seed=1)
    names = {name.removeprefix(gradients.PREFIX).rpartition(" ")[0] for name in found}
    assert names == {"dequantizer", "splines", "linear maps"}
    assert all(norm.shape == (len(real),) and (norm > 0).any() for norm in found.values())
    gradients.draw(tmp_path / "f.png", found, title="t")
    assert (tmp_path / "f.png").stat().st_size > 0


# --- what the page says of Figures 4 and 5


def a_record(row: str, epsilon: float, metric: str, ours: float, spread: float | None) -> Record:
    table = "figure 4" if metric.startswith("test") else "figure 5"
    return Record(
        table=table,
        row=row,
        column=f"Adult, {epsilon:g}",
        metric=metric,
        paper=None,
        ours=ours,
        spread=spread,
        must=None,
        better="higher",
        epsilon=epsilon,
        delta=1e-5,
        accountant="PLD",
        splits=4,
        seconds=1.0,
        device="a machine",
        commit="abc",
    )


@pytest.mark.parametrize(
    ("values", "spread", "expected"),
    [
        (
            (-35.0, -34.0, -34.1, -34.2),
            0.1,
            "lower than per layer and per unit and sparsified, as in",
        ),
        (
            (-34.0, -34.5, -33.5, -34.05),
            0.1,
            "within two standard errors of sparsified, higher than ",
        ),
        ((-34.0, -34.0, -34.0, -34.0), 0.1, "which contradicts the paper"),
        ((-35.0, -34.0, -34.1, -34.2), None, ""),  # one seed tells nothing
    ],
)
def test_the_page_says_whether_flat_clipping_is_worse(values, spread, expected: str):
    names = zip(ablations.CLIPPINGS, values, strict=True)
    records = [a_record(name, 1.0, "test log-likelihood", x, spread) for name, x in names]
    said = verdicts.figure_4(records)
    assert expected in said
    assert bool(said) is bool(expected)
    assert verdicts.figure_4(records[:2]) == ""


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((-0.1, 0.0, 0.1, 0.1), "lower at 0.5, no different at 1, higher at 3 and 10, as in"),
        ((0.1, 0.1, 0.1, 0.1), "higher at 0.5 and 1 and 3 and 10, which contradicts"),
    ],
)
def test_the_page_says_when_variational_dequantization_is_better(gains, expected: str):
    records = []
    for epsilon, gain in zip(ablations.EPSILONS, gains, strict=True):
        records += [
            a_record("uniform", epsilon, "AUROC", 0.8, 0.01),
            a_record("variational", epsilon, "AUROC", 0.8 + gain, 0.01),
        ]
    assert expected in verdicts.figure_5(records)
    blocks = verdicts.with_verdicts(ablations.ABLATIONS, records)
    assert expected in blocks[-1].words
    assert blocks[0] == ablations.ABLATIONS[0]
