"""Assemblies: the shape of a fitted flow from plain sizes, however hostile the sizes."""

import dataclasses
import json
import tracemalloc
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import veilflow as vf
from veilflow._core import codec
from veilflow.flows import (
    Affine,
    Blend,
    Chain,
    FixedLinear,
    GaussianMixture,
    Histogram,
    PiecewiseLinear,
    StandardNormal,
)
from veilflow.models.assembly import Assembly, in_order, join, over

SMALL = vf.maf(blocks=2, hidden=(3,))
ALL = {
    "nothing": Assembly(dim=2),
    "flow": Assembly(dim=2, architecture=SMALL),
    "whitening": Assembly(dim=3, linear=True),
    "columns": Assembly(dim=3, linear=True, pieces=8, border=3**0.5),
    "columns and flow": Assembly(dim=3, architecture=vf.nsf(), linear=True, pieces=512),
    "mixture": Assembly(dim=2, components=4),
    "mixture and flow": Assembly(dim=2, components=4, architecture=vf.realnvp(), linear=True),
    "mixture of shapes": Assembly(dim=2, components=4, architecture=replace(SMALL, radial=True)),
    "grid": Assembly(dim=2, components=8, bits=3, blend=0.3),
    "grid and flow": Assembly(dim=2, components=8, bits=3, blend=0.3, architecture=SMALL),
    "a large grid": Assembly(dim=3, components=128, bits=7, blend=0.05),
}
every = pytest.mark.parametrize("name", ALL)


@every
def test_the_numbers_are_counted_without_building(name):
    skeleton = ALL[name].skeleton()
    assert sum(leaf.size for leaf in jax.tree.leaves(skeleton)) == ALL[name].num_numbers
    assert skeleton.dim == ALL[name].dim


@every
def test_json_gives_the_same_assembly_back(name):
    plain = json.loads(json.dumps(codec.plain(ALL[name])))
    assert codec.restored(Assembly, plain) == ALL[name]


def test_a_skeleton_has_the_structure_of_the_flow_that_was_fitted():
    flow = SMALL.build(2, key=jax.random.key(0))
    linear = FixedLinear(factor=np.array([[2.0, 0.0], [1.0, 3.0]]), shift=[5.0, 6.0])
    columns = PiecewiseLinear.create(np.cumsum(np.ones((2, 5)), axis=1), border=2.0)
    mixture = GaussianMixture.create([1.0], [[0.0, 1.0]], [2 * np.eye(2)])
    grid = Histogram.create(np.full((4, 4), 1 / 16), border=2.0)
    blend = Blend((mixture, grid), (0.4, 0.6))
    whole = {"linear": True, "pieces": 4, "border": 2.0, "architecture": SMALL}
    for base in (StandardNormal(2), mixture, blend):
        fitted = join(over(base, flow), (linear, columns))
        assembly = Assembly(dim=2, **whole).with_base(base)
        skeleton = assembly.skeleton()
        assert jax.tree.structure(skeleton) == jax.tree.structure(fitted)
        same = jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), skeleton, fitted)
        assert all(jax.tree.leaves(same))
    assert assembly.components == 1
    assert assembly.bits == 2
    assert assembly.blend == 0.4


def test_a_flow_of_nothing_is_its_base():
    flow = join(StandardNormal(2), ())
    assert jax.tree.leaves(flow) == []
    assert isinstance(flow.bijection, Chain)
    (identity,) = flow.bijection.bijections
    assert identity == Affine(shift=[0, 0], scale=[1, 1])


@pytest.mark.parametrize("kind", [vf.maf, vf.nsf, vf.realnvp])
@pytest.mark.parametrize(("dim", "blocks"), [(1, 2), (5, 3)])
def test_a_flow_in_order_that_does_nothing_leaves_every_coordinate_in_its_place(kind, dim, blocks):
    trained = kind(blocks=blocks, hidden=(4,)).build(dim, key=jax.random.key(0)).bijection
    idle = jax.tree.map(jnp.zeros_like, trained)
    x = jnp.arange(1.0, dim + 1)
    back, _ = in_order(idle).inverse_and_log_det(x)
    np.testing.assert_allclose(back, x, atol=1e-5)
    if dim > 1:
        bare, _ = idle.inverse_and_log_det(x)
        assert not np.allclose(bare, x, atol=0.5)  # so the order did matter


def test_every_row_of_the_domain_has_the_density_of_the_floor_at_least():
    """A flow that left a place alone, and a base that overflows there, do not make it impossible."""
    assembly = Assembly(dim=2, border=2.0, floor=0.01)
    narrow = GaussianMixture.create([1.0], [[0.0, 0.0]], [1e-6 * np.eye(2)])
    floored = assembly.floored(join(narrow, ()), ball=False)
    corners = jnp.float32([[2, 2], [-2, -2], [1, -2], [0, 0]])
    found = jax.vmap(floored.log_prob)(corners)
    np.testing.assert_allclose(found[:3], np.log(0.01 / 16), rtol=1e-5)
    assert found[3] > 10
    keys = jax.random.split(jax.random.key(0), 20_000)
    drawn = np.asarray(jax.jit(jax.vmap(floored.sample))(keys))
    assert np.mean(np.abs(drawn).max(axis=1) > 0.1) == pytest.approx(0.01, abs=0.004)


def test_the_floor_of_a_ball_is_spread_over_the_ball_and_not_the_box_around_it():
    dim = 10
    assembly = Assembly(dim=dim, border=2.0, floor=0.01)
    narrow = GaussianMixture.create([1.0], [np.zeros(dim)], [1e-6 * np.eye(dim)])
    floored = assembly.floored(join(narrow, ()), ball=True)
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(100, dim))
    sphere = np.float32(2 * normal / np.linalg.norm(normal, axis=1, keepdims=True))
    # the volume of the ball of radius 2 in ten dimensions, by its closed form
    expected = np.log(0.01) - np.log(np.pi**5 / 120 * 2.0**10)
    found = jax.vmap(floored.log_prob)(jnp.asarray(sphere))
    np.testing.assert_allclose(found, expected, atol=2e-4)
    corner = jnp.full(dim, 1.9)  # in the box, far outside the ball
    assert floored.log_prob(corner) < -1e6  # what the narrow normal has there


# -- sizes from a file nobody vouches for ----------------------------------------------------------

HOSTILE = {
    "dim": [0, -1, 10**9, 10**30, 2.0, "2", None, True, [2]],
    "pieces": [0, -3, 1.5, "8", True, [8]],
    "components": [None, 0, -1, 2.5, "4", [4]],
    "bits": [None, 0, -2, 25, 10**9, 1.5, "3"],
    "linear": [None, "no", 1, []],
    "border": [0.0, -1.0, float("nan"), float("inf"), "1", None, [1.0]],
    "blend": [None, 0.0, 1.0, -1.0, 2.0, float("nan"), float("inf"), "0.3", [0.3]],
    "architecture": [
        [],
        "maf",
        {},
        {"kind": "maf"},
        {"kind": "iaf", "blocks": 1, "hidden": [3], "num_bins": None, "actnorm": False},
        {"kind": "maf", "blocks": 10**9, "hidden": [3], "num_bins": None, "actnorm": False},
        {"kind": "maf", "blocks": 2, "hidden": 3, "num_bins": None, "actnorm": False},
        {"kind": "maf", "blocks": 2, "hidden": "33", "num_bins": None, "actnorm": False},
        {"kind": "maf", "blocks": 2, "hidden": [[3]], "num_bins": None, "actnorm": False},
        {"kind": "maf", "blocks": 2, "hidden": [-3], "num_bins": None, "actnorm": False},
        {"kind": "maf", "blocks": 2, "hidden": [1] * 100, "num_bins": None, "actnorm": False},
    ],
    "floor": [0.0, 1.0, -1e-3, float("nan"), "0.1", None],
    "surprise": [1],
}
LARGE = {
    "dim": [3, 100_000],
    "pieces": [7, 10**12, 10**30],
    "components": [9, 10**12],
    "bits": [4, 12],
    "linear": [True],
    "architecture": [
        {"kind": "maf", "blocks": 1000, "hidden": [10**9], "num_bins": None, "actnorm": False},
        {"kind": "nsf", "blocks": 2, "hidden": [3], "num_bins": 10**12, "actnorm": False},
        {"kind": "maf", "blocks": 2, "hidden": [4], "num_bins": None, "actnorm": True},
    ],
}
WHOLE = codec.plain(ALL["grid and flow"])


def rebuilt(plain: dict) -> None:
    """What loading does with the sizes in a file."""
    assembly = codec.restored(Assembly, plain)
    if assembly.num_numbers != ALL["grid and flow"].num_numbers:
        raise ValueError("not as many numbers")
    assembly.skeleton()


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in {**HOSTILE}.items() for value in values]
    + [(name, value) for name, values in LARGE.items() for value in values],
    ids=lambda x: str(x)[:40],
)
def test_sizes_that_cannot_be_are_refused_before_anything_large_is_made(name, value):
    tracemalloc.start()
    try:
        with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
            rebuilt({**WHOLE, name: value})
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_a_file_without_arrays_cannot_ask_for_a_giant():
    """Sizes that hold no numbers at all cannot be compared with any."""
    for dim in (10**6, 10**9):
        with pytest.raises(ValueError, match="dim must be at most 100000"):
            codec.restored(Assembly, {**codec.plain(ALL["nothing"]), "dim": dim})
    assert Assembly(dim=100_000).skeleton().dim == 100_000


def test_an_assembly_is_frozen_and_its_skeleton_makes_no_arrays():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ALL["grid"].dim = 3  # type: ignore[misc]
    leaves = jax.tree.leaves(ALL["a large grid"].skeleton())
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
    assert not any(eqx.is_array(leaf) for leaf in leaves)
