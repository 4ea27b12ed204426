"""The training loop: gradient descent plus exactly the promised noise, whatever the rows hold."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from veilflow import nn
from veilflow._core.keys import Secret
from veilflow.engine import Flat, Optimizer, TrainingPlan, progress_bar, train
from veilflow.engine.progress import _spent
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger

ROWS = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


class Network(eqx.Module):
    """Two layers from a row's first two numbers to the third."""

    first: nn.Dense
    second: nn.Dense

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))[0]


def network(seed: int = 0) -> Network:
    one, two = jax.random.split(jax.random.key(seed))
    return Network(nn.Dense.create(2, 4, key=one), nn.Dense.create(4, 1, key=two))


def loss_fn(model, row, key):
    del key
    return (model(row[:2]) - row[2]) ** 2


def loose(model: Network) -> dict[str, jax.Array]:
    """The same parameters in no layer, in the same order."""
    return {
        "a": model.first.weight,
        "b": model.first.bias,
        "c": model.second.weight,
        "d": model.second.bias,
    }


def loose_loss_fn(model, row, key):
    del key
    hidden = jnp.tanh(model["a"] @ row[:2] + model["b"])
    return ((model["c"] @ hidden + model["d"])[0] - row[2]) ** 2


def zero_loss(model, row, key):
    del key
    return 0.0 * jnp.sum(model["w"]) * row[0]


def make_plan(**changes) -> TrainingPlan:
    settings = {
        "clipping": Flat(1.0),
        "noise_multiplier": 1.0,
        "sampling_rate": 0.5,
        "expected_batch_size": 20.0,
        "steps": 20,
        "optimizer": Optimizer(name="sgd", learning_rate=0.05, schedule="constant"),
    }
    return TrainingPlan(**{**settings, **changes})


def full_batch(**changes) -> TrainingPlan:
    """No noise, no clipping, no sampling."""
    settings = {
        "clipping": Flat(1e6),
        "noise_multiplier": 0.0,
        "private": False,
        "sampling_rate": 1.0,
        "expected_batch_size": 40.0,
    }
    return make_plan(**{**settings, **changes})


def fit(plan, *, model=None, loss=loss_fn, rows=ROWS, seed=0, **options):
    model = network() if model is None else model
    return train(plan, loss, model, Sensitive(rows), secret=Secret.from_seed(seed), **options).value


def flat(model) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(model)])


def descend(optimizer, steps: int, model=None):
    """Plain full-batch descent, as anyone would write it with optax."""
    model = network() if model is None else model
    mean_loss = lambda m: jnp.mean(jax.vmap(lambda row: (m(row[:2]) - row[2]) ** 2)(ROWS))  # noqa: E731
    state = optimizer.init(model)

    @jax.jit
    def step(model, state):
        updates, state = optimizer.update(jax.grad(mean_loss)(model), state, model)
        return optax.apply_updates(model, updates), state

    for _ in range(steps):
        model, state = step(model, state)
    return model


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            Optimizer(name="sgd", learning_rate=0.2, schedule="constant", momentum=0.9),
            optax.sgd(0.2, momentum=0.9),
        ),
        (Optimizer(learning_rate=0.02), optax.adam(optax.cosine_decay_schedule(0.02, 20))),
    ],
    ids=["sgd", "adam"],
)
def test_without_noise_sampling_and_clipping_training_is_full_batch_descent(ours, theirs):
    trained = fit(full_batch(optimizer=ours))
    expected = descend(theirs, 20)
    assert np.abs(flat(expected) - flat(network())).max() > 0.1  # it went somewhere
    np.testing.assert_allclose(flat(trained), flat(expected), rtol=1e-4, atol=1e-5)


def test_the_same_secret_gives_the_same_parameters_and_another_one_others():
    model, plan = loose(network()), make_plan()
    before = flat(model).copy()
    one, again, other = (fit(plan, model=model, loss=loose_loss_fn, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(flat(one), flat(again))
    assert np.abs(flat(one) - flat(other)).min() > 0
    np.testing.assert_array_equal(flat(model), before)  # the caller's model is its own


def test_the_released_event_is_that_of_the_plan():
    plan = make_plan(steps=3)
    released = train(plan, zero_loss, {"w": jnp.zeros(2)}, Sensitive(ROWS), secret=Secret.fresh())
    assert released.event == plan.event


def test_the_chunk_size_changes_results_by_rounding_only():
    plan = make_plan(clipping=Flat(0.3))
    small, large = (flat(fit(plan, chunk_size=size)) for size in (3, 1000))
    np.testing.assert_allclose(small, large, rtol=1e-4, atol=1e-5)


def test_parameters_in_no_layer_train_as_those_in_layers_do():
    plan = make_plan(clipping=Flat(0.3))
    in_layers = fit(plan)
    in_a_dict = fit(plan, model=loose(network()), loss=loose_loss_fn)
    np.testing.assert_allclose(flat(in_a_dict), flat(in_layers), rtol=1e-4, atol=1e-5)


def test_the_average_of_the_parameters_is_returned_when_asked_for():
    """Every step moves by 1, so the path is known; the first averages forget the start faster."""

    def slope(model, row, key):
        del key
        return -jnp.sum(model["w"]) * row[0]

    steps, decay = 200, 0.9
    plan = full_batch(
        steps=steps,
        ema_decay=decay,
        expected_batch_size=1.0,
        optimizer=Optimizer(name="sgd", learning_rate=1.0, schedule="constant"),
    )
    trained = fit(plan, model={"w": jnp.zeros(2)}, loss=slope, rows=np.ones((1, 1), np.float32))
    average = 0.0
    for t in range(steps):
        weight = min(decay, (1 + t) / (10 + t))
        average = weight * average + (1 - weight) * (t + 1)
    np.testing.assert_allclose(trained["w"], average, rtol=1e-5)
    # far from the start an average with this decay trails by 9 steps
    np.testing.assert_allclose(trained["w"], steps - 9, rtol=1e-4)


def test_a_public_loss_is_added_after_the_noise_and_without_the_divisor():
    slope = jnp.array([1.0, -2.0, 3.0])
    plan = make_plan(
        steps=1,
        expected_batch_size=1000.0,
        optimizer=Optimizer(name="sgd", learning_rate=1.0, schedule="constant"),
    )
    model = {"w": jnp.zeros(3)}
    without = fit(plan, model=model, loss=zero_loss)
    with_public = fit(
        plan, model=model, loss=zero_loss, public_loss_fn=lambda m: jnp.sum(m["w"] * slope)
    )
    assert np.abs(without["w"]).max() > 0
    np.testing.assert_allclose(without["w"] - with_public["w"], slope, rtol=1e-5)


def test_a_public_loss_that_is_not_finite_leaves_parameters_finite():
    trained = fit(
        make_plan(steps=3),
        model={"w": jnp.zeros(3)},
        loss=zero_loss,
        public_loss_fn=lambda m: jnp.sum(jnp.log(m["w"] * 0)),
    )
    assert np.isfinite(trained["w"]).all()


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("sgd", "constant"),
        ("adam", "constant"),
        ("adam", "cosine"),
        ("rmsprop", "linear"),
        ("adabelief", "cosine"),
    ],
)
def test_every_optimizer_and_every_schedule_finds_the_mean(name, schedule):
    def distance(model, row, key):
        del key
        return jnp.sum((model["w"] - row) ** 2)

    optimizer = Optimizer(name=name, learning_rate=0.05, schedule=schedule, warmup=0.1)
    plan = full_batch(steps=300, optimizer=optimizer)
    rows = ROWS + np.float32([1.0, -1.0, 2.0])
    trained = fit(plan, model={"w": jnp.zeros(3)}, loss=distance, rows=rows)
    np.testing.assert_allclose(trained["w"], rows.mean(0), atol=0.1)


HOSTILE = {
    "NaN": np.nan,
    "infinity": np.inf,
    "minus infinity": -np.inf,
    "1e38": 1e38,
    "the smallest number": 1e-45,
}


@pytest.mark.parametrize("kind", ["layers", "loose"])
def test_parameters_stay_finite_on_hostile_rows(kind):
    values = list(HOSTILE.values())
    rows = np.float32([[a, b, c] for a in values for b in values for c in (*values, 0.0)])
    in_layers = kind == "layers"
    trained = fit(
        make_plan(steps=10),
        model=network() if in_layers else loose(network()),
        loss=loss_fn if in_layers else loose_loss_fn,
        rows=rows,
    )
    assert np.isfinite(flat(trained)).all()


def test_constant_columns_train_to_finite_parameters():
    assert np.isfinite(flat(fit(make_plan(steps=10), rows=np.ones((40, 3), np.float32)))).all()


def test_rows_with_an_unusable_gradient_count_as_if_they_were_not_there():
    plan = full_batch(steps=5)
    hostile = np.float32([[np.nan] * 3, [0, 0, np.inf], [1e38] * 3, [0, np.nan, 0]])
    with_them = fit(plan, rows=np.concatenate([hostile, ROWS]))
    np.testing.assert_allclose(flat(with_them), flat(fit(plan)), rtol=1e-5, atol=1e-6)


def test_a_monitor_hears_of_every_block_in_order_up_to_the_last_step():
    heard: list[int] = []
    fit(make_plan(steps=777), model={"w": jnp.zeros(2)}, loss=zero_loss, monitor=heard.append)
    assert heard[0] == 0
    assert heard == sorted(set(heard))
    assert heard[-1] == 777
    assert len(heard) > 3


def test_noise_has_the_promised_size_and_no_bias():
    """Without a gradient a step is noise only: deviation noise_multiplier * clip_norm / batch.

    With 40000 draws the measured deviation is off by more than 2.5 % in less than 1 of 1e11 runs,
    and the mean by more than 6 standard errors in 1 of 5e8.
    """
    size = 40_000
    plan = make_plan(
        steps=1,
        clipping=Flat(2.0),
        noise_multiplier=3.0,
        expected_batch_size=4.0,
        optimizer=Optimizer(name="sgd", learning_rate=1.0, schedule="constant"),
    )
    noise = np.float64(fit(plan, model={"w": jnp.zeros(size)}, loss=zero_loss)["w"])
    assert noise.std() == pytest.approx(3.0 * 2.0 / 4.0, rel=0.025)
    assert abs(noise.mean()) < 6 * 1.5 / size**0.5
    # neighbors are independent: their correlation is within 6 standard errors
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 6 / size**0.5


def test_noise_differs_between_steps():
    still = Optimizer(name="sgd", learning_rate=1.0, schedule="constant")
    first, both = (
        np.asarray(
            fit(make_plan(steps=n, optimizer=still), model={"w": jnp.zeros(50)}, loss=zero_loss)[
                "w"
            ]
        )
        for n in (1, 2)
    )
    assert np.abs(first).min() > 0
    assert np.abs((both - first) - first).min() > 0


def test_the_progress_bar_shows_steps_and_epsilon_on_standard_error_only(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # take the captured stream for a terminal
    monkeypatch.setenv("COLUMNS", "200")
    plan = make_plan(steps=50)
    with progress_bar(plan, Ledger(), delta=1e-5, total_epsilon=1.25) as monitor:
        for done in (0, 25, 50):
            monitor(done)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "50/50" in captured.err
    assert "epsilon 1.25" in captured.err  # the bound of the whole run, not the looser one of RDP


def test_a_hidden_progress_bar_prints_nothing(capsys):
    with progress_bar(make_plan(), Ledger(), delta=1e-5, total_epsilon=1.0, show=False) as monitor:
        monitor(20)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_the_epsilon_of_a_run_under_way_rises_to_that_of_the_whole_run():
    plan = make_plan(steps=200)
    shown = [float(_spent(plan, Ledger(), done, 1e-5, 12.0)) for done in (0, 1, 50, 100, 200)]
    assert shown[0] == 0
    assert shown == sorted(shown)
    assert 0 < shown[1] < shown[-1] <= 12.0
    assert _spent(full_batch(), Ledger(), 3, 1e-5, np.inf) == "no privacy"


@pytest.mark.parametrize(
    "rows",
    [{"a": np.zeros((3, 1)), "b": np.zeros((4, 1))}, {}, np.zeros((), np.float32)],
    ids=["unequal", "no arrays", "no axis"],
)
def test_records_that_are_uneven_are_refused(rows):
    with pytest.raises(ValueError, match="one common length"):
        fit(make_plan(), rows=rows)


def test_no_records_give_the_very_numbers_of_records_of_whom_nobody_is_drawn():
    plan = make_plan(sampling_rate=2.0**-31)
    none, some = fit(plan, rows=np.zeros((0, 3), np.float32)), fit(plan, rows=ROWS)
    for one, other in zip(jax.tree.leaves(none), jax.tree.leaves(some), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_released_of_no_records_is_noise_of_the_promised_size_and_nothing_else():
    # 40,000 draws: mean and deviation are beyond these bounds in one run of 10^5
    model = {"w": jnp.zeros(40_000)}
    plan = make_plan(
        clipping=Flat(2.0),
        noise_multiplier=3.0,
        sampling_rate=1.0,
        expected_batch_size=1.0,
        steps=1,
        optimizer=Optimizer(name="sgd", learning_rate=1.0, schedule="constant"),
    )
    loss = lambda model, row, key: 1e6 * jnp.sum(model["w"]) * row[0]  # noqa: E731
    nobody = Sensitive(np.zeros((0, 3), np.float32))
    moved = np.asarray(train(plan, loss, model, nobody, secret=Secret.from_seed(5)).value["w"])
    assert abs(moved.std() / 6.0 - 1) < 4.5 / 80_000**0.5
    assert abs(moved.mean()) < 4.5 * 6.0 / 200


def test_a_chunk_holds_at_least_one_record():
    with pytest.raises(ValueError, match="chunk_size must be at least 1, got 0"):
        fit(make_plan(), chunk_size=0)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.complex64])
def test_parameters_whose_norms_cannot_be_trusted_are_refused(dtype):
    with pytest.raises(ValueError, match="parameters must be float32 or float64"):
        fit(make_plan(), model={"weight": jnp.zeros(3, dtype)}, loss=zero_loss)
