"""A killed fit goes on with what it had released, and asks nothing of the records a second time."""

import stat
from pathlib import Path

import numpy as np
import pytest

import veilflow as vf
from tests.models.table import small
from tests.models.table.test_privacy import MECHANISMS, same
from veilflow.engine import Checkpoint
from veilflow.models.table import table_plan, warm_start
from veilflow.releases.run import Run

SCHEMA = vf.Schema(
    age=vf.Numeric(17, 90, integer=True, nullable=True),
    gain=vf.Numeric(),
    city=vf.OpenCategorical(nullable=True),
    smoker=vf.Boolean(),
    label="smoker",
)
CLOSED = vf.Schema(
    age=SCHEMA.columns["age"], gain=vf.Numeric(-50, 1000), smoker=vf.Boolean(), label="smoker"
)


def make(**changes):
    """All that a fit may release: a count, values, bounds, histograms, marginals, a training."""
    return small.estimator(**{"schema": SCHEMA, "num_records": None, "seed": None, **changes})


def table(schema: vf.Schema = SCHEMA):
    return small.frame()[list(schema.names)]


class Crash(Exception):
    """In place of a kill."""


def _crash(*_, **__):
    raise Crash


def killed(estimator, rows, path: Path) -> tuple[bytes, bytes]:
    """Fit until a step is written down: the checkpoint before and after it."""
    begun, save = [], Checkpoint.save

    def save_and_stop(self, *args, **kwargs):
        begun.append(self.path.read_bytes())
        save(self, *args, **kwargs)
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Checkpoint.__init__.__kwdefaults__, "seconds", 0.0)
        patch.setattr(Checkpoint, "save", save_and_stop)
        with pytest.raises(Crash):
            estimator.fit(rows, progress=False, checkpoint=path)
    return begun[0], path.read_bytes()


def left(folder: Path, data: bytes, *, step: int) -> Path:
    """A checkpoint as a killed run leaves it."""
    path = folder / "run.checkpoint"
    path.touch(0o600)
    path.write_bytes(data)
    saved = Checkpoint(path).read()
    assert saved is not None
    assert saved.step == step
    return path


@pytest.fixture(scope="module")
def states(tmp_path_factory) -> tuple[bytes, bytes]:
    """Checkpoints of one run: before the first step of its training, and after it."""
    with small.quick():
        return killed(make(), table(), tmp_path_factory.mktemp("run") / "run.checkpoint")


@pytest.fixture
def begun(states, tmp_path) -> Path:
    return left(tmp_path, states[0], step=0)


@pytest.mark.few(1)
@pytest.mark.parametrize("flow", [None, vf.hflow(blocks=1, bins=4, hidden=(8,))], ids=bool)
def test_a_fit_goes_on_to_the_very_same_model(flow, tmp_path):
    settings = {"schema": CLOSED, "num_records": 600, "seed": 3, "warm_start": False}
    settings |= {} if flow is None else {"flow": flow}
    whole = make(**settings).fit(table(CLOSED), progress=False)
    path = tmp_path / "run.checkpoint"
    states = killed(make(**settings), table(CLOSED), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for step, state in enumerate(states):
        path = left(tmp_path, state, step=step)
        again = make(**settings).fit(table(CLOSED), progress=False, checkpoint=path)
        assert same(again.to_artifact(), whole.to_artifact())
        assert not path.exists()


def nothing_again(monkeypatch, *but: str) -> None:
    """From here on a fit fails that asks the records anything but these."""
    for module, name in MECHANISMS:
        if name not in but:
            monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("drawn again"))


@pytest.mark.slow
def test_nothing_is_asked_of_the_records_again(states, tmp_path, monkeypatch):
    nothing_again(monkeypatch, "train")
    monkeypatch.setattr(warm_start, "pretrain", lambda *_, **__: pytest.fail("trained again"))
    # the same model, whether or not a step had been written down
    models = []
    for step, state in enumerate(states):
        path = left(tmp_path, state, step=step)
        models.append(make().fit(table(), progress=False, checkpoint=path))
    assert models[0].plan == make().plan()
    assert same(models[0].to_artifact(), models[1].to_artifact())


def test_a_run_killed_in_its_warm_start_pays_for_no_marginals_again(tmp_path, monkeypatch):
    path = tmp_path / "run.checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(warm_start, "pretrain", _crash)
        with pytest.raises(Crash):
            make().fit(table(), progress=False, checkpoint=path)
    saved = Checkpoint(path).read()
    assert saved is not None
    assert set(saved.context["released"]) == {
        "number of records",
        "values of city",
        "bounds of gain",
        "histograms of columns",
        "details of columns",
        "pairs of columns",
        "histograms of differences",
        "marginals",
    }  # fmt: skip
    nothing_again(monkeypatch, "train")
    model = make().fit(table(), progress=False, checkpoint=path)
    assert model.plan == make().plan()
    assert model.facts["num_records"] == max(1, saved.context["released"]["number of records"])
    assert model.vocabularies["city"] == tuple(saved.context["released"]["values of city"])


def test_other_rows_and_other_settings_are_refused(begun, monkeypatch):
    path, before = begun, begun.read_bytes()
    monkeypatch.setattr(Run, "pay", lambda *_, **__: pytest.fail("noise was reused"))
    moved, word, number = table(), table(), table()
    moved.loc[5, "age"] = 18 if moved.loc[5, "age"] != 18 else 19
    word.loc[5, "city"] = "atlantis"
    number.loc[5, "gain"] += 1e-9
    for rows in (moved, word, number, table().iloc[:-1], table().iloc[::-1]):
        with pytest.raises(vf.PrivacyError, match="another set of records"):
            make().fit(rows, progress=False, checkpoint=path)
    others = (
        {"clip_norm": 0.5},
        {"num_records": 600},
        {"schema": vf.Schema(SCHEMA.columns)},
        {"label_weight": 3.0},
    )
    for change in others:
        with pytest.raises(vf.PrivacyError, match="belongs to other settings"):
            make(**change).fit(table(), progress=False, checkpoint=path)
    # and where other rules of the planner would have drawn the start with other noise
    monkeypatch.setattr(table_plan, "_COLUMNS_SHARE", 0.11)
    with pytest.raises(vf.PrivacyError, match="belongs to other settings"):
        make().fit(table(), progress=False, checkpoint=path)
    assert path.read_bytes() == before


def test_a_checkpoint_holds_releases_and_no_rows(states, begun):
    (word, number), held = small.CANARY, states[1]
    assert b"paris" in held  # which many records share, and which was paid for
    assert word.encode() not in held
    for kind in (np.float32, np.float64):
        assert kind(number).tobytes() not in held
    saved = Checkpoint(begun).read()
    assert saved is not None
    assert set(saved.context) == {"plan", "paid", "released"}
