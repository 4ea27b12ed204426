"""The model of docs/developer/adding_a_model.md as it stands: short, private, resumable, saved."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import veilflow as vf
from veilflow.models import registry
from veilflow.releases.run import Run

PAGE = Path(__file__).parents[2] / "docs" / "developer" / "adding_a_model.md"
ROWS = np.random.default_rng(0).multivariate_normal([0, 1], [[1, 0.5], [0.5, 1]], 20_000)


@pytest.fixture(scope="module")
def toy():
    """The page's code as a module, and its model known to files."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    module = types.ModuleType("toy_gaussian")
    sys.modules["toy_gaussian"] = module
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    registry._MODELS["PrivateGaussian"] = ("toy_gaussian", "FittedGaussian")
    yield module
    del registry._MODELS["PrivateGaussian"], sys.modules["toy_gaussian"]


def estimator(toy, **settings):
    usual = {"budget": vf.Budget(1.0, 1e-6), "bounds": (-6, 6), "seed": 1}
    return toy.PrivateGaussian(**{**usual, **settings})


def test_the_model_is_short():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    body = code[code.index("@dataclass") :]
    assert sum(bool(line.strip()) for line in body.splitlines()) <= 60


def test_it_learns_the_rows_within_its_budget(toy, tmp_path):
    model = estimator(toy).fit(ROWS, progress=False)
    assert model.plan == estimator(toy).plan(2)
    assert 0.99 < model.guarantee.epsilon <= 1.0
    best = -np.log(2 * np.pi) - 0.5 * np.log(0.75) - 1
    assert model.log_prob(ROWS).mean() > best - 0.05
    np.testing.assert_allclose(model.sample(20_000, seed=0).mean(0), [0, 1], atol=0.1)
    model.save(tmp_path / "m.veil")
    again = vf.load(tmp_path / "m.veil")
    assert (again.plan, again.guarantee) == (model.plan, model.guarantee)
    np.testing.assert_array_equal(again.log_prob(ROWS[:9]), model.log_prob(ROWS[:9]))


def test_it_resumes_and_pays_once(toy, tmp_path, monkeypatch):
    whole = estimator(toy).fit(ROWS, progress=False)
    with monkeypatch.context() as patched:
        patched.setattr(Run, "finish", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            estimator(toy).fit(ROWS, progress=False, checkpoint=tmp_path / "run")
    monkeypatch.setattr(type(whole.plan.releases[0]), "run", lambda *_, **__: pytest.fail("again"))
    again = estimator(toy).fit(ROWS, progress=False, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(again.moments[0], whole.moments[0])
