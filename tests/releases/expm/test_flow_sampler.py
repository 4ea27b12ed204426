"""The flow sampler trains towards the target, as a density, and says what its guarantee rests on."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.releases.expm.arrays_of import largest_array
from tests.releases.expm.two_parameters import RECORDS, SAMPLERS, SENSITIVE, TARGET, grid, trained
from veilflow._core.keys import Secret
from veilflow.privacy.events import ExponentialMechanism
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.expm import flow_sampler
from veilflow.releases.expm import target as targets
from veilflow.releases.expm.flow_sampler import FLOWS, FlowSampler, divergence

SHORT = FlowSampler(flow="planar", blocks=1, steps=3, samples=4, batch_size=16)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_well_trained_flow_has_the_marginals_of_the_grid(name, key):
    # 100,000 draws in bins of this width are .005 off by chance
    keys = jax.random.split(key, 100_000)
    thetas = np.asarray(jax.jit(jax.vmap(trained(name).open().sample))(keys), np.float64)
    assert grid().distance(thetas) < 0.05


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "push"), [*((name, 1.0) for name in FLOWS), ("planar", 30.0), ("sylvester", 30.0)]
)
def test_log_dets_are_those_of_autodiff_and_every_flow_is_invertible(name, push, key):
    sampler = FlowSampler(flow=name, blocks=2, rank=2, hidden=(8,))

    @eqx.filter_jit
    def both(flow, z):
        forward = flow.bijection.forward_and_log_det
        jacobian = jax.jacfwd(lambda z: forward(z)[0])(z)
        return forward(z)[1], *jnp.linalg.slogdet(jacobian)

    for build_key, z_key in jax.random.split(key, (4, 2)):
        # pushed far beyond where an unconstrained planar or Sylvester flow folds over, at the center
        flow = jax.tree.map(lambda leaf: push * leaf, sampler.build(3, key=build_key))
        log_det, sign, expected = both(flow, jax.random.normal(z_key, (3,)) / push**2)
        assert sign == 1
        assert log_det == pytest.approx(float(expected), rel=1e-3, abs=1e-3)


def test_reflections_never_become_matrices(key):
    dim = 257
    flow = FlowSampler(flow="sylvester", blocks=2, rank=3).build(dim, key=key)
    gradient = jax.grad(lambda z: flow.bijection.forward_and_log_det(z)[1])
    assert largest_array(gradient, jnp.zeros(dim)) < 20 * dim


def mean_of_divergences(sampler, *, num=800):
    flow, records = sampler.build(2, key=jax.random.key(0)), targets.on_device(RECORDS)
    one = lambda key: divergence(flow, sampler, TARGET, records, key=key)  # noqa: E731
    found = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), num)), float)
    return found.mean(), found.std() / np.sqrt(num)


def test_batches_stand_for_all_records_and_more_samples_for_no_more_epsilon():
    full, error = mean_of_divergences(dataclasses.replace(SHORT, batch_size=None))
    batched, batched_error = mean_of_divergences(SHORT)
    many, many_error = mean_of_divergences(dataclasses.replace(SHORT, samples=32), num=200)
    # four standard errors: one run in ten thousand would fail; without n / b it is off by dozens
    assert abs(batched - full) < 4 * np.hypot(error, batched_error)
    assert abs(many - full) < 4 * np.hypot(error, many_error)
    assert max(error, batched_error, many_error) < 0.03 * abs(full)


@pytest.mark.few(1)
@pytest.mark.parametrize("numbers", [1, 700, 2**26])
def test_the_smooth_target_is_the_same_in_chunks_of_any_size(numbers, monkeypatch):
    monkeypatch.setattr(targets, "_NUMBERS", numbers)
    thetas = jnp.asarray([[1.0, -1.0], [0.0, 2.0], [3.0, 0.5]])
    total = jax.jit(lambda thetas: targets.log_densities(TARGET, thetas, RECORDS))
    one = lambda theta: TARGET.log_density(theta, RECORDS)  # noqa: E731
    np.testing.assert_allclose(total(thetas), jax.jit(jax.vmap(one))(thetas), rtol=1e-5)
    gradient = jax.grad(lambda thetas: total(thetas).sum())(thetas)
    expected = [jax.grad(one)(theta) for theta in thetas]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)


def test_the_smooth_target_is_the_exact_one_up_to_rounding():
    thetas = jnp.asarray([[1.0, -1.0], [-4.0, 2.0]])
    exact = -TARGET.rate * TARGET.losses(np.asarray(thetas), RECORDS)
    np.testing.assert_allclose(targets.log_weights(TARGET, thetas, RECORDS), exact, rtol=1e-4)


def test_epsilon_is_a_factor_and_no_part_of_the_compiled_program(monkeypatch):
    flow, records = SHORT.build(2, key=jax.random.key(0)), targets.on_device(RECORDS)
    double = dataclasses.replace(TARGET, epsilon=2 * TARGET.epsilon)

    def found(target, **how):
        return float(divergence(flow, SHORT, target, records, key=jax.random.key(1), **how))

    assert found(double) == pytest.approx(found(TARGET, factor=2.0), rel=1e-5)
    assert found(double) != pytest.approx(found(TARGET), rel=1e-2)
    traced = []
    monkeypatch.setattr(
        flow_sampler,
        "divergence",
        lambda *args, **how: traced.append(1) or divergence(*args, **how),
    )
    short = dataclasses.replace(SHORT, steps=5)  # a program that no other test has compiled
    first = short.fit(TARGET, SENSITIVE, secret=Secret.from_seed(7)).open()
    num = len(traced)
    other = short.fit(double, SENSITIVE, secret=Secret.from_seed(7)).open()
    assert len(traced) == num > 0
    leaves = zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True)
    assert any((a != b).any() for a, b in leaves)


def test_a_draw_carries_its_event_and_the_sampler_its_condition():
    released = SHORT.draw(TARGET, SENSITIVE, secret=Secret.from_seed(7))
    assert released.event == ExponentialMechanism(TARGET.epsilon) == SHORT.event(TARGET.epsilon)
    assert released.value.shape == (2,)
    assert str(SHORT.assumption).startswith("CONDITIONAL:")
    again = SHORT.draw(TARGET, SENSITIVE, secret=Secret.from_seed(7))
    other = SHORT.draw(TARGET, SENSITIVE, secret=Secret.from_seed(8))
    assert (released.value == again.value).all()
    assert (released.value != other.value).all()


def test_the_trained_flow_stays_behind_the_door():
    flow = SHORT.fit(TARGET, SENSITIVE, secret=Secret.from_seed(7))
    assert isinstance(flow, Sensitive)
    assert "shift" not in repr(flow)


def test_no_record_and_a_record_of_nan_are_trained_on_all_the_same():
    x, y = RECORDS
    broken = np.where(np.arange(len(x))[:, None] == 3, np.nan, x)
    for records in ((x[:0], y[:0]), (broken, y)):
        full = dataclasses.replace(SHORT, batch_size=None)
        flow = full.fit(TARGET, Sensitive(records), secret=Secret.from_seed(7)).open()
        leaves = jax.tree.leaves(flow)
        start = jax.tree.leaves(full.build(2, key=Secret.from_seed(7).key("flow start")))
        assert all(np.isfinite(leaf).all() for leaf in leaves)
        assert any((a != b).any() for a, b in zip(leaves, start, strict=True))


@pytest.mark.parametrize(
    "wrong",
    [
        {"flow": "maf"},
        {"blocks": 0},
        {"steps": 0},
        {"samples": 0},
        {"base_scale": 0.0},
        {"batch_size": 0},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FlowSampler(**wrong)
