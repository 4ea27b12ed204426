"""Ready-made flows: densities given a condition, close to their base, robust, and trainable."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import quick
from tests.flows.test_bijections import shaken
from veilflow._core.errors import PrivacyError
from veilflow.flows import AbstractBase, Flow, StandardNormal, iaf, maf, nsf, realnvp
from veilflow.nn.tap import is_layer, with_tap, zero_tap
from veilflow.nn.uses import check_taps_used_once

ARCHITECTURES: dict[str, Callable[..., Flow]] = {
    "maf": maf,
    "nsf": nsf,
    "realnvp": realnvp,
    "realnvp spline": lambda *args, **options: realnvp(*args, scalar_map="spline", **options),
    "iaf": iaf,
}
every = pytest.mark.parametrize("name", ARCHITECTURES)
of_records = pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "iaf"])


def fresh(name: str, dim: int, **options) -> Flow:
    options = {"blocks": 2, "hidden": (8, 8), **options}
    with quick.weights():
        return ARCHITECTURES[name](dim, key=jax.random.key(0), **options)


@quick.jit
def log_prob(flow: Flow, rows: jax.Array, condition: jax.Array | None = None) -> jax.Array:
    return jax.vmap(flow.log_prob, in_axes=(0, None))(rows, condition)


@pytest.mark.few(3)
@every
@pytest.mark.parametrize(("dim", "num"), [(1, 4001), (2, 301)])
def test_given_a_condition_the_density_integrates_to_one_and_depends_on_it(name, dim, num):
    flow = shaken(fresh(name, dim, condition_dim=2), 0.25)
    axis = np.linspace(-14, 14, num, dtype=np.float32)
    points = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), -1).reshape(-1, dim)
    densities = []
    for condition in ([0.0, 1.0], [-2.0, 0.5]):
        density = np.exp(np.float64(log_prob(flow, points, jnp.array(condition))))
        densities.append(density)
        total = density.reshape((num,) * dim)
        for _ in range(dim):
            total = np.trapezoid(total, axis, axis=-1)
        np.testing.assert_allclose(total, 1, atol=5e-3)
    assert np.abs(densities[0] - densities[1]).max() > 0.05 * densities[0].max()


class Wide(AbstractBase):
    """Normals of standard deviation 3."""

    dim: int = eqx.field(static=True)

    def log_prob(self, z):
        return StandardNormal(self.dim).log_prob(z / 3) - self.dim * np.log(3)

    def sample(self, key):
        return 3 * jax.random.normal(key, (self.dim,))


@every
@pytest.mark.parametrize("base", [StandardNormal(3), Wide(3)], ids=["normal", "given"])
def test_a_fresh_flow_is_close_to_its_base(name: str, base: AbstractBase):
    flow = fresh(name, 3, base=None if isinstance(base, StandardNormal) else base)
    x = jax.random.normal(jax.random.key(1), (50, 3))
    np.testing.assert_allclose(log_prob(flow, x), quick.jit(jax.vmap(base.log_prob))(x), atol=0.1)


@every
def test_a_sample_carries_the_log_prob_the_flow_gives_it(name: str):
    flow = shaken(fresh(name, 3, condition_dim=1, actnorm=True), 0.1)
    condition = jnp.array([0.5])
    draw = quick.jit(
        lambda flow, keys: jax.vmap(lambda key: flow.sample_and_log_prob(key, condition))(keys)
    )
    samples, log_probs = draw(flow, jax.random.split(jax.random.key(2), 40))
    np.testing.assert_allclose(log_probs, log_prob(flow, samples, condition), atol=2e-3)


def num_equations(flow: Flow, dim: int) -> int:
    return str(jax.make_jaxpr(flow.log_prob)(jnp.zeros(dim))).count(" = ")


@every
def test_the_program_does_not_grow_with_the_number_of_blocks(name: str):
    short, long = (num_equations(fresh(name, 4, blocks=blocks), 4) for blocks in (2, 9))
    assert short == long > 0


@every
def test_all_of_a_density_is_clipped_scales_of_actnorms_included(name: str):
    for actnorm in (False, True):
        flow = shaken(fresh(name, 2, actnorm=actnorm), 0.2)
        assert flow.public_log_prob() == 0


def with_taps(flow: Flow) -> tuple[Callable, tuple]:
    """The density at one record as a function of taps, and the taps."""
    layers, structure = jax.tree.flatten(flow, is_leaf=is_layer)
    assert all(is_layer(layer) for layer in layers)

    def of(taps):
        laid = [with_tap(layer, tap) for layer, tap in zip(layers, taps, strict=True)]
        return jax.tree.unflatten(structure, laid).private_log_prob(jnp.zeros(3), jnp.zeros(1))

    return of, tuple(zero_tap(layer) for layer in layers)


@of_records
def test_all_trained_numbers_sit_in_layers_and_a_record_passes_each_once(name: str):
    check_taps_used_once(*with_taps(fresh(name, 3, condition_dim=1, actnorm=True)))


def test_an_iaf_is_a_maf_turned_around_and_refuses_taps():
    density, taps = with_taps(fresh("iaf", 3, condition_dim=1))
    with pytest.raises(PrivacyError, match="data to base"):
        density(taps)
    z = jnp.array([0.5, -1.0, 2.0])
    turned = shaken(fresh("iaf", 3), 0.2).bijection.forward_and_log_det(z)
    plain = shaken(fresh("maf", 3), 0.2).bijection.inverse_and_log_det(z)
    np.testing.assert_allclose(turned[0], plain[0], atol=1e-5)
    np.testing.assert_allclose(turned[1], plain[1], atol=1e-5)


@of_records
def test_hostile_rows_and_large_noise_give_no_overflow_in_values_or_gradients(name: str):
    flow = shaken(fresh(name, 4, hidden=(16, 16), actnorm=True), 0.5)
    rows = np.random.default_rng(0).normal(size=(12, 4)).astype("f4")
    rows[:6] = np.array([1e6, -1e6, 1e3, 4.0, -4.0, 0.0], "f4")[:, None]
    rows[6:9, 1] = [1e6, -1e6, 1e-30]

    @eqx.filter_jit  # as in training: what overflows may be the compiler's choice
    @eqx.filter_grad(has_aux=True)
    def gradient(flow):
        each = log_prob(flow, rows)
        return jnp.sum(each), each

    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient(flow)))


@pytest.mark.parametrize("dim", [2, 4, 5])
def test_in_a_coupling_flow_every_coordinate_comes_to_see_every_other(dim: int):
    flow = shaken(fresh("realnvp", dim, blocks=8), 0.3)
    x = jnp.linspace(-1, 1, dim)
    jacobian = quick.jit(jax.jacfwd(lambda x: flow.bijection.inverse_and_log_det(x)[0]))(x)
    assert np.all(jacobian != 0)


def fitted(flow: Flow, rows: jax.Array, steps: int) -> jax.Array:
    """The mean log-likelihood after some plain steps of Adam."""
    adam = optax.adam(3e-2)

    def step(carry, _):
        flow, state = carry
        loss = lambda flow: -jnp.mean(jax.vmap(flow.log_prob)(rows))  # noqa: E731
        value, gradient = jax.value_and_grad(loss)(flow)
        updates, state = adam.update(gradient, state)
        return (optax.apply_updates(flow, updates), state), -value

    run = quick.jit(lambda f: jax.lax.scan(step, (f, adam.init(f)), None, length=steps))
    return run(flow)[1][-1]


def test_splines_learn_two_modes_where_an_affine_flow_stays_normal():
    modes = np.array([[-2.0], [2.0]] * 100) + 0.2 * np.random.default_rng(0).normal(size=(200, 1))
    rows = jnp.asarray(modes, jnp.float32)
    likelihood = {name: fitted(fresh(name, 1, blocks=1), rows, 200) for name in ("maf", "nsf")}
    assert likelihood["maf"] < -2.0  # the best normal has -2.13
    assert likelihood["nsf"] > -1.0  # the truth has -0.50


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: fresh("nsf", 0), "dim must be at least 1"),
        (lambda: fresh("realnvp", 0), "dim must be at least 1"),
        (lambda: fresh("nsf", 2, blocks=0), "blocks must be at least 1"),
        (lambda: fresh("nsf", 2, num_bins=1), "num_bins must be at least 2"),
        (lambda: fresh("realnvp spline", 2, bound=-1.0), "bound must be positive"),
        (lambda: fresh("realnvp", 2, hidden=(0,)), "hidden must be at least 1"),
        (lambda: fresh("iaf", 2, activation="sin"), "activation must be one of"),
        (lambda: fresh("maf", 2, base=StandardNormal(3)), "base has 3 dimensions, bijection 2"),
        (lambda: fresh("maf", 2, condition_dim=-1), "condition_dim must be at least 0"),
        (
            lambda: realnvp(2, key=jax.random.key(0), scalar_map="cubic"),  # type: ignore[arg-type]
            "scalar_map must be one of 'affine', 'spline', got 'cubic'",
        ),
    ],
)
def test_a_wrong_argument_is_named(wrong: Callable, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()
