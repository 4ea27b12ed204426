"""Correlated noise in the engine: turns of records, secrets that stay, and what a run costs."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import veilflow as vf
from tests.engine.test_checkpoint import Stopped, stop_after
from veilflow import audit, engine, nn
from veilflow._core.keys import Secret
from veilflow.engine import sampling
from veilflow.engine.blocks import run_block, step_words
from veilflow.engine.loop import noise_of
from veilflow.engine.step import Step
from veilflow.engine.turns import Hidden
from veilflow.nn.frozen import trainable_part
from veilflow.privacy import calibration
from veilflow.privacy.banded_noise import BandedNoise, coefficients
from veilflow.privacy.events import Gaussian, PoissonSampled, Repeated
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms.gaussian import gaussian
from veilflow.releases.training import PrivateTraining

ROWS = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
SECRET = Secret.from_seed(5)
PLAIN = engine.Optimizer(name="sgd", learning_rate=1.0, schedule="constant")


def make_plan(bands: int = 4, **changes) -> engine.TrainingPlan:
    settings = {
        "clipping": engine.Flat(1.0),
        "noise_multiplier": 1.0,
        "sampling_rate": 0.1,
        "expected_batch_size": 6.0,
        "steps": 30,
        "noise_bands": bands,
        "optimizer": PLAIN,
    }
    return engine.TrainingPlan(**{**settings, **changes})


def make_model() -> nn.Dense:
    return nn.Dense.create(2, 1, key=jax.random.key(0))


def steep(model, row, key):
    return (model(row[:2])[0] - row[2] + 0.1 * jax.random.normal(key)) ** 2


def flat(model, row, key):
    return jnp.zeros(())


def numbers(tree) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(x)) for x in jax.tree.leaves(tree)])


def run(plan, *, loss=steep, rows=ROWS, **settings) -> np.ndarray:
    start = make_model()
    return numbers(
        engine.train(plan, loss, start, Sensitive(rows), secret=SECRET, **settings).value
    )


def test_one_band_is_the_run_with_independent_noise_to_the_last_bit():
    plan = make_plan(1)
    assert plan == make_plan(1, noise_bands=1)
    assert plan.turn_rate == plan.sampling_rate
    model, rows = make_model(), jnp.asarray(ROWS)
    trainable, fixed = trainable_part(model)
    step = Step(plan, steep, None, fixed, 32, noise_of(plan, model))

    @eqx.filter_jit
    def by_hand(step, state, words):
        """A step as it is without any bands."""
        drawn = sampling.draw(words[0], len(ROWS), step.plan.sampling_rate)
        key = jax.random.wrap_key_data(words[1, :2])
        total = step.clipped_sum(state.trainable, state.clipping, rows, drawn, key)
        return step._move(state, gaussian(total, noise=step.noise, words=words[2]))

    state = step.init(trainable)
    for words in step_words(SECRET, 0, plan.steps):
        state = by_hand(step, state, jnp.asarray(words))
    np.testing.assert_array_equal(run(plan, chunk_size=32), numbers(state.trainable))


class Axes(eqx.Module):
    values: jax.Array


def along_its_axis(model, place, key):
    return (
        -2 * model.values[jnp.minimum(place, len(model.values) - 1)] * (place < len(model.values))
    )


def moved_by(plan, number: int) -> tuple[np.ndarray, BandedNoise]:
    """For each step of the real engine, how far each record moved the sum; and the noise of the run."""
    model, words = Axes(jnp.zeros(number)), step_words(SECRET, 0, plan.steps)
    trainable, fixed = trainable_part(model)
    step = Step(plan, along_its_axis, None, fixed, 64, noise_of(plan, model))
    hidden = Hidden.after(0, noise=step.noise, num_records=number, secret=SECRET)

    @eqx.filter_jit
    def parameters(step, hidden, records):
        def one(carry, words):
            after = step.next(*carry, records, words)
            return after, after[0].trainable.values

        return jax.lax.scan(one, (step.init(trainable), hidden), jnp.asarray(words))[1]

    places = jnp.arange(number, dtype=jnp.int32)
    records = places, jnp.full(number, number, jnp.int32)  # the latter have no gradient
    with_axes, without = (np.asarray(parameters(step, hidden, r), float) for r in records)
    return np.diff(with_axes - without, axis=0, prepend=0), step.noise


@pytest.mark.parametrize("bands", [2, 4, 16])
def test_what_a_record_changes_in_a_run_is_what_the_event_says(bands: int):
    """By the filter, an attacker turns what is released into sums with independent noise.

    What the record changes in these, over the noise, is the mu of the Gaussian mechanism that the run
    is if turns are taken for certain: no attack is sharper.
    """
    changes = {"noise_multiplier": 1.5, "sampling_rate": 1 / bands, "clipping": engine.Flat(0.7)}
    plan = make_plan(bands, steps=3 * bands, expected_batch_size=1.0, **changes)
    moved, noise = moved_by(plan, 100)
    weights = np.array(coefficients(bands)) / 2**12
    filtered = np.stack([np.convolve(of_record, weights)[: plan.steps] for of_record in moved.T])
    mu = np.linalg.norm(filtered, axis=1).max() / noise.grid.noise_stddev
    assert plan.event == Repeated(3, PoissonSampled(1.0, Gaussian(1.5)))
    assert 0.997 * math.sqrt(3) / 1.5 < mu <= math.sqrt(3) / 1.5 * (1 + 1e-6)


@pytest.mark.parametrize("bands", [4, 10])
def test_a_record_takes_at_most_one_turn_in_as_many_steps_as_there_are_bands(bands: int):
    number, steps, rate = 300, 200, 0.1
    plan = make_plan(bands, noise_multiplier=0.01, steps=steps, expected_batch_size=1.0)
    took = moved_by(plan, number)[0] > 0.5
    groups: list[int] = []
    for record in took.T:
        (when,) = np.nonzero(record)
        assert len({int(step) % bands for step in when}) <= 1
        groups += [int(when[0]) % bands] if len(when) else []
    # all groups are equally likely; records take part as often as with independent noise
    assert stats.chisquare(np.bincount(groups, minlength=bands)).pvalue > 1e-6
    assert stats.binomtest(int(took.sum()), took.size, rate).pvalue > 1e-6
    if bands == 10:  # each turn is taken for certain
        assert took.sum(axis=0).tolist() == [steps // bands] * number
    else:
        # the coins of a record are independent: its number of turns is binomial
        turns, most = took.sum(axis=0), steps // bands
        spread = np.sum((turns - most * bands * rate) ** 2) / (
            most * bands * rate * (1 - bands * rate)
        )
        assert 1e-6 < stats.chi2.sf(spread, number) < 1 - 1e-6


def test_groups_depend_on_the_secret_and_the_run_alone():
    words = [Secret.from_seed(s).words("groups", 0, 1, size=4)[0] for s in (0, 0, 1)]
    first, again, other = (np.asarray(sampling.groups(jnp.asarray(w), 3000, 5)) for w in words)
    np.testing.assert_array_equal(first, again)
    assert 0.1 < np.mean(first == other) < 0.3
    assert stats.chisquare(np.bincount(first)).pvalue > 1e-6
    # neither a neighbor nor the place says anything
    assert stats.chi2_contingency(np.histogram2d(first[1:], first[:-1], 5)[0]).pvalue > 1e-6
    assert stats.chi2_contingency(np.histogram2d(first, np.arange(3000) % 5, 5)[0]).pvalue > 1e-6


@eqx.filter_jit
def next_noise(noise, past, step, words):
    return noise.next(past, step, words)


def noise_by_hand(plan, model, steps: int) -> np.ndarray:
    """The noise of some steps in the units of the sum."""
    noise = noise_of(plan, model)
    past, found = noise.init(), []
    for step, words in enumerate(step_words(SECRET, 0, steps)[:, 2]):
        now, past = next_noise(noise, past, jnp.int32(step), jnp.asarray(words))
        found.append(np.asarray(now) * noise.grid.spacing)
    return np.stack(found)


@pytest.mark.parametrize("rows", [ROWS, ROWS[:0]])
def test_without_gradients_a_run_is_the_sum_of_its_noise(rows):
    plan = make_plan(4)
    expected = numbers(make_model()) - noise_by_hand(plan, make_model(), 30).sum(axis=0) / 6.0
    np.testing.assert_allclose(run(plan, loss=flat, rows=rows), expected, atol=1e-5)


def test_models_of_parts_share_one_correlated_noise():
    plan = make_plan(4)
    models = jax.tree.map(lambda x: jnp.stack([x, x]), make_model())
    parts = np.arange(len(ROWS), dtype=np.int32) % 2
    settings = {"num_parts": 2, "secret": SECRET, "chunk_size": 8}
    found = [
        numbers(engine.train_parts(plan, loss, models, Sensitive((ROWS, parts)), **settings).value)
        for loss in (flat, steep)
    ]
    expected = numbers(models) - noise_by_hand(plan, models, 30).sum(axis=0) / 6.0
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
    assert np.abs(found[1] - found[0]).min() > 1e-4


STATEFUL = make_plan(
    3,
    clipping=engine.AdaptiveQuantile(),
    optimizer=engine.Optimizer(name="adam", learning_rate=0.05),
    ema_decay=0.9,
    steps=60,
)


@pytest.fixture(scope="module")
def undisturbed() -> np.ndarray:
    return run(STATEFUL)


@pytest.mark.parametrize("step", [1, 8, 22])
def test_a_resumed_run_ends_like_an_undisturbed_one(step: int, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setattr("veilflow.engine.blocks.BLOCK", 7)  # it is saved after 1, 8, 15, ... steps
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        run(STATEFUL, checkpoint=engine.Checkpoint(path, seconds=0), monitor=stop_after(step))
    saved = engine.Checkpoint(path).read()
    assert saved is not None
    assert (saved.step, saved.plan["noise_bands"]) == (step, 3)
    done = run(STATEFUL, checkpoint=engine.Checkpoint(path, seconds=0))
    np.testing.assert_array_equal(done, undisturbed)


def test_what_is_hidden_is_not_in_a_checkpoint(tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        run(STATEFUL, checkpoint=engine.Checkpoint(path, seconds=0), monitor=stop_after(8))
    saved = engine.Checkpoint(path).read()
    step = Step(STATEFUL, steep, None, None, 8)
    shapes = sorted(x.shape for x in jax.tree.leaves(step.init(trainable_part(make_model())[0])))
    assert sorted(x.shape for x in saved.arrays.values()) == shapes
    noise = noise_of(STATEFUL, make_model())
    hidden = Hidden.after(saved.step, noise=noise, num_records=len(ROWS), secret=SECRET)
    contents = path.read_bytes()
    for array in (*np.asarray(hidden.past), np.asarray(hidden.groups)):
        assert array.tobytes() not in contents
    with_units = np.asarray(hidden.past) * np.float32(noise.grid.spacing)
    assert all(row.astype(np.float32).tobytes() not in contents for row in with_units)


@pytest.mark.parametrize("bands", [4, 5])
def test_what_is_hidden_is_drawn_again_as_it_was(bands: int, monkeypatch):
    monkeypatch.setattr("veilflow.engine.turns._BLOCK", 7)
    plan, model = make_plan(bands), make_model()
    trainable, fixed = trainable_part(model)
    step = Step(plan, steep, None, fixed, 8, noise_of(plan, model))
    begin = {"noise": step.noise, "num_records": len(ROWS), "secret": SECRET}
    count = 21
    carry = step.init(jax.tree.map(jnp.array, trainable)), Hidden.after(0, **begin)
    inputs = jnp.asarray(ROWS), jnp.asarray(step_words(SECRET, 0, count)), jnp.int32(count)
    _, carried = run_block((step, *inputs), carry)
    again = Hidden.after(count, **begin)
    np.testing.assert_array_equal(again.past, carried.past)
    np.testing.assert_array_equal(again.groups, carried.groups)
    assert np.abs(np.asarray(again.past)).min(axis=1).all()


@pytest.mark.parametrize(
    ("steps", "bands", "turns"), [(30, 4, 8), (32, 4, 8), (3, 4, 1), (5, 1, 5)]
)
def test_a_run_costs_the_turns_of_one_record(steps: int, bands: int, turns: int):
    plan = make_plan(bands, steps=steps, noise_multiplier=1.5)
    one = PoissonSampled(0.1 * bands, Gaussian(1.5))
    assert plan.event == Repeated(turns, one)
    for done in range(1, steps + 1):
        assert plan.event_after(done) == Repeated(math.ceil(done / bands), one)
    settings = vf.Training(steps=steps, sampling_rate=0.1, noise_bands=bands)
    release = PrivateTraining(settings=settings, noise_multiplier=1.5, num_parameters=3)
    assert release.event == plan.event
    assert [release.event_after(d) for d in (0, 1, 3)] == [plan.event_after(d) for d in (1, 1, 3)]
    assert release.num_draws == steps * 4


def test_epsilon_is_that_of_dp_accounting_for_the_turns():
    from dp_accounting.pld import privacy_loss_distribution as pld

    ledger = Ledger().spend(make_plan(4, steps=50).event, purpose="training")
    turn = pld.from_gaussian_mechanism(1.0, sampling_prob=0.4, use_connect_dots=True)
    by_hand = turn.self_compose(13).get_epsilon_for_delta(1e-5)
    assert ledger.epsilon(delta=1e-5) == pytest.approx(by_hand, rel=1e-3)
    assert ledger.epsilon(delta=1e-5) >= by_hand * (1 - 1e-3)


def test_the_noise_of_a_release_is_calibrated_for_turns():
    budget = vf.Budget(epsilon=2.0, delta=1e-5)
    settings = vf.Training(steps=50, sampling_rate=0.1, noise_bands=4)
    release = PrivateTraining(settings=settings, noise_multiplier=1.0, num_parameters=3)
    priced = release.priced(budget, Ledger())
    assert 1.998 < Ledger().spend(priced.event, purpose="x").epsilon(delta=1e-5) <= 2.0
    same = calibration.noise_multiplier(budget, sampling_rate=0.4, steps=13)
    assert priced.noise_multiplier == same


def refused(match: str):
    return pytest.raises(ValueError, match=match)


def test_more_turns_than_a_record_can_take_are_refused():
    message = r"noise_bands \(4\) times the sampling rate \(0\.3\) must be at most 1"
    with refused(message):
        make_plan(4, sampling_rate=0.3)
    with refused(message):
        vf.Training(noise_bands=4, sampling_rate=0.3)
    with refused(message):
        vf.Training(noise_bands=4).resolved(sampling_rate=0.3)
    assert make_plan(4, sampling_rate=0.25).turn_rate == 1.0
    with refused("noise_bands must be 1 to 128"):
        vf.Training(noise_bands=129)


def test_a_run_without_privacy_has_no_noise_to_correlate():
    with refused("without privacy adds no noise to correlate"):
        make_plan(4, private=False, noise_multiplier=0.0)
    free = vf.DensityFlow(
        budget=vf.Budget(epsilon=math.inf, delta=0),
        training=vf.Training(noise_bands=4),
        bounds=(0, 1),
    )
    with refused("without privacy adds no noise to correlate"):
        free.plan(9)


def test_audits_of_steps_say_that_they_are_for_independent_noise():
    for attack in (lambda p: audit.engine_check(p), lambda p: audit.audit_gradients(p, delta=1e-5)):
        with refused("noise_bands=1"):
            attack(make_plan(4))


def test_a_step_does_not_run_without_what_is_hidden():
    plan, model = make_plan(4), make_model()
    trainable, fixed = trainable_part(model)
    step = Step(plan, steep, None, fixed, 8, noise_of(plan, model))
    with refused("needs the noise before it"):
        step(step.init(trainable), jnp.asarray(ROWS), jnp.asarray(step_words(SECRET, 0, 1)[0]))


def test_a_density_is_trained_with_correlated_noise_and_its_file_says_so(tmp_path):
    rows = np.random.default_rng(0).uniform(size=(200, 2))
    estimator = vf.DensityFlow(
        budget=vf.Budget(epsilon=2, delta=1e-3),
        num_records=200,
        bounds=(0, 1),
        base="normal",
        start="none",
        flow=vf.maf(blocks=1, hidden=(4,)),
        training=vf.Training(steps=10, batch_size=20, noise_bands=4),
        seed=1,
    )
    model = estimator.fit(rows, progress=False)
    (entry,) = (e for e in model.ledger.entries if e.purpose == "training")
    assert entry.event.times == 3
    assert entry.event.event.sampling_rate == pytest.approx(0.4)
    assert 1.9 < model.guarantee.epsilon <= 2
    model.save(tmp_path / "m.veil")
    again = vf.load(tmp_path / "m.veil")
    assert again.plan == model.plan == estimator.plan(2)
    assert again.plan.releases[-1].settings.noise_bands == 4
    np.testing.assert_array_equal(again.log_prob(rows), model.log_prob(rows))
