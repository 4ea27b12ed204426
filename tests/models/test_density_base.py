"""Bases that a name stands for: they are standardized, part of the plan, and survive a file."""

import jax
import numpy as np
import pytest

import veilflow as vf
from tests.flat import density_flow
from veilflow.models.density_base import NORMAL, SIMPLE, is_simple, name_of, simple_base

BUDGET = vf.Budget(epsilon=2.0, delta=1e-5)
FAR = 50.0


def fitted(base: str, **changes) -> vf.FittedDensityFlow:
    rows = np.random.default_rng(0).normal(size=(300, 2)) @ np.array([[1.0, 0.5], [0.0, 0.3]])
    settings = {
        "budget": BUDGET,
        "row_norm": 100.0,
        "num_records": len(rows),
        "flow": vf.maf(blocks=1, hidden=(4,)),
        "base": base,
        "steps": 2,
        "seed": 1,
        **changes,
    }
    return density_flow(**settings).fit(rows, progress=False)


@pytest.fixture(scope="module")
def models() -> dict[str, vf.FittedDensityFlow]:
    return {name: fitted(name) for name in SIMPLE}


@pytest.mark.parametrize("name", SIMPLE)
def test_a_base_has_mean_zero_and_variance_one_so_that_whitened_rows_fit_it(name: str):
    base = simple_base(name, 2)
    drawn = np.asarray(jax.vmap(base.sample)(jax.random.split(jax.random.key(0), 100_000)))
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.015)
    np.testing.assert_allclose(drawn.var(axis=0), 1, atol=0.05)


@pytest.mark.parametrize("name", SIMPLE)
def test_names_and_bases_belong_together(name: str):
    base = simple_base(name, 3)
    assert is_simple(base)
    assert name_of(base) == name


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="one of normal, logistic, student, got 'cauchy'"):
        simple_base("cauchy", 2)


@pytest.mark.parametrize("name", SIMPLE)
def test_a_file_keeps_the_base(name: str, models, tmp_path):
    model = models[name]
    model.save(tmp_path / "m.veil")
    again = vf.load(tmp_path / "m.veil")
    assert again.plan == model.plan
    rows = model.sample(50, seed=2)
    np.testing.assert_array_equal(again.log_prob(rows), model.log_prob(rows))


def test_the_base_is_part_of_the_plan_and_of_what_a_checkpoint_belongs_to(models):
    plans = [models[name].plan for name in SIMPLE]
    assert [plan.base for plan in plans] == [None, "logistic", "student"]
    assert len({plan.identity for plan in plans}) == len(SIMPLE)
    # a base is a public choice: it costs nothing
    assert len({plan.ledger.to_json().__repr__() for plan in plans}) == 1


def test_rows_far_out_cost_a_heavy_base_less(models):
    far = np.array([[FAR, 0.0]])
    found = {name: float(models[name].log_prob(far)[0]) for name in SIMPLE}
    assert found[NORMAL] < found["logistic"] < found["student"]
