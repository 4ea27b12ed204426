"""Files in which someone changed an array: refused, or the same model as before."""

import dataclasses
import math

import jax
import numpy as np
import pytest

import veilflow as vf
from veilflow.flows import FixedLinear, GaussianMixture, Histogram, PiecewiseLinear
from veilflow.models import registry

BUDGET = vf.Budget(epsilon=2.0, delta=1e-5)
ROWS = np.random.default_rng(0).uniform(-1, 1, size=(80, 4))


def untrained(**settings) -> vf.FittedDensityFlow:
    estimator = vf.DensityFlow(
        budget=BUDGET,
        bounds=(-1, 1),
        num_records=80,
        training=vf.Training(steps=0),
        seed=1,
        **settings,
    )
    return estimator.fit(ROWS, progress=False)


@pytest.fixture(scope="module")
def columns() -> vf.FittedDensityFlow:
    """With marginals and a mixture as base."""
    return untrained()


@pytest.fixture(scope="module")
def whitened() -> vf.FittedDensityFlow:
    """With a linear map and a mixture as base."""
    return untrained(start="whitening")


@pytest.fixture(scope="module")
def shaped() -> vf.FittedDensityFlow:
    """With a mixture inside a base that was trained."""
    estimator = vf.DensityFlow(
        budget=BUDGET,
        bounds=(-1, 1),
        num_records=80,
        flow=vf.nsf(blocks=1, hidden=(2,), num_bins=2),
        training=vf.Training(steps=1),
    )
    return estimator.fit(ROWS, progress=False)


@pytest.fixture(scope="module")
def gridded() -> vf.FittedDensityFlow:
    estimator = vf.DensityFlow(budget=BUDGET, bounds=(-1, 1), num_records=80)
    return estimator.fit(ROWS[:, :2], progress=False)


def named(model: vf.FittedDensityFlow) -> dict[str, str]:
    """From the field of a module to its array's name in the file."""
    leaves = jax.tree_util.tree_leaves_with_path(model.flow)
    return {
        jax.tree_util.keystr(path).rsplit(".", 1)[-1]: jax.tree_util.keystr(path)
        for path, _ in leaves
    }


def doctored(model: vf.FittedDensityFlow, field: str, change) -> vf.FittedDensityFlow:
    whole, name = model.to_artifact(), named(model)[field]
    array = np.array(whole.arrays[name])
    change(array)
    return registry.from_artifact(
        dataclasses.replace(whole, arrays={**whole.arrays, name: np.float32(array)})
    )


def scaled(array: np.ndarray) -> None:
    array *= 1.01


def shifted(array: np.ndarray) -> None:
    array += 0.01


def first(value: float):
    def change(array: np.ndarray) -> None:
        array.flat[0] = value

    return change


def above_the_diagonal(array: np.ndarray) -> None:
    array[..., 0, -1] = 0.5


def swapped(array: np.ndarray) -> None:
    array[..., [0, 1]] = array[..., [1, 0]]


@pytest.mark.parametrize(
    ("fit", "field", "change"),
    [
        ("columns", "log_weights", shifted),
        ("columns", "log_weights", first(80.0)),
        ("columns", "inverse_factors", above_the_diagonal),
        ("columns", "inverse_factors", first(-1.0)),
        ("columns", "inverse_factors", first(0.0)),
        ("columns", "slopes", scaled),
        ("columns", "slopes", first(-1.0)),
        ("columns", "values", scaled),
        ("columns", "values", first(9.0)),
        ("columns", "values", swapped),
        ("whitened", "factor", above_the_diagonal),
        ("whitened", "factor", first(-1.0)),
        ("shaped", "log_weights", shifted),
        ("shaped", "inverse_factors", above_the_diagonal),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(fit, field, change, request):
    with pytest.raises(vf.ArtifactError, match="do not make a DensityFlow"):
        doctored(request.getfixturevalue(fit), field, change)


@pytest.mark.parametrize("change", [shifted, first(5.0)])
def test_masses_that_are_no_density_are_refused(gridded, change):
    with pytest.raises(vf.ArtifactError, match="do not make a DensityFlow"):
        doctored(gridded, "log_mass", change)


@pytest.mark.parametrize(
    ("fit", "field"),
    [("whitened", "log_det"), ("columns", "factors"), ("shaped", "factors"), ("gridded", "up_to")],
)
def test_what_follows_from_other_arrays_is_not_taken_from_the_file(fit, field, request):
    model = request.getfixturevalue(fit)
    rows = ROWS[:, : model.dim]
    for change in (scaled, shifted, first(-3.0)):
        again = doctored(model, field, change)
        np.testing.assert_array_equal(again.log_prob(rows), model.log_prob(rows))
        np.testing.assert_array_equal(again.sample(50, seed=0), model.sample(50, seed=0))


def test_another_border_than_that_of_the_domain_is_refused(gridded):
    whole = gridded.to_artifact()
    assembly = {**whole.schema["assembly"], "border": 2.0}
    with pytest.raises(vf.ArtifactError, match="do not make a DensityFlow"):
        registry.from_artifact(
            dataclasses.replace(whole, schema={**whole.schema, "assembly": assembly})
        )


def test_every_released_part_was_looked_at(columns, whitened, gridded):
    parts = (FixedLinear, GaussianMixture, Histogram, PiecewiseLinear)
    found = {
        type(part)
        for model in (columns, whitened, gridded)
        for part in jax.tree.leaves(model.flow, is_leaf=lambda x: isinstance(x, parts))
    }
    assert found == set(parts)


def test_restored_parts_are_what_they_were():
    rng = np.random.default_rng(0)
    factors = np.tril(rng.normal(size=(3, 4, 4))) + 2 * np.eye(4)
    mass = rng.uniform(0.1, 1, size=(8, 8))
    for part in (
        GaussianMixture.create([0.2, 0.3, 0.5], np.zeros((3, 4)), factors @ factors.mT),
        Histogram.create(mass / mass.sum(), border=math.sqrt(3)),
        FixedLinear(factor=np.eye(4) / 3, shift=np.ones(4)),
        PiecewiseLinear.create(np.cumsum(rng.uniform(1e-6, 1, (3, 512)), axis=1), border=2.0),
    ):
        jax.tree.map(np.testing.assert_array_equal, part.restored(), part)
