"""A flow over a mixture that is known before the fit: nothing is paid for it, and the claim says so."""

import dataclasses
import json
import math

import numpy as np
import pytest

import veilflow as vf
from tests.flat import density_flow
from veilflow._core.codec import plain, restored
from veilflow.models.base_mixture import BaseMixture
from veilflow.privacy.assumptions import Conditional, Declared, conditions
from veilflow.releases.count import Count
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import SLACK, FitPlan
from veilflow.releases.training import PrivateTraining
from veilflow.reports.card import release_card

BUDGET = vf.Budget(epsilon=2.0, delta=1e-5)
NUM_ROWS = 400
BOUNDS = ((-4.0, -2.0), (4.0, 3.0))
CENTERS = np.array([[-2.0, 0.0], [2.0, 1.0]])
COVARIANCES = np.array([[[0.2, 0.05], [0.05, 0.1]], [[0.1, 0.0], [0.0, 0.3]]])
openly = pytest.mark.filterwarnings("ignore::veilflow.NotPrivateWarning")


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return CENTERS[rng.integers(0, 2, NUM_ROWS)] + 0.4 * rng.normal(size=(NUM_ROWS, 2))


def mixture(**changes) -> vf.FittedMixtureDensity:
    settings = {"budget": BUDGET, "bounds": BOUNDS, "num_components": 2, "steps": 4, **changes}
    return vf.MixtureDensity(**settings).fit(rows(), progress=False)


def over(base, **changes) -> vf.DensityFlow:
    settings = {
        "budget": BUDGET,
        "bounds": BOUNDS,
        "num_records": NUM_ROWS,
        "flow": vf.maf(blocks=1, hidden=(4,)),
        "steps": 3,
        "base": base,
    }
    return density_flow(**{**settings, **changes})


@pytest.fixture(scope="module")
def private() -> vf.FittedMixtureDensity:
    return mixture()


@pytest.fixture(scope="module")
def open_fit() -> vf.FittedMixtureDensity:
    with pytest.warns(vf.NotPrivateWarning):
        return mixture(budget=vf.Budget(math.inf, 1e-5))


@pytest.fixture(scope="module")
def by_hand() -> BaseMixture:
    return vf.BaseMixture.create([0.5, 0.5], CENTERS, COVARIANCES)


def moved() -> BaseMixture:
    """Hardly another mixture than the one by hand."""
    return vf.BaseMixture.create([0.5, 0.5], CENTERS + 1e-9, COVARIANCES)


@pytest.fixture(scope="module")
def fitted(private) -> vf.FittedDensityFlow:
    return over(private).fit(rows(), progress=False)


# -- the plan --------------------------------------------------------------------------------------


def test_all_of_the_budget_is_spent_on_training(private):
    plan = over(private).plan(2)
    assert plan.release(ExpectationMaximization) is None
    assert plan.start == "none"
    assert [one.purpose for one in plan.ledger.entries] == ["training", SLACK]
    assert 0.995 * BUDGET.epsilon < plan.guarantee.epsilon <= BUDGET.epsilon
    # as much as where a flow starts from nothing
    noise = over("normal", start="none").plan(2).release(PrivateTraining).noise_multiplier
    assert plan.release(PrivateTraining).noise_multiplier == noise


def test_the_steps_of_a_shape_are_longer_where_all_of_the_budget_is_spent_on_it(private):
    whole, part = (
        over(base, num_records=5000, start="none").plan(2).release(PrivateTraining).settings
        for base in (private, "mixture")
    )
    # the rate grows with the 5/4th power of mu, and 3 % of the squared mu are usual
    assert whole.learning_rate == pytest.approx(0.03 ** (-0.5 * 1.25) * part.learning_rate)
    assert dataclasses.replace(whole, learning_rate=part.learning_rate) == part


def test_a_count_is_paid_for_where_the_number_of_records_is_not_declared(private):
    plan = over(private, num_records=None).plan(2)
    assert [type(one) for one in plan.releases] == [Count, PrivateTraining]
    assert 0.995 * BUDGET.epsilon < plan.guarantee.epsilon <= BUDGET.epsilon


def test_a_plan_is_bound_to_the_values_of_its_base(private, by_hand):
    plan = over(private).plan(2)
    assert restored(FitPlan, json.loads(json.dumps(plain(plan)))) == plan
    assert over(private).plan() == plan
    others = [over(base).plan(2) for base in (by_hand, moved())]
    assert len({one.identity for one in (plan, *others)}) == 3


def test_a_checkpoint_of_another_base_is_refused(by_hand, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    checkpoint = tmp_path / "run.ckpt"
    with monkeypatch.context() as patched:
        patched.setattr("veilflow.releases.training.train", stop)
        with pytest.raises(KeyboardInterrupt):
            over(by_hand).fit(rows(), progress=False, checkpoint=checkpoint)
    with pytest.raises(vf.PrivacyError, match="checkpoint"):
        over(moved()).fit(rows(), progress=False, checkpoint=checkpoint)


# -- what the guarantee says -----------------------------------------------------------------------


def test_a_private_base_is_a_condition_that_names_its_price_wherever_the_claim_goes(
    private, fitted, tmp_path
):
    (condition,) = conditions(fitted.guarantee.assumptions)
    assert isinstance(condition, Conditional)
    assert condition.sentence == (
        "the base mixture was declared public: if it was fitted to the same records, its own "
        f"guarantee, epsilon {private.guarantee.epsilon:.4g} and delta 1e-05 with its own "
        "assumptions, must be added to this one"
    )
    fitted.save(tmp_path / "m.veil")
    loaded = vf.load(tmp_path / "m.veil")
    assert condition in loaded.guarantee.assumptions
    assert condition.sentence in repr(fitted)
    assert condition.sentence in repr(loaded)
    assert condition.sentence in json.dumps(release_card(loaded).to_json())


def test_a_base_without_privacy_is_declared_public(open_fit):
    assumptions = over(open_fit).plan(2).guarantee.assumptions
    assert Declared(("bounds", "the base mixture", "the number of records")) in assumptions
    (condition,) = conditions(assumptions)
    assert str(condition) == "the base mixture was fitted without privacy, to rows that are public"


def test_declared_values_are_a_declared_fact_like_the_bounds(by_hand):
    assumptions = over(by_hand).plan(2).guarantee.assumptions
    assert Declared(("bounds", "the base mixture", "the number of records")) in assumptions
    assert conditions(assumptions) == ()


# -- the model -------------------------------------------------------------------------------------


def test_the_model_is_the_same_after_a_file(fitted, tmp_path):
    assert np.isfinite(fitted.log_prob(rows())).all()
    sample = fitted.sample(50, seed=1)
    assert np.isfinite(sample).all()
    fitted.save(tmp_path / "m.veil")
    loaded = vf.load(tmp_path / "m.veil")
    assert loaded.plan == fitted.plan
    assert np.array_equal(loaded.log_prob(rows()), fitted.log_prob(rows()))
    assert np.array_equal(loaded.sample(50, seed=1), sample)


def test_components_stay_where_the_base_has_them(private, fitted):
    assert np.array_equal(fitted.flow.base.mixture.means, private.density.means)
    held = fitted.flow.base.mixture.factors
    assert np.allclose(held, private.density.factors, rtol=1e-5, atol=1e-6)


def test_declared_values_are_in_the_units_of_the_data(by_hand):
    domain = over(by_hand).domain
    inside = by_hand.within(domain)
    assert np.allclose(domain.decode(np.asarray(inside.means)), CENTERS, atol=1e-6)
    factors = domain.scale[:, None] * np.asarray(inside.factors)
    assert np.allclose(factors @ np.swapaxes(factors, 1, 2), COVARIANCES, atol=1e-6)


@openly
def test_a_fit_without_privacy_takes_a_base_too(by_hand):
    model = over(by_hand, budget=vf.Budget(math.inf, 1e-5)).fit(rows(), progress=False)
    assert not model.guarantee.private
    assert np.isfinite(model.log_prob(rows())).all()


def test_settings_with_a_base_are_values(private):
    assert over(private) == over(private)
    assert len({over(private), over(private)}) == 1
    again = dataclasses.replace(over(private), num_records=500)
    assert again.base == over(private).base
    assert "base=BaseMixture(components: 2, columns: 2)" in repr(again)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bounds": ([0] * 3, [1] * 3)}, "a mixture of 2 columns, and there are 3 here"),
        ({"bounds": (0, 1)}, "fitted in another domain: Box"),
        ({"bounds": None, "row_norm": 5.0}, "fitted in another domain: .* and here it is Ball"),
        ({"num_components": 2}, "num_components=2 is for a base by private EM, .* has 2 already"),
        ({"start": "columns"}, "start='columns' would move the rows"),
        ({"start": "actnorm"}, "start='actnorm' would move the rows"),
        ({"start": "grid"}, "start='grid' would move the rows"),
        ({"steps": 0, "flow": None}, "steps=0 leaves nothing to fit"),
    ],
    ids=str,
)
def test_what_does_not_go_with_a_base_is_refused(private, changes, message):
    with pytest.raises(ValueError, match=message):
        over(private, **changes)


def test_rows_with_another_number_of_columns_are_refused_before_anything_is_spent():
    one = vf.BaseMixture.create([1.0], [[0.5, 0.5]], [np.eye(2)])
    with pytest.raises(ValueError, match="a mixture of 2 columns, and there are 3 here"):
        over(one, bounds=(0, 1)).fit(np.full((5, 3), 0.5), progress=False)


@pytest.mark.parametrize("wrong", [3, None, np.zeros(2), vf.maf()], ids=lambda x: type(x).__name__)
def test_what_is_no_mixture_is_refused(wrong):
    with pytest.raises(TypeError, match=r"base must be a word, a fitted mixture .* got"):
        over(wrong)


def test_a_density_in_flow_coordinates_is_no_base(private, fitted):
    for wrong in (private.density, fitted):
        with pytest.raises(TypeError, match="a fitted mixture as MixtureDensity"):
            over(wrong)


def test_bounds_for_all_columns_are_bounds_for_each():
    base = mixture(bounds=(-4, 4))
    assert over(base, bounds=([-4, -4], [4, 4])).plan().dim == 2


def test_declared_values_are_checked():
    with pytest.raises(ValueError, match="weights must sum to 1"):
        vf.BaseMixture.create([0.5, 0.2], CENTERS, COVARIANCES)
    with pytest.raises(ValueError, match="must be positive definite"):
        vf.BaseMixture.create([0.5, 0.5], CENTERS, -COVARIANCES)
