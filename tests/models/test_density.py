"""The density flow: what it promises, what it pays for, and what it does with rows of any kind."""

import dataclasses
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.flat import changed, density_flow
from veilflow._core.codec import plain
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint
from veilflow.models import artifact as artifacts
from veilflow.models import registry
from veilflow.privacy.assumptions import FloatSums, Generator, Seeded
from veilflow.privacy.events import (
    ApproximateDP,
    Gaussian,
    PoissonSampled,
    PureDP,
    Repeated,
)
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import SLACK
from veilflow.releases.run import Run
from veilflow.releases.training import PrivateTraining

ROOT = Path(__file__).parent.parent.parent
BUDGET = vf.Budget(epsilon=2.0, delta=1e-5)
SEED = 20_231
NUM_ROWS = 300
LOW, HIGH = (-2.0, -1.5), (3.0, 2.0)


def frame(scale: float = 1.0) -> pd.DataFrame:
    rows = vf.datasets.moons(NUM_ROWS, seed=0)
    return pd.DataFrame(scale * rows, columns=["east", "north"])


def moons_estimator(scale: float = 1.0, **changes) -> vf.DensityFlow:
    settings = {
        "budget": BUDGET,
        "bounds": (scale * np.array(LOW), scale * np.array(HIGH)),
        "num_records": NUM_ROWS,
        "flow": vf.maf(blocks=2, hidden=(16, 16)),
        "base": "normal",
        "steps": 200,
        "batch_size": 60,
        "seed": SEED,
    }
    return density_flow(**{**settings, **changes})


def tiny(**changes) -> vf.DensityFlow:
    """Three steps of a small flow, and nothing before them."""
    settings = {
        "budget": BUDGET,
        "bounds": (0, 1),
        "flow": vf.maf(blocks=1, hidden=(4,)),
        "base": "normal",
        "start": "none",
        "steps": 3,
    }
    if "row_norm" in changes:
        settings["bounds"] = None
    return density_flow(**{**settings, **changes})


@pytest.fixture(scope="module")
def moons() -> vf.FittedDensityFlow:
    return moons_estimator().fit(frame(), progress=False)


@pytest.fixture(scope="module")
def saved(moons: vf.FittedDensityFlow, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "moons.veil"
    moons.save(path)
    return path


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> vf.FittedDensityFlow:
    """From a CSV file, with everything that can be paid for, under a secret nobody chose."""
    path = tmp_path_factory.mktemp("counted") / "rows.csv"
    frame().to_csv(path, index=False)
    estimator = tiny(bounds=(0, 1), count_clamped=True, budget=vf.Budget(20.0, 1e-5))
    return estimator.fit(path, progress=False)


@pytest.fixture(scope="module")
def in_a_ball() -> vf.FittedDensityFlow:
    estimator = tiny(row_norm=2.0, num_records=NUM_ROWS)
    return estimator.fit(frame().to_numpy(), progress=False)


@pytest.fixture(scope="module")
def lonely() -> vf.FittedDensityFlow:
    """One row of one column: a constant column, and a batch that always holds all rows."""
    return tiny(num_records=1, bounds=(-1, 1), steps=20).fit([[0.25]], progress=False)


# -- the guarantee and its ledger ------------------------------------------------------------------


def test_the_guarantee_is_within_the_budget_and_recomputes_from_the_ledger(moons):
    assert 0.95 * BUDGET.epsilon < moons.guarantee.epsilon <= BUDGET.epsilon
    assert moons.guarantee.delta == BUDGET.delta
    again = vf.Ledger.from_json(json.loads(json.dumps(moons.ledger.to_json())))
    assert again.epsilon(delta=BUDGET.delta) == pytest.approx(moons.guarantee.epsilon, rel=1e-9)
    assert again.epsilon(delta=BUDGET.delta, accountant="rdp") >= moons.guarantee.epsilon


def test_the_ledger_holds_what_the_plan_did_and_nothing_for_a_declared_count(moons):
    plan = moons_estimator().plan(2)
    assert moons.plan == plan
    training = plan.release(PrivateTraining)
    one = PoissonSampled(60 / NUM_ROWS, Gaussian(training.noise_multiplier))
    assert [(e.purpose, e.event) for e in moons.ledger.entries] == [
        ("histograms of columns", plan.releases[0].event),
        ("moments", plan.releases[1].event),
        ("training", Repeated(200, one)),
        (SLACK, moons.ledger.entries[3].event),
    ]
    assert training.sampling_rate == 60 / NUM_ROWS
    assert training.plan(NUM_ROWS).expected_batch_size == pytest.approx(60)
    assert moons.facts == {"num_records": NUM_ROWS}
    assert plan.num_records == NUM_ROWS


def test_a_chosen_seed_is_confessed_and_a_fresh_secret_is_not(moons, counted, in_a_ball):
    sums, generator, seeded = (FloatSums(), Generator(), Seeded())
    assert moons.guarantee.assumptions[1:] == (sums, generator, seeded)
    assert counted.guarantee.assumptions[1:] == (sums, generator)
    assert in_a_ball.guarantee.assumptions[1:] == (sums, generator)
    assert "uses it for no other fit" in seeded.sentence
    assert seeded.sentence in str(moons.guarantee)


def test_declared_facts_are_confessed_and_paid_ones_are_not(moons, counted, in_a_ball):
    first, second, third = (str(m.guarantee.assumptions[0]) for m in (moons, counted, in_a_ball))
    assert first == "bounds and the number of records were declared, not read from the records"
    # its number of records was paid for
    assert second == "bounds were declared, not read from the records"
    assert third == (
        "the largest norm of a row and the number of records were declared, not read from the "
        "records"
    )
    open_ball = vf.DensityFlow(budget=BUDGET, row_norm=1.0).plan(4).ledger
    assert (
        str(open_ball.assumptions[0])
        == "the largest norm of a row was declared, not read from the records"
    )


def test_an_undeclared_count_and_the_clamped_rows_are_paid_for(counted):
    purposes = [(entry.purpose, entry.event) for entry in counted.ledger.entries]
    assert purposes[:2] == [
        ("number of records", PureDP(0.02 * 20)),
        ("number of rows outside the bounds", PureDP(0.02 * 20)),
    ]
    assert [purpose for purpose, _ in purposes[2:]] == ["training", SLACK]
    assert counted.guarantee.epsilon <= 20.0
    facts = counted.facts
    assert counted.plan.num_records is None
    # geometric noise of epsilon 0.4 goes beyond 60 in one of 1e10 runs
    outside = int(((frame() < 0) | (frame() > 1)).any(axis=1).sum())
    assert abs(facts["num_records"] - NUM_ROWS) <= 60
    assert abs(facts["clamped_rows"] - outside) <= 60


def test_a_fit_pays_for_the_distance_of_its_noise_from_gaussian(in_a_ball):
    training, slack = in_a_ball.ledger.entries
    assert isinstance(slack.event, ApproximateDP)
    assert slack.event.epsilon == 0
    assert 0 < slack.event.delta < 1e-6 * BUDGET.delta
    assert training.purpose == "training"
    assert in_a_ball.guarantee.epsilon <= BUDGET.epsilon
    assert np.isfinite(in_a_ball.log_prob(in_a_ball.sample(20, seed=0))).all()


def test_more_than_the_budget_is_refused_before_a_row_is_used():
    with pytest.raises(vf.BudgetError, match=r"epsilon|budget"):
        # the two counts are 4 % of epsilon; what their noise leaves pays no step at this delta
        tiny(budget=vf.Budget(1e-4, 1e-12), steps=10**7, num_records=50, batch_size=50).fit(
            np.full((50, 2), 0.5), progress=False
        )


def test_a_delta_that_admits_publishing_a_row_warns():
    with (
        pytest.warns(
            UserWarning, match=r"delta=0.01 is not below 1/300: releasing a random record"
        ),
        pytest.raises(RuntimeError, match="far enough"),
    ):
        _fit_up_to_the_plan(tiny(budget=vf.Budget(1.0, 0.01), num_records=NUM_ROWS))


def _fit_up_to_the_plan(estimator: vf.DensityFlow) -> None:
    """Stop a fit right before it gets expensive."""

    def stop(*_, **__):
        raise RuntimeError("far enough")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "pay", stop)
        estimator.fit(frame(), progress=False)


def test_a_batch_of_all_rows_is_a_sampling_rate_of_one(lonely):
    training = lonely.plan.release(PrivateTraining)
    assert training.sampling_rate == 1.0
    assert training.plan(lonely.facts["num_records"]).expected_batch_size == 1.0


# -- samples and densities -------------------------------------------------------------------------


def test_samples_have_the_shape_the_bounds_and_the_seed_asked_for(moons):
    rows = moons.sample(5000, seed=1)
    assert rows.shape == (5000, 2)
    assert (rows >= LOW).all()
    assert (rows <= HIGH).all()
    np.testing.assert_array_equal(rows, moons.sample(5000, seed=1))
    assert len(np.unique(rows, axis=0)) > 4000
    assert np.abs(rows[:100] - moons.sample(100, seed=2)).min() > 0
    assert np.abs(moons.sample(3) - moons.sample(3)).max() > 0
    assert moons.sample(0).shape == (0, 2)


def test_samples_of_a_ball_stay_in_it(in_a_ball):
    assert (np.linalg.norm(in_a_ball.sample(1000, seed=0), axis=1) <= 2.0 * (1 + 1e-12)).all()


@pytest.mark.parametrize(("num_rows", "error"), [(-1, ValueError), (1.5, TypeError)])
def test_a_number_of_samples_is_a_count(moons, num_rows, error):
    with pytest.raises(error, match="num_rows must be"):
        moons.sample(num_rows)


def test_the_density_in_the_plane_integrates_to_one(moons):
    # beyond the bounds on all sides: the flow itself knows no border. One point anywhere in each cell
    # of a mesh, since the marginals of the start make the density jump between finer cells.
    side, width = np.linspace(-5, 5, 600, endpoint=False), 10 / 600
    mesh = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    mesh += width * np.random.default_rng(0).uniform(size=mesh.shape)
    assert np.exp(moons.log_prob(mesh)).sum() * width**2 == pytest.approx(1, abs=5e-3)


def test_the_density_on_the_line_integrates_to_one(lonely):
    side = np.linspace(-20, 20, 8001)
    density = np.exp(lonely.log_prob(side[:, None]))
    assert density.sum() * (side[1] - side[0]) == pytest.approx(1, abs=2e-3)


def test_another_unit_of_the_same_rows_shifts_the_log_density_by_the_log_of_the_scale(moons):
    # by a power of two, so that no row crosses into another cell by rounding
    small = moons_estimator(scale=128.0).fit(frame(scale=128.0), progress=False)
    rows = frame()
    np.testing.assert_allclose(
        small.log_prob(128 * rows), moons.log_prob(rows) - 2 * np.log(128), rtol=1e-12
    )
    np.testing.assert_allclose(small.sample(50, seed=0), 128 * moons.sample(50, seed=0), rtol=1e-12)


def test_training_made_the_rows_more_likely_than_rows_spread_over_the_bounds(moons):
    anywhere = np.random.default_rng(0).uniform(LOW, HIGH, (1000, 2))
    assert moons.log_prob(frame()).mean() > moons.log_prob(anywhere).mean() + 0.3


def test_the_density_far_away_is_zero_and_never_nan(moons):
    far = np.array([[1e6, 0], [1e38, -1e38], [1.7e308, -1.7e308], [0, 5e-324], [1e-310, 1e308]])
    found = moons.log_prob(far)
    assert not np.isnan(found).any()
    assert (found < 10).all()
    assert (found[[1, 2, 4]] == -np.inf).all()


def test_columns_are_found_by_name_and_arrays_by_place(moons, tmp_path):
    rows = frame()
    expected = moons.log_prob(rows)
    assert moons.columns == ("east", "north")
    swapped = rows[["north", "east"]].assign(label="moon")
    np.testing.assert_array_equal(moons.log_prob(swapped), expected)
    np.testing.assert_array_equal(moons.log_prob(rows.to_numpy()), expected)
    swapped.to_csv(tmp_path / "rows.csv", index=False)
    np.testing.assert_array_equal(moons.log_prob(tmp_path / "rows.csv"), expected)
    with pytest.raises(ValueError, match="there is no column 'north' in the table"):
        moons.log_prob(rows[["east"]])
    with pytest.raises(ValueError, match="3"):
        moons.log_prob(np.zeros((2, 3)))


def test_a_row_has_the_same_density_alone_and_in_a_crowd(moons):
    rows = np.tile(frame().to_numpy(), (20, 1))
    together = moons.log_prob(rows)
    assert together.shape == (6000,)
    np.testing.assert_array_equal(together[:NUM_ROWS], together[-NUM_ROWS:])
    assert moons.log_prob(rows[7:8])[0] == together[7]


# -- what does not leave the fit -------------------------------------------------------------------


def test_neither_the_seed_nor_the_secret_is_in_the_model_or_its_file(moons, saved):
    secret, data = Secret.from_seed(SEED), saved.read_bytes()
    public = json.dumps(plain(moons.plan)) + json.dumps(moons.facts) + repr(moons.plan)
    assert str(SEED) not in public + repr(moons) + str(moons.guarantee)
    for trace in (secret.reveal(), secret.reveal().hex().encode(), str(SEED).encode()):
        assert trace not in data
    assert b'"seed"' not in data
    assert str(SEED) not in repr(moons_estimator())
    for step in range(5):  # nor any key that was used
        for purpose in ("draw", "loss", "noise", "weights", "whitening", "marginals"):
            assert secret.words(purpose, step, 1).tobytes() not in data


def test_no_row_is_in_the_file(saved):
    data = saved.read_bytes()
    for row in frame().to_numpy()[:50]:
        assert row.tobytes() not in data
        assert np.float32(row).tobytes() not in data
        assert repr(float(row[0])).encode() not in data


def test_one_extreme_row_more_changes_nothing_but_what_the_noise_covers():
    """The same seed and the declared count: whatever differs came from the rows."""
    rows = np.random.default_rng(0).uniform(size=(50, 2))
    extreme = np.concatenate([rows, [[1e38, 1e-310]]])
    estimator = tiny(num_records=50, batch_size=25, clip_norm=1.0, seed=5, ema_decay=None)
    one, two = (estimator.fit(x, progress=False) for x in (rows, extreme))
    assert one.domain == two.domain
    assert (one.plan, one.facts, one.assembly) == (two.plan, two.facts, two.assembly)
    assert one.ledger == two.ledger
    assert one.guarantee == two.guarantee
    assert one.columns == two.columns
    assert np.isfinite(two.log_prob(rows)).all()
    assert np.isfinite(two.sample(100, seed=0)).all()


# -- files -----------------------------------------------------------------------------------------


def test_a_fresh_process_reads_the_same_model_from_the_file(moons, saved, tmp_path):
    rows, result = tmp_path / "rows.npy", tmp_path / "result.npz"
    np.save(rows, frame().to_numpy())
    code = (
        "import sys, numpy as np, veilflow as vf; m = vf.load(sys.argv[1]); "
        "np.savez(sys.argv[3], a=m.log_prob(sys.argv[2]), b=m.sample(9, seed=4), "
        "c=m.guarantee.epsilon, d=repr(m))"
    )
    command = [sys.executable, "-c", code, str(saved), str(rows), str(result)]
    subprocess.run(command, check=True, timeout=120, cwd=tmp_path)
    found = np.load(result)
    np.testing.assert_array_equal(found["a"], moons.log_prob(frame()))
    np.testing.assert_array_equal(found["b"], moons.sample(9, seed=4))
    assert found["c"] == moons.guarantee.epsilon
    assert str(found["d"]) == repr(moons)


def test_loading_gives_everything_back(moons, saved):
    again = vf.load(saved)
    for name in ("domain", "columns", "plan", "ledger", "guarantee", "facts", "assembly"):
        assert getattr(again, name) == getattr(moons, name), name


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "flipped"])
def test_a_file_that_is_no_model_is_refused(saved, tmp_path, damage):
    data = saved.read_bytes()
    middle = len(data) // 2
    content = {
        "truncated": data[:middle],
        "empty": b"",
        "foreign": b"east,north\n1,2\n",
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
    }[damage]
    path = tmp_path / "model.veil"
    path.write_bytes(content)
    with pytest.raises(vf.ArtifactError):
        vf.load(path)


HOSTILE_ASSEMBLIES = {
    "dim": [1, 3, -1, 10**9, 10**30, "2", None],
    "linear": [False, None],
    "pieces": [None, 511, 10**12, -1, "512"],
    "components": [1, 10**12, 0, "1"],
    "bits": [1, 12, 10**9],
    "blend": ["x"],
    "border": [0, -1, "1", None, float("nan"), float("inf")],
    "architecture": [
        None,
        [],
        "maf",
        {"blocks": 3},
        {"blocks": 10**9},
        {"blocks": -1},
        {"blocks": "2"},
        {"hidden": [16, 17]},
        {"hidden": [10**9]},
        {"hidden": "16"},
        {"hidden": 16},
        {"hidden": [[16]]},
        {"hidden": [16] * 50},
        {"hidden": None},
        {"kind": "nsf"},
        {"kind": "realnvp"},
        {"kind": "__import__"},
        {"num_bins": 10**9},
        {"actnorm": True},
    ],
    "floor": [0, 2, "x", None, float("nan")],
    "more": [1],
}
HOSTILE_SCHEMAS = {
    "columns": [["east"], "ab", ["east", "north", "up"], {"east": 1, "north": 2}],
}
HOSTILE_DOMAINS = [
    {"kind": "Box", "low": [0, 0, 0], "high": [1, 1, 1]},
    {"kind": "Box", "low": [1, 1], "high": [0, 0]},
    {"kind": "Box", "low": [0] * 10**5, "high": [1] * 10**5},
    {"kind": "Box"},
    {"kind": "Ball", "row_norm": "far"},
    {"kind": "torus"},
    [],
    None,
]


def with_schema(model: vf.FittedDensityFlow, **changes) -> artifacts.Artifact:
    whole = model.to_artifact()
    return dataclasses.replace(whole, schema={**whole.schema, **changes})


def with_domain(whole: artifacts.Artifact, domain: object) -> artifacts.Artifact:
    plan = {**whole.manifest["plan"], "domain": domain}
    return dataclasses.replace(whole, manifest={**whole.manifest, "plan": plan})


def refused_quickly(artifact) -> None:
    """Refused by a read of its settings, with little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(vf.ArtifactError, match="do not make a DensityFlow"):
            registry.from_artifact(artifact)
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in HOSTILE_ASSEMBLIES.items() for value in values],
    ids=lambda x: str(x)[:40],
)
def test_an_assembly_that_does_not_fit_the_arrays_is_refused(moons, name, value):
    assembly = dict(moons.to_artifact().schema["assembly"])
    partial = name == "architecture" and isinstance(value, dict)
    assembly[name] = {**assembly["architecture"], **value} if partial else value
    refused_quickly(with_schema(moons, assembly=assembly))


@pytest.mark.parametrize("assembly", [None, [], "x", {}, {"dim": 2}], ids=str)
def test_no_assembly_at_all_is_refused(moons, assembly):
    whole = moons.to_artifact()
    refused_quickly(with_schema(moons, assembly=assembly))
    rest = {name: value for name, value in whole.schema.items() if name != "assembly"}
    refused_quickly(dataclasses.replace(whole, schema=rest))
    refused_quickly(dataclasses.replace(whole, schema={**whole.schema, "more": 1}))
    refused_quickly(dataclasses.replace(whole, manifest={}))


def test_an_empty_file_that_claims_to_be_a_giant_is_refused(moons):
    nothing = {"linear": False, "pieces": None, "architecture": None, "dim": 10**9}
    assembly = {**moons.to_artifact().schema["assembly"], **nothing}
    giant = with_schema(moons, assembly=assembly, columns=None)
    giant = with_domain(giant, {"kind": "Ball", "row_norm": 1.0})
    refused_quickly(dataclasses.replace(giant, arrays={}))


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in HOSTILE_SCHEMAS.items() for value in values],
    ids=lambda x: str(x)[:40],
)
def test_a_schema_that_does_not_fit_the_arrays_is_refused(moons, name, value):
    refused_quickly(with_schema(moons, **{name: value}))


@pytest.mark.parametrize("domain", HOSTILE_DOMAINS, ids=lambda x: str(x)[:40])
def test_a_domain_that_does_not_fit_the_arrays_is_refused(moons, domain):
    refused_quickly(with_domain(moons.to_artifact(), domain))


def test_settings_that_do_not_fit_are_refused_in_a_file_too(moons, tmp_path):
    assembly = {**moons.to_artifact().schema["assembly"], "dim": 3}
    artifacts.save(with_schema(moons, assembly=assembly), tmp_path / "model.veil")
    with pytest.raises(vf.ArtifactError, match="do not make a DensityFlow"):
        vf.load(tmp_path / "model.veil")


def test_arrays_that_are_not_those_of_the_model_are_refused(moons):
    """Trained or released, each array is looked at."""
    whole = moons.to_artifact()
    assert len(whole.arrays) > 8
    for name, array in whole.arrays.items():
        poisoned = np.array(array)
        poisoned.ravel()[-1] = np.nan
        for other in (
            poisoned,
            np.where(np.isnan(poisoned), np.inf, poisoned),
            array.astype(np.float64),
            array.astype(np.float16),
            array.astype(np.int32),
            array.reshape(*array.shape, 1),
            np.append(array.ravel(), np.float32(0)),
        ):
            refused_quickly(dataclasses.replace(whole, arrays={**whole.arrays, name: other}))
        rest = {n: a for n, a in whole.arrays.items() if n != name}
        refused_quickly(dataclasses.replace(whole, arrays=rest))
        refused_quickly(dataclasses.replace(whole, arrays={**rest, f"{name}x": array}))


# -- checkpoints -----------------------------------------------------------------------------------


def fit_slowly(checkpoint: str, result: str) -> None:
    """What the process to be killed does: write after every block, and take its time over it."""
    Checkpoint.__init__.__kwdefaults__["seconds"] = 0.0
    write = Checkpoint._write

    def slow_write(self, *arguments):
        write(self, *arguments)
        time.sleep(0.1)

    Checkpoint._write = slow_write
    moons_estimator().fit(frame(), progress=False, checkpoint=checkpoint).save(result)


@pytest.mark.slow
def test_a_fit_killed_on_its_way_gives_the_same_model_file_as_an_undisturbed_one(
    saved, tmp_path, tmp_path_factory
):
    checkpoint, result = tmp_path / "moons.checkpoint", tmp_path / "moons.veil"
    code = "import sys; from tests.models.test_density import fit_slowly; fit_slowly(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(checkpoint), str(result)]
    # the second process need not compile what the first did
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    environment = {**os.environ, **cache}
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        deadline, step = time.monotonic() + 120, 0
        while step < 20:
            assert process.poll() is None, "the fit ended before it was killed"
            assert time.monotonic() < deadline, "the fit makes no progress"
            time.sleep(0.005)
            left = Checkpoint(checkpoint).read()
            step = 0 if left is None else left.step
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert stat.S_IMODE(checkpoint.stat().st_mode) == 0o600
    assert not result.exists()

    # others may not go on with it
    before = checkpoint.read_bytes()
    with pytest.raises(vf.PrivacyError, match="belongs to other settings"):
        moons_estimator(clip_norm=0.5).fit(frame(), progress=False, checkpoint=checkpoint)
    moved = frame()
    moved.iloc[3, 0] += 1e-3
    with pytest.raises(vf.PrivacyError, match="another set of records"):
        moons_estimator().fit(moved, progress=False, checkpoint=checkpoint)
    assert checkpoint.read_bytes() == before

    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=120)
    assert result.read_bytes() == saved.read_bytes()  # parameters, ledger, guarantee, settings
    assert [file.name for file in tmp_path.iterdir()] == ["moons.veil"]


# -- input that is wrong ---------------------------------------------------------------------------

PLANTED = 7.123456789
"""A value that may appear in no message."""


def _with(value) -> np.ndarray:
    rows = np.full((20, 2), PLANTED)
    rows[11, 1] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (_with(np.nan), ValueError, "column 2 of 2 has missing cells"),
        (_with(np.inf), ValueError, "column 2 of 2 has cells that are infinite or too large"),
        (_with(-np.inf), ValueError, "infinite"),
        (pd.DataFrame(_with(np.nan), columns=["a", "b"]), ValueError, "column 'b' has missing"),
        (np.empty((5, 0)), ValueError, "at least one"),
        ([], ValueError, "2 dimensions|at least one"),
        (np.full(5, PLANTED), ValueError, "2 dimensions, got 1. For one feature use"),
        (np.full((5, 2, 2), PLANTED), ValueError, "2 dimensions, got 3"),
        ([[PLANTED, 1.0], [PLANTED]], ValueError, "same number of columns"),
        ([[f"{PLANTED} m", "1"]], ValueError, "column 1 of 2 is not numeric"),
        (np.array([[PLANTED, None]]), ValueError, "column 2 of 2 has missing cells"),
        (np.full((5, 2), PLANTED + 1j), ValueError, "column 1 of 2 is not numeric"),
        (np.full((5, 3), PLANTED), ValueError, "declared for 2 columns, the rows have 3"),
        (pd.DataFrame({"a": [PLANTED], "b": ["x"]}), ValueError, "column 'b' is not numeric"),
        (None, TypeError, "rows must be a path"),
        (PLANTED, TypeError, "rows must be a path"),
        ("missing.csv", FileNotFoundError, "there is no file"),
        ("rows.docx", ValueError, "suffix"),
    ],
    ids=lambda x: None if not isinstance(x, str) else re.sub(r"\W+", " ", x)[:30],
)
def test_rows_that_are_no_table_of_numbers_are_refused_without_showing_a_value(
    rows, error, message
):
    with pytest.raises(error, match=message) as caught:
        tiny(bounds=([0, 0], [1, 1])).fit(rows, progress=False)
    told = [caught.value]
    while told[-1].__cause__ is not None:
        told.append(told[-1].__cause__)
    assert not any("7.123" in str(one) for one in told)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"bounds": None}, ValueError, "got neither"),
        ({"row_norm": 1.0, "bounds": (0, 1)}, ValueError, "got both"),
        ({"bounds": (1, 1)}, ValueError, "bounds must rise"),
        ({"bounds": (0, np.nan)}, ValueError, "bounds must be finite"),
        ({"bounds": 1}, ValueError, "bounds must be \\(low, high\\)"),
        ({"row_norm": 0.0}, ValueError, "row_norm must be positive"),
        ({"row_norm": "1"}, TypeError, "row_norm must be a number, got str"),
        ({"budget": 1.0}, TypeError, r"budget must be a Budget .*, got float"),
        ({"budget": vf.Budget(1.0, 0.0)}, ValueError, "delta must be positive"),
        ({"num_records": 0}, ValueError, "num_records must be at least 1, got 0"),
        ({"clip_norm": 0.0}, ValueError, "clip_norm must be positive and finite, got 0.0"),
        ({"flow": "maf"}, TypeError, r"flow must be vf.maf\(...\), .* got str"),
        ({"training": {"steps": 3}}, TypeError, r"training must be vf.Training\(...\), got dict"),
        ({"base": "uniform"}, ValueError, "base must be one of 'auto', 'normal', 'logistic'"),
        ({"start": "magic"}, ValueError, "start must be one of 'auto', 'grid', 'columns'"),
        ({"start": "grid", "row_norm": 1.0}, ValueError, "start='grid' needs bounds"),
        ({"start": "columns", "row_norm": 1.0}, ValueError, "start='columns' needs bounds"),
        ({"start": "grid", "base": "normal"}, ValueError, "start='grid' makes the base"),
        ({"start": "grid", "base": "student"}, ValueError, "start='grid' makes the base"),
        ({"start": "actnorm", "base": "mixture"}, ValueError, "leads to a normal base"),
        ({"seed": 1.5}, TypeError, "seed must be a whole number or None"),
    ],
)
def test_settings_that_make_no_fit_are_refused_when_they_are_written(changes, error, message):
    settings = {"budget": BUDGET, **changes}
    if "bounds" not in changes and "row_norm" not in changes:
        settings["bounds"] = (0, 1)
    make = vf.DensityFlow if "training" in changes else density_flow
    with pytest.raises(error, match=message):
        make(**settings)


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (0.0, 1e-5, "epsilon must be positive"),
        (-1.0, 1e-5, "epsilon must be positive"),
        (np.nan, 1e-5, "epsilon must be a number, got NaN"),
        (-np.inf, 1e-5, "epsilon must be positive and finite"),
        (1.0, 1.0, "delta must be strictly between 0 and 1"),
        (1.0, -0.1, "delta must be strictly between 0 and 1"),
        (1.0, np.nan, "delta must be a number, got NaN"),
    ],
)
def test_a_budget_that_promises_nothing_is_refused(epsilon, delta, message):
    with pytest.raises(ValueError, match=message):
        vf.Budget(epsilon, delta)


def test_an_estimator_is_frozen_and_does_not_show_its_seed():
    estimator = tiny(seed=SEED)
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.budget = BUDGET  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.training.steps = 1  # type: ignore[misc]
    assert str(SEED) not in repr(estimator)


def test_a_constant_column_and_a_single_row_give_a_finite_density(lonely):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(lonely.log_prob([[0.25], [-1.0], [1.0]])).all()
        assert np.isfinite(lonely.sample(100, seed=0)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 60}, "batch_size=60 needs num_records"),
        ({"batch_size": 60, "num_records": 90, "sampling_rate": 0.1}, "not both"),
        ({"sampling_rate": 1.5}, "sampling_rate must be above 0 and at most 1, got 1.5"),
        ({"sampling_rate": 0.0}, "sampling_rate must be above 0"),
    ],
)
def test_rates_that_would_be_private_or_impossible_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        tiny(**settings)


def test_a_model_is_saved_before_its_checkpoint_is_removed(tmp_path):
    checkpoint, folder = tmp_path / "run.ckpt", tmp_path / "folder"
    folder.mkdir()
    estimator = tiny(num_records=50, batch_size=25)
    with pytest.raises(OSError, match="not a regular file"):
        estimator.fit(np.full((50, 2), 0.5), progress=False, checkpoint=checkpoint, save_as=folder)
    assert checkpoint.exists()
    saved = tmp_path / "m.veil"
    estimator.fit(np.full((50, 2), 0.5), progress=False, checkpoint=checkpoint, save_as=saved)
    assert saved.exists()
    assert not checkpoint.exists()


TRAINING = {
    "flow": vf.maf(),
    "batch_size": 20,
    "sampling_rate": 0.1,
    "clip_norm": 1.0,
    "learning_rate": 0.1,
    "weight_decay": 0.0,
    "ema_decay": 0.9,
}


@pytest.mark.parametrize("name", TRAINING)
def test_what_only_training_would_use_is_refused_where_there_is_none(name):
    estimator = density_flow(budget=BUDGET, bounds=(0, 1), num_records=50, **{name: TRAINING[name]})
    with pytest.raises(
        ValueError, match=rf"^{name}: only for training, .*2 columns.*grid is the whole model"
    ):
        estimator.fit(np.full((50, 2), 0.5), progress=False)
    with pytest.raises(ValueError, match="steps above 0 to train"):
        estimator.plan(2)
    assert changed(estimator, steps=3).plan(2).release(PrivateTraining).steps == 3
    assert estimator.plan(4).release(PrivateTraining).steps > 0
    with pytest.raises(ValueError, match=rf"^{name}: .*steps=0"):
        changed(estimator, steps=0).plan(4)


def test_no_average_is_a_choice_for_training_too():
    estimator = density_flow(budget=BUDGET, bounds=(0, 1), ema_decay=None)
    training = estimator.plan(4).release(PrivateTraining)
    assert training.steps > 0
    assert training.settings.ema_decay is None
    with pytest.raises(ValueError, match="ema_decay: only for training"):
        estimator.plan(2)


def test_components_are_refused_where_no_mixture_is_fitted_by_em():
    estimator = vf.DensityFlow(budget=BUDGET, bounds=(0, 1), num_components=5)
    assert estimator.plan(4).release(ExpectationMaximization).num_components == 5
    for changes, dim in (({}, 2), ({"steps": 9}, 2), ({"base": "normal"}, 4)):
        with pytest.raises(ValueError, match="num_components is for a base by private EM"):
            changed(estimator, **changes).plan(dim)


def test_a_flow_with_actnorms_is_used_without_training_too():
    flow = vf.maf(blocks=2, hidden=(3,))
    estimator = density_flow(budget=BUDGET, bounds=(0, 1), start="actnorm", steps=0, flow=flow)
    plan = estimator.plan(2)
    assert plan.flow == dataclasses.replace(flow, actnorm=True)
    assert plan.release(PrivateTraining) is None


def test_a_fit_that_diverged_says_so():
    rows = np.random.default_rng(0).uniform(-1, 1, size=(200, 4))
    estimator = density_flow(
        budget=vf.Budget(epsilon=5.0, delta=1e-4),
        bounds=(-1, 1),
        num_records=200,
        flow=vf.maf(blocks=2, hidden=(4,)),
        base="normal",
        start="none",
        steps=5,
        learning_rate=1e30,
    )
    with pytest.warns(UserWarning, match="training diverged") as caught:
        estimator.fit(rows, progress=False)
    assert caught[0].filename == __file__
