"""Frozen modules: their arrays get neither gradient nor noise, and count in no norm."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow import nn
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint, Flat, Optimizer, TrainingPlan, train
from veilflow.engine.observed import loose_size, measured, num_parameters, observe_gradients
from veilflow.flows import Chain, FixedLinear, Flow, GaussianMixture, PiecewiseLinear, maf
from veilflow.nn.frozen import AbstractFrozen, trainable_part, trainable_spec
from veilflow.privacy.guarantees import Sensitive

DIM = 2
ROWS = np.random.default_rng(0).normal(size=(60, DIM)).astype(np.float32)


class Table(AbstractFrozen):
    values: jax.Array
    name: str = eqx.field(static=True, default="table")


class Nested(AbstractFrozen):
    """Frozen, with a frozen module and plain containers inside."""

    inner: Table
    more: tuple[jax.Array, dict[str, jax.Array]]


class Model(eqx.Module):
    layer: nn.Dense
    loose: jax.Array
    table: AbstractFrozen
    count: jax.Array

    def __call__(self, x):
        return jnp.sum(self.layer(x) * self.loose * self.table.values)  # type: ignore[attr-defined]


def make_model(table: AbstractFrozen | None = None) -> Model:
    layer = nn.Dense.create(DIM, 3, key=jax.random.key(1))
    table = Table(jnp.array([0.05, -0.2, 0.3])) if table is None else table
    return Model(layer, jnp.array([1.0, 2.0, 0.5]), table, jnp.array(7))


def loss_fn(model, row, key):
    return model(row) ** 2


def frozen_start() -> Flow:
    """A small flow between a released mixture and a released start, as a fit trains and returns it."""
    means = np.array([[-1.0, 0.5], [1.0, -0.5]])
    base = GaussianMixture.create([0.4, 0.6], means, np.stack([np.eye(2), 0.5 * np.eye(2)]))
    start = (
        FixedLinear(factor=np.array([[2.0, 0.0], [0.3, 0.7]]), shift=[0.1, -0.2]),
        PiecewiseLinear.create(np.array([[-2.0, 0.1, 2.0], [-1.0, 0.3, 4.0]]), border=2.0),
    )
    trained = maf(DIM, key=jax.random.key(2), blocks=1, hidden=(4,)).bijection
    return Flow(base, Chain((trained, *start)))


def of_flow(flow, row, key):
    return -flow.private_log_prob(row)


def plan(**changes) -> TrainingPlan:
    settings = {
        "clipping": Flat(1.0),
        "noise_multiplier": 1e4,
        "sampling_rate": 0.5,
        "expected_batch_size": 30.0,
        "steps": 6,
        "optimizer": Optimizer(learning_rate=0.1, weight_decay=0.1),
        "ema_decay": 0.5,
    }
    return TrainingPlan(**{**settings, **changes})


def run(model, loss, **options):
    secret = Secret.from_seed(3)
    return train(plan(), loss, model, Sensitive(ROWS), secret=secret, **options).value


# -- what is trained -------------------------------------------------------------------------------


def test_a_model_is_cut_in_two_and_joined_again():
    model = make_model()
    trained, rest = trainable_part(model)
    assert [leaf.shape for leaf in jax.tree.leaves(trained)] == [(3, DIM), (3,), (3,)]
    assert [leaf.shape for leaf in jax.tree.leaves(rest)] == [(3,), ()]
    assert eqx.tree_equal(eqx.combine(trained, rest), model)
    assert trainable_spec(model).table.values is False
    assert trainable_spec(model).loose is True
    assert trainable_spec(model).count is False  # whole numbers never are


def test_everything_inside_a_frozen_module_is_frozen():
    nested = Nested(Table(jnp.ones(3)), (jnp.ones(2), {"a": jnp.ones(4)}))
    assert jax.tree.leaves(trainable_part(nested)[0]) == []
    assert num_parameters(nested) == 0
    assert num_parameters([nested, jnp.ones(5)]) == 5


def test_frozen_arrays_are_not_counted_as_parameters():
    model = make_model()
    assert num_parameters(model) == 3 * DIM + 3 + 3
    assert loose_size(model) == 3
    flow = frozen_start()
    assert num_parameters(flow) == num_parameters(
        maf(DIM, key=jax.random.key(0), blocks=1, hidden=(4,))
    )
    assert loose_size(flow) == 0


def test_shapes_in_place_of_arrays_count_like_the_arrays():
    """A price is settled before anything is built."""
    for model in (make_model(), frozen_start(), maf(DIM, key=jax.random.key(0))):
        shapes = eqx.filter_eval_shape(lambda model: model, model)
        assert not any(eqx.is_array(leaf) for leaf in jax.tree.leaves(shapes))
        assert num_parameters(shapes) == num_parameters(model) > 0
        assert loose_size(shapes) == loose_size(model)
        assert jax.tree.leaves(trainable_spec(shapes)) == jax.tree.leaves(trainable_spec(model))


class Hiding(AbstractFrozen):
    layers: tuple


@pytest.mark.parametrize("use", [trainable_part, num_parameters, loose_size])
def test_a_layer_must_not_hide_in_a_frozen_module(use):
    """Its tap would be laid and its gradient counted, whatever the spec says."""
    model = [Hiding((jnp.ones(2), nn.Scale(jnp.zeros(2))))]
    with pytest.raises(ValueError, match="Hiding is frozen and must not hold layers"):
        use(model)


def test_a_layer_hidden_in_a_frozen_module_is_refused_by_the_engine():
    class Sly(eqx.Module):
        hiding: Hiding

        def __call__(self, x):
            return jnp.sum(self.hiding.layers[0](x))

    with pytest.raises(ValueError, match="must not hold layers"):
        run(Sly(Hiding((nn.Scale(jnp.zeros(DIM)),))), loss_fn)


# -- gradients, norms and noise --------------------------------------------------------------------


@eqx.filter_jit
def norms_and_sum(model, rows):
    keep = jnp.ones(len(rows), bool)
    observed = measured(observe_gradients(loss_fn, model, rows, keep, jax.random.key(0)))
    return observed.squared_norm(), observed.weighted_sum(observed.everywhere(jnp.ones(len(rows))))


def test_norms_and_sums_are_those_of_the_trained_part_alone():
    model, rows = make_model(), jnp.asarray(ROWS[:9])
    norms, total = norms_and_sum(model, rows)
    trained, rest = trainable_part(model)
    grads = jax.vmap(
        jax.grad(lambda t, row: loss_fn(eqx.combine(t, rest), row, None)), in_axes=(None, 0)
    )(trained, rows)
    leaves = [np.float64(g).reshape(len(rows), -1) for g in jax.tree.leaves(grads)]
    np.testing.assert_allclose(norms, sum((g**2).sum(axis=1) for g in leaves), rtol=1e-5)
    assert jax.tree.structure(total) == jax.tree.structure(trained)
    for ours, theirs in zip(jax.tree.leaves(total), jax.tree.leaves(grads), strict=True):
        np.testing.assert_allclose(ours, theirs.sum(axis=0), rtol=1e-4, atol=1e-5)


def test_thawing_a_table_adds_its_gradient_to_the_norm():
    """The test above could not tell if the table had no gradient at all."""

    class Thawed(eqx.Module):
        values: jax.Array

    frozen, thawed = make_model(), make_model(Thawed(make_model().table.values))  # type: ignore
    rows = jnp.asarray(ROWS[:9])
    assert (norms_and_sum(thawed, rows)[0] > 1.001 * norms_and_sum(frozen, rows)[0]).all()


def test_training_with_much_noise_and_decay_leaves_released_arrays_alone_bit_for_bit():
    flow = frozen_start()
    trained = run(flow, of_flow)
    before, after = trainable_part(flow), trainable_part(trained)
    assert jax.tree.structure(before[1]) == jax.tree.structure(after[1])
    kept = list(zip(jax.tree.leaves(before[1]), jax.tree.leaves(after[1]), strict=True))
    assert len(kept) == 4 + 3 + 2  # of the mixture, the linear map, the marginals
    for one, two in kept:
        np.testing.assert_array_equal(one, two, strict=True)
    for one, two in zip(*map(jax.tree.leaves, (before[0], after[0])), strict=True):
        assert np.abs(one - two).max() > 1e-2  # the rest was moved, by noise for the most part


def test_two_releases_of_one_shape_share_a_compiled_program_and_not_their_values():
    traces = []

    def traced(model, row, key):
        traces.append(row)
        return loss_fn(model, row, key)

    moved = eqx.tree_at(lambda m: m.table.values, make_model(), jnp.array([5.0, 1.0, -1.0]))
    one = run(make_model(), traced)
    compiled = len(traces)
    two = run(moved, traced)
    assert len(traces) == compiled > 0
    np.testing.assert_array_equal(two.table.values, [5.0, 1.0, -1.0])
    assert not eqx.tree_equal(one.layer, two.layer)


def test_a_run_with_frozen_arrays_goes_on_from_its_checkpoint(tmp_path: Path):
    class Stopped(Exception):
        pass

    def stop(done: int) -> None:
        if done > 1:  # the first block, of one step, is written down
            raise Stopped

    path, undisturbed = tmp_path / "run", run(frozen_start(), of_flow)
    with pytest.raises(Stopped):
        run(frozen_start(), of_flow, checkpoint=Checkpoint(path, seconds=0), monitor=stop)
    saved = Checkpoint(path).read()
    assert saved is not None
    assert saved.step == 1
    frozen = {leaf.shape for leaf in jax.tree.leaves(trainable_part(frozen_start())[1])}
    assert not any(x.shape in frozen - {()} for x in saved.arrays.values())
    again = run(frozen_start(), of_flow, checkpoint=Checkpoint(path, seconds=0))
    assert eqx.tree_equal(again, undisturbed)
