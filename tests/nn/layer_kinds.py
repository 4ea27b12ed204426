"""One small model for every kind of layer, and for loose parameters; every test runs on all."""

import equinox as eqx
import jax
import jax.numpy as jnp

from veilflow import nn

IN, OUT = 6, 5


class Sequence(eqx.Module):
    parts: tuple

    def __call__(self, x):
        for part in self.parts:
            x = jnp.tanh(part(x))
        return x


class Stacked(eqx.Module):
    """Three blocks with parameters of their own, scanned."""

    block: Sequence

    def __call__(self, x):
        arrays, rest = eqx.partition(self.block, eqx.is_array)
        x, _ = jax.lax.scan(lambda x, part: (eqx.combine(part, rest)(x), None), x, arrays)
        return x


class Recurrent(eqx.Module):
    """One network used several times in a row by each record."""

    reused: nn.Reused

    def __call__(self, x):
        x, _ = self.reused.scan(lambda layer, x, _: (jnp.tanh(layer(x)) + 0.1 * x, None), x)
        return x


class Image(eqx.Module):
    conv: nn.Conv2d

    def __call__(self, x):
        return jnp.tanh(self.conv(jnp.outer(x, x[::-1])[None] + jnp.ones((2, 1, 1)))).ravel()


class Loose(eqx.Module):
    matrix: jax.Array
    layer: nn.Dense
    name: str = eqx.field(static=True, default="loose")

    def __call__(self, x):
        return self.layer(jnp.sin(self.matrix @ x))


def _masked(key, size=IN):
    return nn.MaskedDense.create(tuple(range(size)), tuple(range(1, size + 1)), key=key)


def _stacked(key):
    def make(key):
        one, two = jax.random.split(key)
        return Sequence(
            (_masked(one), nn.Scale(jnp.full(IN, 0.3)), nn.Dense.create(IN, IN, key=two))
        )

    return Stacked(eqx.filter_vmap(make)(jax.random.split(key, 3)))


def _conv(key, size, **options):
    return Image(nn.Conv2d.create(2, 3, size, image_size=(IN, IN), key=key, **options))


def _away_from_identity(model, key):
    leaves, treedef = jax.tree.flatten(model)
    keys = jax.random.split(key, len(leaves))
    moved = [
        x + 0.3 * jax.random.normal(k, x.shape) if eqx.is_inexact_array(x) else x
        for x, k in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(treedef, moved)


KINDS = {
    "dense": lambda key: nn.Dense.create(IN, OUT, key=key),
    "dense without bias": lambda key: nn.Dense.create(IN, OUT, key=key, bias=False),
    "masked": _masked,
    "masked without bias": lambda key: nn.MaskedDense.create(
        (3, 1, 2, 2, 0, 5), (0, 2, 2, 4, -1), key=key, bias=False
    ),
    "scale": lambda key: nn.Scale(jnp.zeros(IN)),
    "shift": lambda key: nn.Shift(jnp.zeros(IN)),
    "LU": lambda key: nn.LULinear.create(IN, key=key, spread=1.0),
    "low rank 1": lambda key: nn.LowRankLinear.create(IN, key=key, spread=1.0),
    "low rank 3": lambda key: nn.LowRankLinear.create(IN, key=key, rank=3, spread=1.0),
    "stacked blocks": _stacked,
    "reused dense": lambda key: Recurrent(nn.Reused(nn.Dense.create(IN, IN, key=key), uses=4)),
    "reused dense, few uses": lambda key: Recurrent(
        nn.Reused(nn.Dense.create(IN, IN, key=key), uses=2)
    ),
    "reused masked": lambda key: Recurrent(nn.Reused(_masked(key), uses=4)),
    "reused masked, few levels": lambda key: Recurrent(
        nn.Reused(nn.MaskedDense.create((0, 0, 0, 1, 1, 1), (0, 0, 0, 1, 1, 1), key=key), uses=1)
    ),
    "reused scale and shift": lambda key: Recurrent(
        nn.Reused(Sequence((nn.Scale(jnp.zeros(IN)), nn.Shift(jnp.zeros(IN)))), uses=3)
    ),
    "convolution": lambda key: _conv(key, 3),
    "convolution, strided, no bias": lambda key: _conv(
        key, 4, stride=2, padding="VALID", bias=False
    ),
    "convolution, one position": lambda key: _conv(key, IN, padding="VALID"),
    "loose parameters": lambda key: Loose(jnp.zeros((IN, IN)), nn.Dense.create(IN, OUT, key=key)),
}


def make(name):
    make_key, move_key = jax.random.split(jax.random.key(7))
    return _away_from_identity(KINDS[name](make_key), move_key)


def loss_fn(model, record, key):
    del key
    output = model(record)
    return jnp.sum(jnp.sin(output) * jnp.arange(1.0, output.size + 1))
