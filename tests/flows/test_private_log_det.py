"""A log-determinant that is clipped with the record's part keeps the two in balance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engine.hostile import norm
from veilflow import engine
from veilflow.engine.observed import clipped_total, observe_gradients
from veilflow.flows import ActNorm, FixedLinear, Flow, PrivateLogDet, StandardNormal


@pytest.mark.parametrize("of", ["private", "public"])
def test_where_the_clip_binds_only_a_private_log_determinant_leaves_the_best_flow_alone(of: str):
    norms = ActNorm.create(4)  # the identity: exactly right for standard normal records
    flow = Flow(StandardNormal(4), PrivateLogDet.create(norms) if of == "private" else norms)
    rows, clip_norm = jax.random.normal(jax.random.key(0), (4000, 4)), 0.1

    @jax.jit
    def direction(flow, rows):
        loss_key, clip_key = jax.random.split(jax.random.key(1))
        captured = observe_gradients(
            lambda flow, row, key: -flow.private_log_prob(row),
            flow,
            rows,
            jnp.ones(4000, bool),
            loss_key,
        )
        clip = lambda o, k: engine.Flat(clip_norm).clip(o, (), k)  # noqa: E731
        total = clipped_total(clip, captured, clip_key)
        public = jax.grad(lambda flow: -flow.public_log_prob())(flow)
        return jax.tree.map(lambda t, p: t / 4000 + p, total, public)

    length = norm(direction(flow, rows))
    # a step in this direction moves scales that are right: by nothing, or by 1 each, whatever the clip
    assert length < clip_norm if of == "private" else length > 1.8


def test_arrays_that_are_not_trained_do_not_go_into_the_private_log_determinant():
    fixed = FixedLinear.from_moments(np.zeros(2), np.eye(2))
    with pytest.raises(ValueError, match="FixedLinear holds arrays that are not trained"):
        PrivateLogDet.create(fixed)
