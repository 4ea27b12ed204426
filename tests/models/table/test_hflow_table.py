"""Tables with the paper's flow: ranks of numbers, settings of its own, the same files and promises."""

import dataclasses
import itertools
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from veilflow._core import codec
from veilflow.engine.training import CLIPPINGS
from veilflow.flows import Continuous, Listed
from veilflow.models import registry
from veilflow.models.table import warm_start
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.models.table.coder import CodedColumn, Coder, bins_of
from veilflow.models.table.hflow_density import HFlowDensity, Ranks
from veilflow.releases.table.cells import cells_of
from veilflow.releases.training import PrivateTraining
from veilflow.tabular.codec import EncodedRows

BUDGET = vf.Budget(epsilon=2.0, delta=1e-5)
FREE = vf.Budget(epsilon=float("inf"), delta=1e-5)
N = 300
SCHEMA = vf.Schema(
    size=vf.Numeric(0, 9, integer=True),
    kind=vf.Categorical("a", "b", "c"),
    gap=vf.Numeric(0, 2, integer=True, nullable=True),
)
SMALL = vf.hflow(blocks=2, bins=4, hidden=(8,))
TRAINING = {field.name for field in dataclasses.fields(vf.Training)}


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    """`kind` follows from `size`; most of `size` is one value; a third of `gap` is missing."""
    rng = np.random.default_rng(seed)
    size = np.where(rng.uniform(size=n) < 0.5, 3, rng.integers(0, 10, n))
    gap = pd.Series(np.where(rng.uniform(size=n) < 1 / 3, np.nan, rng.integers(0, 3, n)))
    kind = np.array(["a", "b", "c"])[np.where(size < 3, 0, np.where(size < 6, 1, 2))]
    return pd.DataFrame({"size": size, "kind": kind, "gap": gap.astype("Int64")})


def estimator(**settings: Any) -> vf.TableFlow:
    given = {"schema": SCHEMA, "budget": BUDGET, "num_records": N, "flow": SMALL, "seed": 1}
    given |= {"warm_start": False, **settings}
    training = {name: given.pop(name) for name in TRAINING & set(given)}
    return vf.TableFlow(**given, training=vf.Training(**{"steps": 5, **training}))


@pytest.fixture(scope="module")
def private() -> vf.FittedTableFlow:
    return estimator(clipping="per-unit").fit(rows(N), progress=False)


@pytest.fixture(scope="module")
def learned() -> vf.FittedTableFlow:
    settings = {"budget": FREE, "num_records": 2000, "steps": 400, "learning_rate": 0.01}
    with pytest.warns(vf.NotPrivateWarning):
        return estimator(**settings).fit(rows(2000), progress=False)


# --- settings


def test_settings_go_to_json_and_back():
    made = vf.hflow(blocks=2, hidden=[16], linear="lu", dequantization="variational")
    assert codec.restored(HFlowArchitecture, codec.plain(made)) == made
    assert made.hidden == (16,)


@pytest.mark.parametrize(
    "bad",
    [
        {"blocks": 0},
        {"bins": 1},
        {"hidden": (0,)},
        {"hidden": 64},
        {"linear": "full"},
        {"network": "one"},
        {"dequantization": "none"},
        {"rank": 0},
        {"blocks": 10**9},
        {"hidden": (10**9,)},
    ],
)
def test_bad_sizes_are_refused(bad: dict[str, Any]):
    with pytest.raises((TypeError, ValueError), match="must be"):
        vf.hflow(**bad)


@pytest.mark.parametrize("change", [{"more": 1}, {"blocks": None}])
def test_json_must_hold_all_settings_and_no_other(change: dict[str, Any]):
    with pytest.raises((TypeError, ValueError)):
        codec.restored(HFlowArchitecture, {**codec.plain(SMALL), **change})
    with pytest.raises(ValueError, match="no other"):
        codec.restored(HFlowArchitecture, {"blocks": 2})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flow": vf.hflow(rank=5)}, "the 4 variables"),  # the number with gaps is two of them
        ({"clipping": "hard"}, "clipping must be one of"),
        ({"sparsity": 1.0}, "sparsity must be"),
        ({"optimizer": "lion"}, "optimizer must be one of"),
    ],
)
def test_settings_are_refused_before_there_is_data(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        estimator(**settings)


def test_a_flow_of_another_estimator_is_refused():
    with pytest.raises(TypeError, match=r"vf\.hflow"):
        estimator(flow=vf.maf())


@pytest.mark.parametrize("name", CLIPPINGS)
def test_a_record_adds_at_most_the_clip_norm_whatever_the_clipping(name: str):
    plan = estimator(clip_norm=0.7, clipping=name, sparsity=0.3).plan()
    training = plan.release(PrivateTraining).plan(num_records=N)
    assert training.clipping.sensitivity == 0.7


def test_each_flow_has_its_own_defaults_and_codes_keep_theirs():
    def trained(**settings: Any) -> vf.Training:
        return estimator(**settings).plan().release(PrivateTraining).settings

    codes, paper = trained(flow=None), trained()
    assert (codes.clipping, codes.optimizer, codes.learning_rate) == ("flat", "adam", 4e-3)
    assert (paper.clipping, paper.optimizer, paper.learning_rate) == ("flat", "adabelief", 4e-3)
    assert estimator().plan().flow.hidden == SMALL.hidden
    assert trained(warm_start=True).learning_rate < paper.learning_rate
    assert trained(optimizer="sgd").optimizer == "sgd"
    # without noise, batches are small and there are more of them; the flow of codes has small steps
    many = {"num_records": 100_000}
    free, noisy = trained(budget=FREE, steps=None, **many), trained(steps=None, **many)
    assert free.sampling_rate < noisy.sampling_rate
    assert free.steps > noisy.steps
    assert trained(flow=None, budget=FREE).learning_rate < codes.learning_rate


def test_splines_are_finer_without_noise_unless_bins_are_given():
    noisy, free = (estimator(flow=vf.hflow(), budget=b).plan().flow.bins for b in (BUDGET, FREE))
    assert noisy < free
    assert estimator(budget=FREE).plan().flow.bins == SMALL.bins


# --- ranks


def coder() -> Coder:
    size, gap = (SCHEMA.columns[name] for name in ("size", "gap"))
    counts = np.array([5.0, 5, 5, 150, 20, 20, 0, 30, 30, 35])
    cells = cells_of(size), cells_of(gap)
    bins = bins_of(counts, most=4), bins_of(np.array([10.0, 20, 70]), most=4)
    return Coder(
        (
            CodedColumn(bins[0].masses, True, False, cells[0], bins[0]),
            CodedColumn(np.array([0.2, 0.3, 0.5]), False, False),
            CodedColumn(np.append(bins[1].masses * 0.6, 0.4), True, True, cells[1], bins[1]),
        )
    )


def every_row() -> EncodedRows:
    """Each row that the schema allows: 10 sizes, 3 kinds, 3 gaps or none."""
    size, kind, gap = np.array(list(itertools.product(range(10), range(3), range(4)))).T
    missing = gap == 3
    codes = np.stack([np.zeros(120), kind, missing], axis=1).astype(np.int32)
    places = [(size + 0.5) / 10, np.zeros(120), np.where(missing, 0, (gap + 0.5) / 3)]
    return EncodedRows(codes, np.stack(places, axis=1))


def test_a_number_is_one_variable_and_one_with_gaps_is_two():
    assert Ranks(coder()).variables.kinds == (Continuous(), Listed(3), Listed(2), Continuous())


def test_rows_come_back_from_any_rank_in_their_span():
    ranks, rng, asked = Ranks(coder()), np.random.default_rng(0), every_row()
    codes, low, high = map(np.asarray, ranks.spans(asked))
    at = low + (high - low) * rng.uniform(0.01, 0.99, size=low.shape)
    found = ranks.rows(codes, at, rng)
    np.testing.assert_array_equal(found.codes, asked.codes)
    np.testing.assert_allclose(found.positions, asked.positions)


def test_spans_are_as_wide_as_the_slope_says_and_fill_all_ranks():
    ranks, asked = Ranks(coder()), every_row()
    spans = ranks.spans(asked)
    width = np.asarray(spans.high - spans.low)[:, [0, 3]]
    missing = asked.codes[:, 2] == 1
    np.testing.assert_allclose(width[missing, 1], 1)
    # every cell here is one value, of size 1
    np.testing.assert_allclose(width.prod(axis=1), np.exp(ranks.log_slope(asked)), atol=1e-6)
    some = (asked.codes[:, 1] == 0) & missing
    np.testing.assert_allclose(width[some, 0].sum(), 1, rtol=1e-5)
    assert width.min() > 0  # also where the histogram has no record


def test_listed_values_have_the_released_shares_and_none_is_zero():
    of_kind, of_gap = Ranks(coder()).shares
    np.testing.assert_allclose(of_kind, [0.2, 0.3, 0.5], atol=1e-3)
    np.testing.assert_allclose(of_gap, [0.6, 0.4], atol=1e-3)
    none = coder().with_masses([np.eye(len(column.mass))[0] for column in coder().columns])
    assert all(0 < one.min() < 1e-3 for one in Ranks(none).shares)


@pytest.mark.parametrize("linear", ["low-rank", "none"])
def test_a_fresh_flow_has_the_released_columns(linear: str, key: jax.Array):
    made = vf.hflow(blocks=2, bins=4, hidden=(8,), linear=linear)
    density = HFlowDensity.create(coder(), made, key=key)
    drawn = density.draw(8000, jax.random.key(1), np.random.default_rng(0))
    kinds = np.bincount(drawn.codes[:, 1], minlength=3) / 8000
    np.testing.assert_allclose(kinds, [0.2, 0.3, 0.5], atol=0.05)
    assert drawn.codes[:, 2].mean() == pytest.approx(0.4, abs=0.05)
    sizes = np.bincount((10 * drawn.positions[:, 0]).astype(int), minlength=10) / 8000
    np.testing.assert_allclose(
        sizes, np.array([5, 5, 5, 150, 20, 20, 0, 30, 30, 35]) / 300, atol=0.05
    )


def test_better_shares_of_bins_move_the_ranks():
    first = coder()
    masses = [column.mass for column in first.columns]
    masses[0] = np.roll(masses[0], 1)
    second = first.with_masses(masses)
    assert not np.allclose(
        Ranks(first).log_slope(every_row()), Ranks(second).log_slope(every_row()), atol=0.1
    )
    zero = first.with_masses([np.eye(len(mass))[0] for mass in masses])
    assert np.isfinite(Ranks(zero).log_slope(every_row())).all()


def test_any_numbers_make_rows():
    wild = np.array([[np.nan] * 4, [np.inf] * 4, [-5.0] * 4])
    codes = np.array([[0, 99, 1, 0], [0, -9, 7, 0], [0, 2, 0, 0]])
    found = Ranks(coder()).rows(codes, wild, np.random.default_rng(0))
    assert ((found.positions >= 0) & (found.positions < 1)).all()
    assert found.codes[:, 1].tolist() == [2, 0, 2]


# --- fits


@pytest.mark.slow
def test_scores_are_the_probabilities_of_all_rows(learned: vf.FittedTableFlow):
    every = learned.density.log_prob(every_row())
    draw = jax.vmap(learned.flow.flow.sample)
    points = np.asarray(draw(jax.random.split(jax.random.key(1), 20_000)))
    inside = ((points >= 0) & (points < np.array([1, 3, 2, 1]))).all(axis=1).mean()
    assert np.exp(every).sum() == pytest.approx(inside, abs=0.02)


@pytest.mark.slow
def test_the_flow_learns_what_columns_have_to_do_with_each_other(learned: vf.FittedTableFlow):
    test, drawn = rows(1000, seed=5), learned.sample(4000, seed=2)
    shuffled = test.assign(kind=np.roll(test["kind"], 1))
    assert learned.log_prob(test).mean() > learned.log_prob(shuffled).mean() + 0.5
    assert drawn["size"].eq(3).mean() == pytest.approx(0.55, abs=0.1)
    assert drawn["gap"].isna().mean() == pytest.approx(1 / 3, abs=0.08)
    follows = np.where(drawn["size"] < 3, "a", np.where(drawn["size"] < 6, "b", "c"))
    assert (drawn["kind"] == follows).mean() > 0.6  # alone they would agree in 0.4


def test_the_ledger_is_what_was_announced(private: vf.FittedTableFlow):
    assert private.plan == estimator(clipping="per-unit").plan()
    assert private.guarantee.epsilon <= BUDGET.epsilon
    settings = private.plan.release(PrivateTraining).settings
    assert (settings.clipping, settings.clip_norm) == ("per-unit", 1.0)
    assert settings.optimizer == "adabelief"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model_and_scores_do_not_waver(private: vf.FittedTableFlow):
    again = estimator(clipping="per-unit").fit(rows(N), progress=False)
    np.testing.assert_array_equal(again.log_prob(rows(50)), private.log_prob(rows(50)))


def test_saved_models_come_back(private: vf.FittedTableFlow, tmp_path):
    private.save(tmp_path / "model.veil")
    back = vf.load(tmp_path / "model.veil")
    np.testing.assert_array_equal(back.log_prob(rows(50)), private.log_prob(rows(50)))
    pd.testing.assert_frame_equal(back.sample(50, seed=3), private.sample(50, seed=3))
    assert (back.plan, back.facts) == (private.plan, private.facts)


@pytest.mark.parametrize(
    "made",
    [
        vf.hflow(bins=4, linear="lu", dequantization="variational", hidden=(8,)),
        vf.hflow(bins=4, linear="low-rank", network="conditional", rank=2, blocks=1, hidden=()),
        vf.hflow(linear="none", bins=3, hidden=(4, 4)),
    ],
)
def test_every_architecture_is_rebuilt_from_its_arrays(made: HFlowArchitecture, key: jax.Array):
    density = HFlowDensity.create(coder(), made, key=key)
    back = HFlowDensity.restored(coder(), density.arrays(), made)
    assert eqx.tree_equal(back.flow, density.flow)
    shapes = HFlowDensity.shapes(coder(), made)
    assert [x.shape for x in shapes] == [x.shape for x in density.arrays()]


FIRST = "['flow'][0]"


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("arrays", lambda x: x | {FIRST: x[FIRST] * np.nan}),
        ("arrays", lambda x: x | {FIRST: x[FIRST][:-1]}),
        ("arrays", lambda x: x | {FIRST: x[FIRST].astype(np.float64)}),
        ("arrays", lambda x: x | {"['flow'][99]": x[FIRST]}),
        ("arrays", lambda x: {k: v for k, v in x.items() if k != FIRST}),
        ("flow", lambda x: codec.plain(vf.codes(hidden=(8,), most_bins=8))),
        ("flow", lambda x: x | {"blocks": 3}),
        ("flow", lambda x: x | {"hidden": [60_000]}),
        ("flow", lambda x: x | {"rank": 9}),
        ("flow", lambda x: x | {"more": 1}),
        ("flow", lambda x: x | {"most_bins": None}),
        ("flow", lambda x: x | {"bins": None}),
        ("schema", lambda x: x | {"num_features": [1, 1, 1]}),
        ("schema", lambda x: x | {"num_codes": [10, 3]}),
        ("schema", lambda x: x | {"num_codes": [10, 3, -4]}),
    ],
)
def test_doctored_files_are_refused(private: vf.FittedTableFlow, part: str, change):
    whole = private.to_artifact()
    registry.from_artifact(whole)
    if part == "flow":
        plan = whole.manifest["plan"]
        plan = {**plan, "flow": change(plan["flow"])}
        whole = dataclasses.replace(whole, manifest={**whole.manifest, "plan": plan})
    else:
        whole = dataclasses.replace(whole, **{part: change(getattr(whole, part))})
    with pytest.raises(vf.ArtifactError):
        registry.from_artifact(whole)


def test_what_only_the_flow_of_codes_can_do_is_refused(private: vf.FittedTableFlow):
    with pytest.raises(ValueError, match="given: only the flow of codes"):
        private.sample(5, given={"kind": "a"})
    with pytest.raises(ValueError, match="impute: only the flow of codes"):
        private.impute(rows(5))
    with pytest.raises(ValueError, match="order: only the flow of codes"):
        _ = private.order


@pytest.mark.slow
def test_a_warm_start_trains_on_rows_of_marginals(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(warm_start, "_ROWS", 512)
    monkeypatch.setattr(warm_start, "_STEPS", 100)
    monkeypatch.setattr(warm_start, "_BATCH", 128)
    budget = vf.Budget(epsilon=50.0, delta=1e-5)
    settings = {"warm_start": True, "steps": 0, "budget": budget, "num_records": 2000}
    model = estimator(**settings).fit(rows(2000), progress=False)
    assert [entry.purpose for entry in model.ledger.entries] == [
        "histograms of columns",
        "details of columns",
        "marginals",
        "distance of grid noise from Gaussian",
    ]
    test = rows(500, seed=5)
    shuffled = test.assign(kind=np.roll(test["kind"], 1))
    assert model.log_prob(test).mean() > model.log_prob(shuffled).mean() + 0.1


@pytest.mark.slow
def test_the_flow_of_codes_takes_other_clippings_too():
    flow = vf.codes(hidden=(4,))
    model = estimator(flow=flow, clipping="sparsified", sparsity=0.25).fit(rows(N), progress=False)
    settings = model.plan.release(PrivateTraining).settings
    assert (settings.clipping, settings.sparsity) == ("sparsified", 0.25)
    assert np.isfinite(model.log_prob(rows(20))).all()
