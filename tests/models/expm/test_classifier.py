"""The classifier: what it promises before and after it sees records, and what it refuses."""

import math
import zipfile

import numpy as np
import pytest

import veilflow as vf
from veilflow.engine.optimizer import Optimizer
from veilflow.privacy.assumptions import Declared, FloatSums, Generator, Seeded
from veilflow.privacy.events import ExponentialMechanism, PureDP, Repeated
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.expm.draw import SAMPLERS, sampler_of
from veilflow.releases.expm.flow_sampler import FlowSampler
from veilflow.releases.expm.grid import GridSampler
from veilflow.releases.expm.hmc import HmcSampler
from veilflow.releases.expm.rejection import RejectionSampler
from veilflow.releases.expm.zoom import ZoomSampler

NUM = 40
RNG = np.random.default_rng(0)
ROWS = RNG.uniform(0, 10, (NUM, 1))
LABELS = (ROWS[:, 0] > 5).astype(int)

# every sampler there is, with settings that cost a test little
SMALL = {
    "zoom": ZoomSampler(num_candidates=32),
    "rejection": RejectionSampler(),
    "grid": GridSampler(per_axis=21),
    "flow": FlowSampler(
        flow="planar", blocks=1, steps=2, samples=4, optimizer=Optimizer(learning_rate=1e-2)
    ),
    "hmc": HmcSampler(warmup=4, steps=2, leapfrogs=2),
}
UNCONDITIONAL = {"zoom", "rejection", "grid"}


def estimator(**settings) -> vf.ExpMechClassifier:
    given = {
        "budget": vf.Budget(epsilon=0.2, delta=0),
        "prior": vf.GaussianPrior(3.0),
        "bounds": (0, 10),
        "num_records": NUM,
        "sampler": SMALL["zoom"],
        **settings,
    }
    return vf.ExpMechClassifier(**given)


def fitted(**settings) -> vf.FittedExpMechClassifier:
    return estimator(**settings).fit(ROWS, LABELS, progress=False)


def test_all_samplers_are_tried_here():
    assert set(SMALL) == set(SAMPLERS)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SMALL)
def test_a_fit_pays_what_was_said_before_and_keeps_to_the_budget(name):
    unfitted = estimator(sampler=SMALL[name], seed=1)
    before = unfitted.plan(1).ledger
    model = unfitted.fit(ROWS, LABELS, progress=False)
    assert model.ledger == before
    assert model.guarantee.epsilon == pytest.approx(0.2, rel=1e-12)
    assert model.guarantee.delta == 0
    assert model.thetas.shape == (1, 2)


@pytest.mark.parametrize("name", SMALL)
def test_conditional_is_said_wherever_it_is_so_and_nowhere_else(name, tmp_path):
    model = fitted(sampler=SMALL[name])
    model.save(tmp_path / "model.veil")
    loaded = vf.load(tmp_path / "model.veil")
    assert sampler_of(name).assumption == SMALL[name].assumption
    from typer.testing import CliRunner

    from veilflow.cli.main import app

    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "model.veil")]).output
    manifest = zipfile.ZipFile(tmp_path / "model.veil").read("manifest.json").decode()
    said = [repr(model), repr(loaded), str(model.guarantee), str(loaded.guarantee)]
    texts = [*said, shown, manifest]
    if name in UNCONDITIONAL:
        assert not any("CONDITIONAL" in text for text in texts)
        assert not model.conditional
        return
    assumption = SMALL[name].assumption
    assert assumption is not None
    sentence = assumption.sentence
    assert sentence.startswith("CONDITIONAL:")
    assert model.conditional
    assert loaded.conditional
    for text in texts:
        assert sentence in " ".join(text.split()), text
    assert assumption in model.ledger.assumptions
    assert assumption in loaded.guarantee.assumptions
    assert repr(model).index("CONDITIONAL") < repr(model).index("differential privacy")


def test_what_is_exact_rests_on_no_generator_and_no_seed():
    exact = estimator(seed=3).plan(1).ledger.assumptions
    assert exact == (Declared(("bounds", "classes", "the prior", "the number of records")),)
    other = estimator(sampler=SMALL["hmc"], seed=3).plan(1).ledger.assumptions
    assert Seeded() in other
    assert Generator() in other


def test_saved_and_loaded_models_predict_the_same(tmp_path):
    unfitted = estimator(num_models=2, classes=("low", "high"), sampler=SMALL["grid"])
    model = unfitted.fit(ROWS, np.array(["low", "high"])[LABELS], progress=False)
    model.save(tmp_path / "model.veil")
    loaded = vf.load(tmp_path / "model.veil")
    assert type(loaded) is vf.FittedExpMechClassifier
    assert loaded.guarantee == model.guarantee
    assert loaded.plan == model.plan
    assert loaded.facts == model.facts
    assert (loaded.thetas == model.thetas).all()
    assert (loaded.predict_proba(ROWS) == model.predict_proba(ROWS)).all()
    assert (loaded.predict(ROWS) == model.predict(ROWS)).all()


def test_predictions_are_means_over_models_in_the_order_of_the_classes():
    model = fitted(num_models=3, sampler=SMALL["grid"])
    found = model.predict_proba(ROWS)
    assert found.shape == (NUM, 2)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    scaled = (ROWS / 5 - 1).astype(np.float32)
    each = [[float(model.network.outputs(t, r)) for r in scaled[:5]] for t in model.thetas]
    np.testing.assert_allclose(found[:5, 1], np.mean(each, axis=0), atol=1e-6)
    assert set(model.predict(ROWS)) <= {0, 1}
    assert (model.predict(ROWS) == (found[:, 1] > 0.5)).all()
    assert list(model.classes_) == [0, 1]


def test_a_good_budget_learns():
    """Epsilon times records is 4,000: the two halves are told apart."""
    model = fitted(budget=vf.Budget(epsilon=100.0, delta=0), sampler=SMALL["grid"])
    assert (model.predict(ROWS) == LABELS).mean() > 0.9


def test_labels_are_found_by_their_declared_class():
    words = np.array(["low", "high"])[LABELS]
    model = estimator(
        classes=("low", "high"), budget=vf.Budget(100.0, 0), sampler=SMALL["grid"]
    ).fit(ROWS, words.tolist(), progress=False)
    assert (model.predict(ROWS) == words).mean() > 0.9


def test_one_class_only_is_no_error_since_that_would_tell():
    model = estimator().fit(ROWS, np.zeros(NUM, int), progress=False)
    assert model.predict_proba(ROWS).shape == (NUM, 2)


def test_many_models_share_the_budget():
    ledger = estimator(num_models=4, sampler=SMALL["grid"]).plan(1).ledger
    assert ledger.entries[0].event == Repeated(4, ExponentialMechanism(0.2 / 4))
    assert ledger.epsilon(delta=0) == pytest.approx(0.2)


def test_models_of_one_fit_are_drawn_with_different_secrets(monkeypatch):
    seen = []
    monkeypatch.setattr(
        HmcSampler,
        "draw",
        lambda self, target, records, *, secret: (
            seen.append(secret.reveal()),
            SMALL["grid"].draw(target, records, secret=secret),
        )[1],
    )
    fitted(sampler=SMALL["hmc"], num_models=3, seed=1)
    assert len(set(seen)) == 3


@pytest.mark.parametrize("name", ["flow", "hmc"])
def test_an_interrupted_fit_draws_the_same_models(name, tmp_path, monkeypatch):
    settings = {"sampler": SMALL[name], "num_models": 2, "seed": 1}
    whole, path, draws = fitted(**settings), tmp_path / "run", []
    draw = type(SMALL[name]).draw

    def interrupted(*args, **kwargs):
        draws.append(draw(*args, **kwargs))
        if len(draws) == 2:
            raise KeyboardInterrupt
        return draws[0]

    with monkeypatch.context() as patched:
        patched.setattr(type(SMALL[name]), "draw", interrupted)
        with pytest.raises(KeyboardInterrupt):
            estimator(**settings).fit(ROWS, LABELS, progress=False, checkpoint=path)
    # who goes on need not know the seed, which stays an assumption
    again = estimator(**{**settings, "seed": None})
    model = again.fit(ROWS, LABELS, progress=False, checkpoint=path)
    assert (model.thetas == whole.thetas).all()
    assert Seeded() in model.guarantee.assumptions
    assert not path.exists()


def test_with_a_delta_several_models_get_more_than_their_share():
    budget = vf.Budget(epsilon=0.2, delta=1e-3)
    ledger = estimator(num_models=50, budget=budget, sampler=SMALL["grid"]).plan(1).ledger
    event = ledger.entries[0].event
    assert isinstance(event, Repeated)
    assert event.event.epsilon > 1.5 * 0.2 / 50
    assert ledger.epsilon(delta=1e-3) <= 0.2


def test_a_cap_on_trials_is_paid_from_delta():
    capped = RejectionSampler(max_trials=2000)
    budget = vf.Budget(epsilon=0.1, delta=1e-3)
    ledger = estimator(sampler=capped, budget=budget).plan(1).ledger
    assert ledger.epsilon(delta=1e-3) <= 0.1 * (1 + 1e-9)
    assert ledger.epsilon(delta=0) == math.inf
    with pytest.raises(vf.BudgetError):
        estimator(sampler=RejectionSampler(max_trials=3), budget=vf.Budget(0.1, 1e-9)).plan(1)


def test_without_a_declared_number_a_count_is_paid_for():
    unfitted = estimator(num_records=None)
    ledger = unfitted.plan(1).ledger
    assert ledger.entries[0].event == PureDP(0.02 * 0.2)
    assert ledger.epsilon(delta=0) == pytest.approx(0.2)
    model = unfitted.fit(ROWS, LABELS, progress=False)
    assert model.ledger == ledger
    assert model.facts["num_records"] >= 1
    assert model.plan.num_records is None
    assert "number of records" not in str(ledger.assumptions[0])


def test_what_needs_no_count_pays_for_none():
    model = fitted(num_records=None, sampler=SMALL["grid"])
    assert [entry.purpose for entry in model.ledger.entries] == ["parameters"]
    assert model.facts == {}


def test_prices_do_not_depend_on_records():
    unfitted = estimator(num_records=None)
    one = unfitted.fit(ROWS, LABELS, progress=False)
    other = unfitted.fit(ROWS[:3], LABELS[:3], progress=False)
    assert one.ledger == other.ledger


def test_three_classes_and_hidden_layers():
    labels = np.digitize(ROWS[:, 0], [3, 6])
    for model in ("logistic", vf.expm.Mlp(num_features=1, hidden=(3,), num_classes=3)):
        found = estimator(classes=(0, 1, 2), model=model).fit(ROWS, labels, progress=False)
        assert found.predict_proba(ROWS).shape == (NUM, 3)
        assert found.ledger.assumptions == estimator().plan(1).ledger.assumptions


def test_series_with_gaps(tmp_path):
    values = RNG.uniform(0, 10, (NUM, 4, 2))
    mask = (RNG.random(values.shape) < 0.5).astype(int)
    values[mask == 0] = np.nan
    series = (values, mask, np.ones(values.shape))
    unfitted = estimator(model=vf.expm.GruD(num_features=2, hidden=2))
    model = unfitted.fit(series, LABELS, progress=False)
    # its sums are plain float32, and the guarantee says so
    assert FloatSums() in model.guarantee.assumptions
    assert model.ledger == unfitted.plan(2).ledger
    model.save(tmp_path / "model.veil")
    again = vf.load(tmp_path / "model.veil").predict_proba(series)
    assert (again == model.predict_proba(series)).all()
    # what lies in a gap is never read
    values[mask == 0] = 7.0
    assert (model.predict_proba(series) == again).all()


def test_a_frame_keeps_its_columns():
    import pandas as pd

    frame = pd.DataFrame({"a": ROWS[:, 0], "b": 1.0})
    model = estimator().fit(frame[["a"]], pd.Series(LABELS), progress=False)
    assert model.columns == ("a",)
    assert (model.predict_proba(frame) == model.predict_proba(ROWS)).all()


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"prior": None}, TypeError, "prior must be a GaussianPrior"),
        ({"loss": "bce"}, ValueError, "is unbounded"),
        ({"loss": lambda p, y: p}, TypeError, "cannot be seen"),
        ({"loss": vf.expm.BoundedLoss("l2", 3)}, ValueError, "3 classes and 2 are declared"),
        ({"sampler": "gibbs"}, ValueError, "sampler must be one of 'zoom'"),
        ({"sampler": ZoomSampler}, TypeError, "sampler must be one of"),
        ({"model": "forest"}, ValueError, "model must be one of"),
        ({"model": 3}, TypeError, "model must be one of"),
        ({"bounds": None}, ValueError, "declare bounds"),
        ({"bounds": (1, 0)}, ValueError, "bounds must rise"),
        ({"row_norm": 1.0}, ValueError, "got both"),
        ({"num_models": 0}, ValueError, "num_models must be at least 1"),
        ({"num_records": 0}, ValueError, "num_records must be at least 1"),
        ({"classes": (1,)}, ValueError, "at least two different"),
        ({"classes": (1, 1)}, ValueError, "at least two different"),
        ({"classes": "01"}, TypeError, "texts or numbers"),
        ({"classes": (0.0, math.inf)}, ValueError, "classes must be finite"),
        ({"budget": 1.0}, TypeError, "budget must be a Budget"),
        ({"budget": vf.Budget(math.inf, 0)}, ValueError, "epsilon must be finite"),
    ],
)
def test_bad_settings_are_refused_before_records_are_there(settings, error, match):
    with pytest.raises(error, match=match):
        estimator(**settings)


def test_an_epsilon_of_zero_is_no_budget():
    with pytest.raises(ValueError, match="epsilon must be positive"):
        vf.Budget(0.0, 0)


@pytest.mark.parametrize(
    ("rows", "labels", "match"),
    [
        (ROWS, LABELS + 1, r"not among the declared classes \(0, 1\)"),
        (ROWS, LABELS[1:], "one label for each record"),
        (np.where(ROWS > 5, np.nan, ROWS), LABELS, "series with masks"),
        ((ROWS, ROWS), LABELS, r"\(values, mask, since\)"),
    ],
)
def test_bad_records_are_refused_and_not_shown(rows, labels, match):
    with pytest.raises(ValueError, match=match):
        estimator().fit(rows, labels, progress=False)


def test_bounds_for_other_columns_are_refused():
    with pytest.raises(ValueError, match="declared for 2 columns, the rows have 1"):
        estimator(bounds=([0, 0], [1, 1])).fit(ROWS, LABELS, progress=False)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"sampler": "rejection", "budget": vf.Budget(10.0, 0)}, r"may take e\^400 trials"),
        ({"sampler": GridSampler(per_axis=2000)}, "out of reach"),
        ({"sampler": GridSampler(candidates=[[0.0]])}, "network has 2 parameters"),
    ],
)
def test_out_of_the_samplers_reach_nothing_is_opened(settings, match, monkeypatch):
    monkeypatch.setattr(Sensitive, "open", lambda *_: pytest.fail("records were opened"))
    with pytest.raises(ValueError, match=match):
        estimator(**settings).plan(1)
    with pytest.raises(ValueError, match=match):
        fitted(**settings)


def test_the_number_of_features_is_given_or_declared():
    assert estimator(bounds=([0, 0], [1, 1])).plan() == estimator(bounds=([0, 0], [1, 1])).plan(2)
    known = estimator(model=vf.expm.Logistic(num_features=3))
    assert known.plan() == known.plan(3)
    with pytest.raises(ValueError, match="give num_features"):
        estimator().plan()
    with pytest.raises(ValueError, match="num_features must be at least 1"):
        estimator().plan(0)


def test_settings_of_numpy_are_written_like_those_of_python(tmp_path):
    """A fit that cannot be saved would be lost after it was paid for."""
    given = estimator(
        prior=vf.LaplacePrior(np.float32(2.0)),
        model=vf.expm.Mlp(num_features=np.int64(1), hidden=[np.int32(2)]),
        loss=vf.expm.BoundedLoss("clipped-ce", np.int64(2), ceiling=np.float32(2.0)),
        sampler=FlowSampler(
            flow="planar",
            blocks=np.int64(1),
            steps=np.int64(2),
            base_scale=np.float32(0.5),
            optimizer=Optimizer(learning_rate=np.float32(0.5), momentum=np.float32(0.5)),
        ),
        classes=np.array(["a", "b"]),
    )
    model = given.fit(ROWS, np.array(["a", "b"])[LABELS], progress=False, save_as=tmp_path / "m")
    assert vf.load(tmp_path / "m").plan == model.plan


def test_features_of_another_number_are_refused():
    with pytest.raises(ValueError, match="records must have 1 features, got 2"):
        fitted().predict_proba(np.zeros((2, 2)))


def test_a_network_for_other_features_or_classes_is_refused():
    with pytest.raises(ValueError, match="for 3 features, got 1"):
        fitted(model=vf.expm.Logistic(num_features=3))
    with pytest.raises(ValueError, match="has 3 classes and 2"):
        fitted(model=vf.expm.Logistic(num_features=1, num_classes=3))


def test_neither_estimator_nor_model_shows_rows_or_seed():
    assert "seed" not in repr(estimator(seed=12345))
    assert "12345" not in repr(fitted(seed=12345))
