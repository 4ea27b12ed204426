"""The rehearsal of a mixture: free, from released values alone, and worth its seconds."""

from dataclasses import replace

import numpy as np
import pytest

import veilflow as vf
from veilflow._core.keys import Secret
from veilflow.models import density_parts, rehearsed_mixture
from veilflow.models.estimator import Fit, Source
from veilflow.models.rehearsed_mixture import REHEARSAL
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.em import Mixture
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.training import PrivateTraining

NUM_ROWS, DIM = 1200, 4
DELTA = 1e-5


def rows(seed: int = 0, n: int = NUM_ROWS) -> np.ndarray:
    """Clusters that have one shape."""
    fixed, rng = np.random.default_rng(100), np.random.default_rng(seed)
    centers, shape = 0.5 * fixed.normal(size=(12, DIM)), 0.12 * fixed.normal(size=(DIM, DIM))
    return centers[rng.integers(12, size=n)] + rng.normal(size=(n, DIM)) @ shape


def estimator(epsilon: float = 8.0, **settings) -> vf.DensityFlow:
    training = vf.Training(steps=settings.pop("steps", 5))
    return vf.DensityFlow(
        **{
            "budget": vf.Budget(epsilon=epsilon, delta=DELTA),
            "row_norm": 3.0,
            "num_records": NUM_ROWS,
            "num_components": 12,
            "flow": vf.maf(blocks=1, hidden=(4,)),
            "seed": 2,
            **settings,
        },
        training=training,
    )


def purposes(plan) -> list[str]:
    return [release.purpose for release in plan.releases]


# --- the plan ---


def test_it_comes_between_mixture_and_training_and_costs_nothing():
    plan, without = estimator().plan(DIM), estimator(rehearse=False).plan(DIM)
    assert purposes(plan) == ["mixture", REHEARSAL, "training"]
    assert purposes(without) == ["mixture", "training"]
    assert plan.ledger == without.ledger
    assert plan.guarantee == without.guarantee
    assert plan.identity != without.identity


@pytest.mark.parametrize(
    "settings",
    [
        {"base": "normal", "num_components": None},
        {"start": "actnorm", "num_components": None},
        {"budget": vf.Budget(np.inf, DELTA), "base": "mixture"},
        {"base": vf.BaseMixture.create([1.0], np.zeros((1, DIM)), np.eye(DIM)[None]),
         "num_components": None},
    ],
    ids=["normal", "actnorm", "no privacy", "given"],
)  # fmt: skip
def test_only_private_mixtures_are_rehearsed(settings):
    assert REHEARSAL not in purposes(estimator(**settings).plan(DIM))


def test_a_mixture_that_is_the_whole_model_is_rehearsed():
    mixture_alone = estimator(flow=None, steps=0)
    assert purposes(mixture_alone.plan(DIM)) == ["mixture", REHEARSAL]
    model = mixture_alone.fit(rows(), progress=False)
    assert np.isfinite(model.log_prob(rows(1))).all()


# --- what it reads ---


@pytest.fixture(scope="module")
def started() -> Fit:
    """A fit whose mixture is released."""
    settings = estimator()
    plan, secret = settings.plan(DIM), Secret.from_seed(2)
    fit = Fit(plan, settings.read(rows()), secret)
    release = plan.release(ExpectationMaximization)
    query = settings.query(release, fit)
    from veilflow.releases.release import Tools

    value = release.run(query.records, Tools(secret), **query.known).value
    fit.released[release.purpose] = release.result(value)
    return fit


def made(fit: Fit) -> dict:
    return density_parts.rehearsal_of(fit)(lambda done: None)


def same(one: dict, other: dict) -> bool:
    return all(
        np.array_equal(one["mixture"][name], other["mixture"][name]) for name in one["mixture"]
    ) and all(map(np.array_equal, one["shape"], other["shape"]))


def test_it_is_a_function_of_released_values_and_the_secret(started):
    found = made(started)
    without_records = replace(started, source=Source(Sensitive(None)))
    assert same(made(without_records), found)
    assert not same(made(replace(started, secret=Secret.from_seed(3))), found)


def test_the_query_of_the_fit_has_no_records(started):
    query = estimator().query(started.plan.releases[1], started)
    assert query.records is None
    (fit,) = query.known["make"].args
    assert fit.source.records.open() is None  # a test may look


def test_its_noise_is_not_that_of_the_records(monkeypatch, started):
    """A shape that had seen the very noise of the records' mixture would be trained to undo it."""
    seen: list[Secret] = []
    real = ExpectationMaximization.run

    def run(self, records, tools, **known):
        seen.append(tools.secret)
        return real(self, records, tools, **known)

    monkeypatch.setattr(ExpectationMaximization, "run", run)
    made(started)
    drawn = {secret.words("mixture", 0, 1).tobytes() for secret in [*seen, started.secret]}
    assert len(seen) == 5  # twelve components each, sixty in all
    assert len(drawn) == 6


def test_more_records_than_needed_have_noise_in_proportion(monkeypatch, started):
    monkeypatch.setattr(rehearsed_mixture, "_MOST_ROWS", NUM_ROWS // 4)
    noises, sizes = [], []
    real = ExpectationMaximization.run

    def run(self, records, tools, **known):
        noises.append(self.noise_multiplier)
        sizes.append(len(records.open()))
        return real(self, records, tools, **known)

    monkeypatch.setattr(ExpectationMaximization, "run", run)
    made(started)
    release = started.plan.release(ExpectationMaximization)
    assert set(sizes) == {NUM_ROWS // 4}
    np.testing.assert_allclose(noises, release.noise_multiplier / 4)


def test_few_records_and_a_paid_count_of_none_are_no_problem(started):
    mixture, _ = started.released["mixture"]
    release = started.plan.release(ExpectationMaximization)
    for count in (0, 1):
        value = rehearsed_mixture.rehearsed(
            mixture, None, release, count, Secret.from_seed(0), lambda done: None
        )
        assert np.isfinite(Mixture(**value["mixture"]).factors).all()


# --- what it is good for ---


def test_fresh_rows_are_more_likely(monkeypatch):
    fresh, gains = rows(9, 3000), []
    for seed in (1, 2, 3):
        settings = {"epsilon": 2.0, "flow": None, "steps": 0, "seed": seed}
        plain, better = (
            estimator(**settings, rehearse=wish).fit(rows(seed), progress=False)
            for wish in (False, True)
        )
        gains.append(np.mean(better.log_prob(fresh)) - np.mean(plain.log_prob(fresh)))
    assert np.mean(gains) > 0.02


def test_the_training_starts_from_the_prepared_shape(started):
    found = made(started)
    fit = replace(started, released={**started.released, REHEARSAL: found})
    settings = estimator()
    task = settings.query(started.plan.release(PrivateTraining), fit).known["task"]
    base = task.model.mixture
    np.testing.assert_allclose(np.exp(base.log_weights), found["mixture"]["weights"], rtol=1e-5)
    from veilflow.releases.training import arrays_of

    for one, other in zip(arrays_of(task.model.shape), found["shape"], strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_interrupted_fit_does_not_rehearse_again(tmp_path, monkeypatch):
    path = tmp_path / "run"

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PrivateTraining, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            estimator().fit(rows(), progress=False, checkpoint=path)
    monkeypatch.setattr(rehearsed_mixture, "_twins", stop)
    resumed = estimator().fit(rows(), progress=False, checkpoint=path)
    monkeypatch.undo()
    whole = estimator().fit(rows(), progress=False)
    np.testing.assert_allclose(resumed.log_prob(rows(5)), whole.log_prob(rows(5)), rtol=1e-4)
