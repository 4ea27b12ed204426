"""Another library's flows, with the same weights, have the same densities.

flowjax keeps its parameters in another order and bounds them in another way. So weights are permuted
when they are copied, and `Translated` turns what a network of flowjax says into what ours would have
to say for the same map.
"""

import operator
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import quick
from veilflow.flows import (
    MLP,
    AbstractScalarMap,
    AffineMap,
    Autoregressive,
    Chain,
    Coupling,
    Flow,
    MaskedMLP,
    Permutation,
    SplineMap,
    StandardNormal,
)
from veilflow.nn import Dense

flowjax = pytest.importorskip(
    "flowjax", reason="flowjax, an oracle for densities, is not installed"
)

import flowjax.bijections as theirs  # noqa: E402
import paramax  # noqa: E402
from flowjax import distributions, flows  # noqa: E402
from flowjax.utils import get_ravelled_pytree_constructor  # noqa: E402

DIM, LAYERS, WIDTH, BINS, BOUND = 3, 3, 12, 5, 3.0
TRANSFORMERS: dict[str, Callable[[], Any]] = {
    "affine": lambda: None,  # their default
    "spline": lambda: theirs.RationalQuadraticSpline(knots=BINS - 1, interval=BOUND),
}
MAPS = {"affine": AffineMap(), "spline": SplineMap(num_bins=BINS, bound=BOUND)}


def unbounded(value: jax.Array, bound: float) -> jax.Array:
    """The raw number whose soft bound is `value`."""
    return bound * jnp.arctanh(value / bound)


def of_affine(transformer: Any) -> jax.Array:
    """Theirs is z = scale x + loc, ours z = (x - shift) / exp(log_scale)."""
    shift, log_scale = -transformer.loc / transformer.scale, -jnp.log(transformer.scale)
    return jnp.stack([shift, unbounded(log_scale, AffineMap().log_scale_bound)])


def of_spline(transformer: Any) -> jax.Array:
    """Widths, heights and inner slopes; a hundredth of the box is shared out evenly by ours."""
    raw = []
    for knots in (transformer.x_pos, transformer.y_pos):
        parts = (jnp.diff(knots) / (2 * BOUND) - 0.01 / BINS) / 0.99
        raw.append(unbounded(jnp.log(BINS * parts), 3.0))
    return jnp.concatenate([*raw, unbounded(jnp.log(transformer.derivatives[1:-1]), 3.0)])


TRANSLATIONS = {"affine": of_affine, "spline": of_spline}


class Translated(AbstractScalarMap):
    """Our map `kind`, set by the parameters a flowjax network gives to its transformer."""

    kind: str = eqx.field(static=True)
    constructor: Callable = eqx.field(static=True)
    size: int = eqx.field(static=True)

    @property
    def num_params(self) -> int:
        return self.size

    def forward_and_log_det(self, z, params):
        return MAPS[self.kind].forward_and_log_det(z, self._ours(params))

    def inverse_and_log_det(self, x, params):
        return MAPS[self.kind].inverse_and_log_det(x, self._ours(params))

    def _ours(self, params: jax.Array) -> jax.Array:
        one = lambda raw: TRANSLATIONS[self.kind](paramax.unwrap(self.constructor(raw)))  # noqa: E731
        return one(params) if params.ndim == 1 else jax.vmap(one, in_axes=1, out_axes=1)(params)


def by_parameter(array: jax.Array, num_params: int) -> jax.Array:
    """Outputs in our order: parameter by parameter, where theirs goes coordinate by coordinate."""
    return array.reshape(-1, num_params, *array.shape[1:]).swapaxes(0, 1).reshape(array.shape)


def copied(linears: list, layers: tuple, orders: list, num_params: int) -> tuple:
    """Our layers with their weights; `orders` says which of their units each of ours is."""
    filled = []
    for k, (linear, layer) in enumerate(zip(linears, layers, strict=True)):
        weight, bias = linear.weight[:, orders[k]], linear.bias
        if k == len(layers) - 1:
            weight, bias = by_parameter(weight, num_params), by_parameter(bias, num_params)
        else:
            weight, bias = weight[orders[k + 1]], bias[orders[k + 1]]
        assert weight.shape == layer.weight.shape
        if not isinstance(layer, Dense):  # what our mask hides must be nothing in theirs
            np.testing.assert_array_equal(weight * (1 - layer.mask), 0)
        filled.append(eqx.tree_at(lambda m: (m.weight, m.bias), layer, (weight, bias)))
    return tuple(filled)


def of_autoregressive(layer: Any, scalar_map: Translated, condition_dim: int) -> Autoregressive:
    network = MaskedMLP.create(
        DIM,
        scalar_map.num_params,
        key=jax.random.key(0),
        hidden=(WIDTH, WIDTH),
        condition_dim=condition_dim,
    )
    # theirs spreads the degrees round robin, ours sorts them
    num_ranks = DIM if condition_dim else DIM - 1
    hidden = np.argsort(np.arange(WIDTH) % num_ranks, kind="stable")
    orders = [np.roll(range(DIM + condition_dim), condition_dim), hidden, hidden]
    linears = layer.masked_autoregressive_mlp.layers
    layers = copied(linears, network.layers, orders, scalar_map.num_params)
    return Autoregressive(eqx.tree_at(lambda n: n.layers, network, layers), scalar_map)


def of_coupling(layer: Any, scalar_map: Translated, condition_dim: int) -> Coupling:
    passing = DIM // 2
    network = MLP.create(
        passing,
        (DIM - passing) * scalar_map.num_params,
        key=jax.random.key(0),
        hidden=(WIDTH, WIDTH),
        condition_dim=condition_dim,
    )
    hidden = np.arange(WIDTH)
    orders = [np.roll(range(passing + condition_dim), condition_dim), hidden, hidden]
    layers = copied(layer.conditioner.layers, network.layers, orders, scalar_map.num_params)
    return Coupling(eqx.tree_at(lambda n: n.layers, network, layers), scalar_map, DIM)


KINDS = {
    "autoregressive": (flows.masked_autoregressive_flow, of_autoregressive),
    "coupling": (flows.coupling_flow, of_coupling),
}


def network_of(layer: Any) -> Any:
    name = "conditioner" if isinstance(layer, theirs.Coupling) else "masked_autoregressive_mlp"
    return getattr(layer, name)


def with_slopes_of_one_at_the_ends(linear: Any, num_params: int) -> Any:
    """They train the slopes at the ends of the box, which breaks the density there; we do not."""
    free = np.ones(num_params, bool)
    free[[2 * BINS, -1]] = False
    keep = jnp.asarray(np.tile(free, linear.bias.size // num_params), jnp.float32)
    return eqx.tree_at(
        lambda m: (m.weight, m.bias), linear, (linear.weight * keep[:, None], linear.bias * keep)
    )


def both(kind: str, transformer: str, condition_dim: int) -> tuple[Any, Flow]:
    """A random flow of flowjax, layer by layer, and our copy of it."""
    build, copy = KINDS[kind]
    flow = build(
        jax.random.key(5),
        base_dist=distributions.StandardNormal((DIM,)),
        transformer=TRANSFORMERS[transformer](),
        cond_dim=condition_dim or None,
        flow_layers=LAYERS,
        nn_width=WIDTH,
        nn_depth=2,
        nn_activation=jnp.tanh,
    )
    stacked = paramax.unwrap(flow.bijection.bijection.bijection)  # inside Invert and Scan
    num_params = 2 if transformer == "affine" else 3 * BINS + 1
    their_layers, blocks = [], []
    arrays, rest = eqx.partition(stacked, eqx.is_array)
    for i in range(LAYERS):
        layer, permute = eqx.combine(jax.tree.map(operator.itemgetter(i), arrays), rest).bijections
        if transformer == "spline":
            last = lambda m: network_of(m).layers[-1]  # noqa: E731
            layer = eqx.tree_at(
                last, layer, with_slopes_of_one_at_the_ends(last(layer), num_params)
            )
        their_layers += [layer, permute]
        scalar_map = Translated(transformer, layer.transformer_constructor, num_params)
        order = Permutation(np.argsort(permute.permutation[0]))
        blocks.append(Chain([order, copy(layer, scalar_map, condition_dim)]))
    chain = theirs.Invert(theirs.Chain(their_layers))
    their_flow = distributions.Transformed(flow.base_dist, chain)
    # theirs runs from data to base, ours is written from base to data
    return their_flow, Flow(StandardNormal(DIM), Chain(blocks[::-1]))


@pytest.mark.parametrize(
    ("kind", "transformer", "condition_dim"),
    [
        ("autoregressive", "affine", 0),
        ("autoregressive", "spline", 2),
        ("coupling", "affine", 2),
        ("coupling", "spline", 0),
    ],
)
def test_a_flow_with_the_weights_of_flowjax_has_its_density(kind, transformer, condition_dim):
    random = np.random.default_rng(1)
    x = jnp.asarray(1.5 * random.normal(size=(30, DIM)), jnp.float32)
    condition = jnp.asarray(random.normal(size=condition_dim), jnp.float32)
    condition = condition if condition_dim else None
    density = quick.jit(lambda f: jax.vmap(lambda x: f.log_prob(x, condition))(x))
    with jax.numpy_rank_promotion("allow"):
        with quick.weights():
            their_flow, flow = both(kind, transformer, condition_dim)
        log_probs = density(their_flow)
        z = quick.jit(lambda f: f.bijection.inverse(x[0], condition))(their_flow)
    unmoved = quick.jit(jax.vmap(flow.base.log_prob))(x)
    assert np.std(np.asarray(log_probs) - np.asarray(unmoved)) > 0.1  # it does something
    np.testing.assert_allclose(density(flow), log_probs, atol=1e-4)
    forward = quick.jit(lambda f: f.bijection.forward_and_log_det(z, condition)[0])
    np.testing.assert_allclose(forward(flow), x[0], atol=1e-3)


def test_a_spline_with_the_knots_of_flowjax_is_the_same_spline():
    spline = theirs.RationalQuadraticSpline(knots=BINS - 1, interval=BOUND)
    raw = 0.6 * np.random.default_rng(2).normal(size=3 * BINS + 1).astype("f4")
    raw[[2 * BINS, -1]] = 0.0  # slopes of 1 at the ends
    constructor, _ = get_ravelled_pytree_constructor(spline, eqx.is_inexact_array)
    spline = paramax.unwrap(constructor(raw))
    x = jnp.linspace(-1.2 * BOUND, 1.2 * BOUND, 40)
    with jax.numpy_rank_promotion("allow"):
        theirs_at = jax.jit(jax.vmap(spline.transform_and_log_det))(x)
    params = jnp.broadcast_to(of_spline(spline)[:, None], (3 * BINS - 1, 40))
    ours_at = jax.jit(MAPS["spline"].inverse_and_log_det)(x, params)
    for a, b in zip(ours_at, theirs_at, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
