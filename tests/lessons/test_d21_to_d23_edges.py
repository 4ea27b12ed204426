"""Lessons about what escapes, files that run code, and settings that switch the noise off."""

import ast
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilflow as vf
from tests.hostile import mutate
from tests.hostile.hunt import Loader, hunt, watched
from tests.lessons import small
from veilflow.engine import Flat, TrainingPlan
from veilflow.images import read_images
from veilflow.privacy import accounting
from veilflow.privacy.events import ApproximateDP, Gaussian, NonPrivate, PoissonSampled, PureDP
from veilflow.privacy.ledger import Ledger
from veilflow.tabular.io import read_rows

SOURCE = Path(vf.__file__).parent


def test_d21_nothing_of_single_records_is_in_what_a_fit_returns():
    model = small.fitted()
    artifact = model.to_artifact()
    for name, array in artifact.arrays.items():
        assert len(small.TABLE) not in np.shape(array), name
    words = " ".join((*artifact.manifest, *artifact.arrays, *vars(model))).lower()
    assert not any(bad in words for bad in ("loss", "norms", "gradient"))
    shown = repr(model)
    assert not any(f"{cell:.3f}" in shown for cell in small.TABLE.ravel())


class Bomb:
    """What a pickle may hold: a call."""

    def __reduce__(self):
        return (Path.touch, (Path("ran"),))


@pytest.mark.parametrize("name", ["m.veil", "rows.npy", "rows.npz", "images.npy"])
def test_d22_a_pickle_is_never_opened(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    if name == "m.veil":
        path.write_bytes(pickle.dumps(Bomb()))
    elif name.endswith(".npz"):
        np.savez(path, x=np.array([[Bomb()]], object))
    else:
        np.save(path, np.array([[Bomb()]], object))
    read = {"m.veil": vf.load, "images.npy": _read_images}.get(name, read_rows)
    with watched(tmp_path) as seen, pytest.raises((vf.ArtifactError, ValueError)):
        read(path)
    assert seen == []
    assert not (tmp_path / "ran").exists()


def test_d22_no_module_knows_how_to_unpickle():
    forbidden = {"pickle", "cloudpickle", "joblib", "dill", "marshal", "shelve", "torch"}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path
            assert not {name.split(".")[0] for name in names} & forbidden, path


def test_d22_damaged_model_files_are_refused(tmp_path):
    path = tmp_path / "m.veil"
    small.fitted().save(path)
    (tmp_path / "hunt").mkdir()
    loader = Loader(vf.load, (path.read_bytes(),), mutate.of_bytes, (vf.ArtifactError,), "m.veil")
    found = hunt(loader, tmp_path / "hunt", count=200, seed=22)
    assert found.clean, found
    assert found.loaded < 100


NOT_POSITIVE = st.floats(max_value=0) | st.just(math.nan) | st.integers(max_value=0)


@given(NOT_POSITIVE | st.just(math.inf))
def test_d23_noise_of_zero_or_less_is_refused_everywhere(noise):
    with pytest.raises((ValueError, TypeError)):
        Gaussian(noise)
    with pytest.raises((ValueError, TypeError)):
        TrainingPlan(
            clipping=Flat(1.0),
            noise_multiplier=noise,
            sampling_rate=0.1,
            expected_batch_size=10,
            steps=3,
        )


@given(NOT_POSITIVE)
def test_d23_an_epsilon_of_zero_or_less_switches_nothing_off(epsilon):
    for make in (
        lambda: vf.Budget(epsilon, 1e-6),
        lambda: PureDP(epsilon),
        lambda: ApproximateDP(epsilon, 1e-6),
    ):
        try:
            made = make()
        except (ValueError, TypeError):
            continue
        # a release that tells nothing is allowed to cost nothing
        assert epsilon == 0
        assert isinstance(made, ApproximateDP | PureDP)


@given(
    st.floats(1e-4, 1.0),
    st.floats(0.2, 50.0),
    st.integers(1, 200),
    st.floats(1e-12, 0.1),
)
def test_d23_no_setting_is_free_or_below_zero(rate, noise, steps, delta):
    event = PoissonSampled(rate, Gaussian(noise))
    epsilon = accounting.get("rdp").epsilon([event] * steps, delta=delta)
    assert epsilon >= 0
    assert not math.isnan(epsilon)


def test_d23_a_run_without_privacy_costs_infinity_and_says_so():
    plan = small.plan(private=False, noise_multiplier=0)
    assert plan.event == NonPrivate()
    ledger = Ledger().spend(plan.event, purpose="training")
    assert ledger.epsilon(delta=1e-6) == math.inf
    assert ledger.guarantee(delta=1e-6).to_json()["epsilon"] == "inf"
    with pytest.warns(vf.NotPrivateWarning):
        small.estimator(budget=vf.Budget(math.inf, 0.0), sampling_rate=0.5).fit(
            small.TABLE, progress=False
        )


def _read_images(path):
    return read_images(path, vf.ImageSpec(height=1, width=1))
