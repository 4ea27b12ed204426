"""Rows and models whose gradients misbehave in every way float32 knows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from veilflow import nn

DIM = 3

# NaN, infinities, the largest and smallest floats, and everything between
rows = hnp.arrays(np.float32, (6, DIM), elements=st.floats(width=32))


class Model(eqx.Module):
    """A dense, a masked and an elementwise layer, and a loose parameter."""

    dense: nn.Dense
    masked: nn.MaskedDense
    scale: nn.Scale
    loose: jax.Array


def make_model():
    one, two, three = jax.random.split(jax.random.key(3), 3)
    return Model(
        nn.Dense.create(DIM, 4, key=one),
        nn.MaskedDense.create((0, 0, 1, 1), (0, 1, 1), key=two),
        nn.Scale(jnp.full(3, 0.1)),
        jax.random.normal(three, (3,)),
    )


def loss_fn(model, row, key):
    # linear in the row at the start and steep at the end, so that hostile rows reach every layer
    y = model.scale(model.masked(model.dense(row)))
    return jnp.sum(jnp.exp(jnp.clip(y, -80, 80)) + model.loose * y * row)


def norm(tree):
    leaves = [np.float64(leaf) for leaf in jax.tree.leaves(tree)]
    return float(np.sqrt(sum(np.sum(np.square(leaf)) for leaf in leaves)))


def subtract(a, b):
    return jax.tree.map(lambda x, y: np.float64(x) - np.float64(y), a, b)
