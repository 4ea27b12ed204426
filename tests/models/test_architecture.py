"""Architectures: plain settings whose sizes are known before anything is built."""

import json

import equinox as eqx
import jax
import numpy as np
import pytest

import veilflow as vf
from veilflow._core.codec import plain, restored
from veilflow.engine.observed import num_parameters
from veilflow.flows import StandardNormal
from veilflow.models.architecture import Architecture

ALL = {
    "maf": vf.maf(),
    "maf, small": vf.maf(blocks=2, hidden=(3,)),
    "maf, deep": vf.maf(blocks=1, hidden=(4, 5, 6)),
    "maf, no hidden layer": vf.maf(blocks=2, hidden=()),
    "nsf": vf.nsf(),
    "nsf, few bins": vf.nsf(blocks=2, hidden=(3, 4), num_bins=2),
    "realnvp": vf.realnvp(),
    "realnvp, small": vf.realnvp(blocks=3, hidden=(2,)),
    "with actnorm": Architecture(kind="realnvp", blocks=2, hidden=(4,), actnorm=True),
    "nsf with actnorm": Architecture(kind="nsf", blocks=2, hidden=(4,), num_bins=3, actnorm=True),
}
every = pytest.mark.parametrize("name", ALL)


@every
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_number_of_parameters_is_known_without_building(name, dim):
    flow = eqx.filter_eval_shape(lambda: ALL[name].build(dim, key=jax.random.key(0)))
    assert num_parameters(flow) == ALL[name].num_parameters(dim)
    assert sum(leaf.size for leaf in jax.tree.leaves(flow)) == ALL[name].num_parameters(dim)
    assert flow.dim == dim
    assert flow.base == StandardNormal(dim)


@every
def test_json_gives_the_same_architecture_back(name):
    data = json.loads(json.dumps(plain(ALL[name])))
    assert restored(Architecture, data) == ALL[name]
    assert hash(restored(Architecture, data)) == hash(ALL[name])


def test_numbers_from_numpy_and_lists_become_plain():
    found = vf.maf(blocks=np.int64(2), hidden=[np.int32(3), 4])  # type: ignore[arg-type]
    assert found == vf.maf(blocks=2, hidden=(3, 4))
    assert json.dumps(plain(found)) == json.dumps(plain(vf.maf(blocks=2, hidden=(3, 4))))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: vf.maf(blocks=0), ValueError, "blocks must be at least 1, got 0"),
        (lambda: vf.maf(blocks=1001), ValueError, "blocks must be at most 1000, got 1001"),
        (lambda: vf.maf(blocks=True), TypeError, "blocks must be a whole number"),
        (lambda: vf.maf(blocks=2.0), TypeError, "blocks must be a whole number"),
        (lambda: vf.maf(hidden=16), TypeError, "hidden must be a list"),
        (lambda: vf.maf(hidden="16"), TypeError, "hidden must be a list"),
        (lambda: vf.maf(hidden={16: 1}), TypeError, "hidden must be a list"),
        (lambda: vf.maf(hidden=(16, 0)), ValueError, "hidden must be at least 1, got 0"),
        (lambda: vf.maf(hidden=(16, None)), TypeError, "hidden must be a whole number"),
        (lambda: vf.maf(hidden=(1,) * 21), ValueError, "hidden must have at most 20"),
        (lambda: vf.nsf(num_bins=1), ValueError, "num_bins must be at least 2, got 1"),
        (lambda: vf.nsf(num_bins=None), ValueError, "a nsf has num_bins"),
        (
            lambda: Architecture(kind="maf", blocks=1, hidden=(4,), num_bins=8),
            ValueError,
            "other flows have none",
        ),
        (
            lambda: Architecture(kind="iaf", blocks=1, hidden=(4,)),
            ValueError,
            "kind must be one of 'maf', 'nsf', 'realnvp', got 'iaf'",
        ),
        (
            lambda: Architecture(kind="__class__", blocks=1, hidden=()),
            ValueError,
            "kind must be one of",
        ),
    ],
)
def test_settings_that_make_no_flow_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
