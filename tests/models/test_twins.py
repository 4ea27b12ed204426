"""Twins: rows of a released start, with its moments and something to learn."""

import numpy as np
import pytest

import veilflow as vf
from veilflow.models.twins import KINDS, Start

BOUNDS = ((-12.0, -6.0, -6.0), (12.0, 6.0, 6.0))
NUM_ROWS = 20_000


@pytest.fixture(scope="module")
def mixture() -> vf.FittedMixtureDensity:
    rng = np.random.default_rng(3)
    centers = np.array([[-3.0, 0.0, 1.0], [3.0, 1.0, -1.0]])[rng.integers(0, 2, 3000)]
    rows = centers + rng.normal(size=(3000, 3)) * [0.6, 0.4, 0.3]
    return vf.MixtureDensity(
        budget=vf.Budget(epsilon=8.0, delta=1e-5), bounds=BOUNDS, num_components=2, steps=8
    ).fit(rows, progress=False)


@pytest.fixture(scope="module")
def twins(mixture) -> dict[str, np.ndarray]:
    return {kind: Start.of(mixture).twin(kind, NUM_ROWS, seed=1) for kind in KINDS}


def moments_of_start(mixture) -> tuple[np.ndarray, np.ndarray]:
    rows = mixture.sample(200_000, seed=5)
    return rows.mean(axis=0), np.cov(rows.T)


@pytest.mark.parametrize("kind", KINDS)
def test_a_twin_has_the_mean_and_covariance_of_its_start(kind: str, mixture, twins):
    mean, covariance = moments_of_start(mixture)
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((twins[kind].mean(axis=0) - mean) / spread, 0, atol=0.05)
    off = (np.cov(twins[kind].T) - covariance) / np.outer(spread, spread)
    np.testing.assert_allclose(off, 0, atol=0.06)


@pytest.mark.parametrize("kind", KINDS)
def test_a_twin_has_something_to_learn_that_rows_of_the_start_have_not(kind: str, mixture, twins):
    """Under the start, its own rows are exactly as likely as it thinks, and a twin's are not."""
    own = mixture.log_prob(mixture.sample(NUM_ROWS, seed=6))
    other = mixture.log_prob(twins[kind])
    error = own.std() / NUM_ROWS**0.5
    same = np.histogram(own, bins=(bins := np.quantile(own, np.linspace(0, 1, 21))))[0]
    found = np.histogram(np.clip(other, bins[0], bins[-1]), bins=bins)[0]
    distance = 0.5 * np.abs(found - same).sum() / NUM_ROWS
    assert distance > 0.04 or abs(own.mean() - other.mean()) > 6 * error


@pytest.mark.parametrize("kind", KINDS)
def test_a_twin_stays_in_the_domain(kind: str, twins):
    low, high = np.array(BOUNDS)
    assert np.isfinite(twins[kind]).all()
    assert (twins[kind] >= low).all()
    assert (twins[kind] <= high).all()


def test_a_seed_decides_a_twin_and_kinds_differ(mixture, twins):
    start = Start.of(mixture)
    np.testing.assert_array_equal(start.twin("bent", NUM_ROWS, seed=1), twins["bent"])
    assert not np.array_equal(start.twin("bent", NUM_ROWS, seed=2), twins["bent"])
    assert not np.array_equal(twins["flow"], twins["sheet"])


def test_a_twin_is_a_function_of_the_published_file_alone(mixture, twins, tmp_path):
    mixture.save(tmp_path / "m.veil")
    again = Start.of(vf.load(tmp_path / "m.veil"))
    np.testing.assert_array_equal(again.twin("sheet", NUM_ROWS, seed=1), twins["sheet"])


def flow(rows: np.ndarray, **settings) -> vf.FittedDensityFlow:
    plain = {"budget": vf.Budget(epsilon=4.0, delta=1e-5), "num_records": len(rows), "seed": 1}
    return vf.DensityFlow(**{**plain, **settings}).fit(rows, progress=False)


SKEWED = np.random.default_rng(0).gamma(2.0, size=(2000, 4)) @ np.triu(np.full((4, 4), 0.7))
SMALL = {"flow": vf.maf(blocks=1, hidden=(4,))}


@pytest.mark.parametrize(
    "settings",
    [
        {"bounds": (0, 40), "num_components": 2, "training": vf.Training(steps=2), **SMALL},
        {"bounds": (0, 40), "base": "normal", "training": vf.Training(steps=2), **SMALL},
        {"row_norm": 60.0, "base": "normal", "training": vf.Training(steps=2), **SMALL},
        {"bounds": (0, 40), "num_components": 2, "training": vf.Training(steps=0)},
    ],
    ids=["shape", "flow in a box", "flow in a ball", "mixture"],
)
def test_twins_of_flows_are_pushed_through_the_released_maps(settings: dict):
    """What was trained is left out, and the marginals of the records come back."""
    model = flow(SKEWED, **settings)
    for kind in KINDS:
        twin = Start.of(model).twin(kind, 4000, seed=0)
        for column in range(4):
            ours, theirs = (np.quantile(x[:, column], [0.2, 0.5, 0.8]) for x in (twin, SKEWED))
            np.testing.assert_allclose(ours, theirs, atol=0.45 * SKEWED[:, column].std())


def test_a_grid_in_the_plane_has_modes_too():
    model = flow(SKEWED[:, :2], bounds=(0, 40))
    assert model.plan.start == "grid"
    twin = Start.of(model).twin("bent", 2000, seed=0)
    np.testing.assert_allclose(twin.mean(axis=0), SKEWED[:, :2].mean(axis=0), atol=1.0)


def test_kinds_and_sizes_are_checked(mixture):
    start = Start.of(mixture)
    with pytest.raises(ValueError, match="kind must be one of"):
        start.twin("round", 10, seed=0)
    with pytest.raises(ValueError, match="num_rows must be at least 1"):
        start.twin("bent", 0, seed=0)
