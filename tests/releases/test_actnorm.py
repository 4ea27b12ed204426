"""ActNorms set from noisy moments: sound sensitivity, and about standard coordinates."""

import jax
import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow.flows import Flow, StandardNormal, maf, reverse
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.actnorm import ActNorms, with_actnorms
from veilflow.releases.release import Tools

DIM, BLOCKS = 3, 2
NOISE = (5.0, 3.0)


def make_flow(actnorm: bool = True) -> Flow:
    return maf(DIM, key=jax.random.key(0), blocks=BLOCKS, hidden=(4,), actnorm=actnorm)


def shifted(size: int = 3000) -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(size, DIM)) * np.array([0.1, 0.5, 0.8]) + np.array([1.5, -0.4, 0.0])
    return np.float32(np.clip(rows, -(3**0.5), 3**0.5))


def started(rows, *, noise=NOISE, num_records=None, seed=0) -> Released[Flow]:
    flow = make_flow()
    released = ActNorms(dim=DIM, noise_multipliers=noise).run(
        Sensitive(np.float32(rows)),
        Tools(Secret.from_seed(seed)),
        flow=flow,
        num_records=max(len(rows), 1) if num_records is None else num_records,
    )
    return released.map(lambda value: with_actnorms(flow, value))


def test_rows_come_out_about_standard():
    rows = shifted(50_000)
    flow = started(rows).value
    z = np.asarray(jax.jit(jax.vmap(lambda x: flow.bijection.inverse_and_log_det(x)[0]))(rows))
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(z.std(axis=0), 1, atol=0.05)
    before = make_flow().bijection
    z = np.asarray(jax.jit(jax.vmap(lambda x: before.inverse_and_log_det(x)[0]))(rows))
    assert np.abs(z.mean(axis=0)).max() > 0.5  # which they were not


def test_only_the_actnorms_are_set():
    flow, fresh = started(shifted()).value, make_flow()
    assert jax.tree.structure(flow) == jax.tree.structure(fresh)
    changed = [
        jax.tree_util.keystr(path)
        for (path, one), two in zip(
            jax.tree_util.tree_leaves_with_path(flow), jax.tree.leaves(fresh), strict=True
        )
        if not np.array_equal(one, two)
    ]
    (path,) = changed  # scales and shifts are one vector
    assert ".bijections[0]." in path


@pytest.mark.parametrize("num_records", [1.0, 1e9])
@pytest.mark.parametrize("rows", [np.zeros((0, DIM)), np.zeros((4, DIM)), np.full((4, DIM), 1.7)])
def test_whatever_the_rows_and_the_count_all_numbers_are_finite(rows, num_records):
    flow = started(rows, num_records=num_records, noise=(1e4, 1e-3)).value
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(flow))


def test_a_flow_without_actnorms_is_refused():
    for flow in (make_flow(actnorm=False), Flow(StandardNormal(DIM), reverse(DIM))):
        with pytest.raises(TypeError, match=r"ActNorm|scanned blocks"):
            ActNorms(dim=DIM, noise_multipliers=NOISE).run(
                Sensitive(shifted(5)), Tools(Secret.from_seed(0)), flow=flow, num_records=5
            )
