"""Networks as modules that gradients are taken of, and their parameters as the flat vector again.

A network of `vf.expm` is a function of one flat vector, which suits samplers. Steps of gradients want
layers that know their own clipped sums (`veilflow.nn`). Both compute the same function.
"""

import math
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow.models.expm.grud import GruD
from veilflow.models.expm.loss import BoundedLoss
from veilflow.models.expm.network import Logistic, Mlp, Network
from veilflow.nn.dense import Dense

LOSSES = ("bce", "l2")


class Trainable(Protocol):
    """A network in training."""

    def logits(self, record: Any) -> Float[Array, " outputs"]:
        """Log odds of the second of two classes, or one number for each of more."""
        ...

    def theta(self) -> Float[np.ndarray, " dim"]:
        """The parameters as `Network.outputs` takes them."""
        ...


class Layers(eqx.Module):
    """Logistic regression, or layers of tanh units."""

    layers: tuple[Dense, ...]
    scaled: bool = eqx.field(static=True)
    """Whether the flat vector holds weights times the root of how many numbers a layer sums."""

    def logits(self, record: Float[Array, " features"]) -> Float[Array, " outputs"]:
        """Of one record."""
        *first, last = self.layers
        for layer in first:
            record = jnp.tanh(layer(record))
        return last(record)

    def theta(self) -> Float[np.ndarray, " dim"]:
        """The parameters, layer after layer, the intercept of each unit behind its weights."""
        parts = []
        for layer in self.layers:
            assert layer.bias is not None
            whole = np.concatenate([layer.weight, np.asarray(layer.bias)[:, None]], axis=1)
            parts.append(whole * (math.sqrt(whole.shape[1]) if self.scaled else 1.0))
        return np.concatenate([part.ravel() for part in parts])


def trainable_of(network: Network, inputs: Any, *, key: Key[Array, ""]) -> Any:
    """A fresh module of this network.

    Args:
        network: Of the classifier.
        inputs: Of all records; only the number of hours of a series is read.
        key: For random weights.

    Raises:
        TypeError: Nobody has said how to train it.
    """
    if isinstance(network, GruD):
        from veilflow.models.expm.baselines.trainable_grud import TrainableGruD

        return TrainableGruD.create(network, hours=inputs[0].shape[1], key=key)
    outputs = 1 if network.num_classes == 2 else network.num_classes
    if isinstance(network, Logistic):
        weight = jnp.zeros((outputs, network.num_features))
        layer = Dense(weight=weight, bias=jnp.zeros(outputs))
        return Layers((layer,), scaled=False)
    if isinstance(network, Mlp):
        sizes = (network.num_features, *network.hidden, outputs)
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        return Layers(tuple(Dense.create(a, b, key=k) for a, b, k in pairs), scaled=True)
    raise TypeError(f"a {type(network).__name__} cannot be trained by gradients here.")


def bce(model: Trainable, record: tuple[Any, Array], key: Any = None) -> Float[Array, ""]:
    """The cross-entropy of one record."""
    inputs, label = record
    logits = model.logits(inputs)
    if logits.shape[0] == 1:
        return jax.nn.softplus(jnp.where(label == 1, -logits[0], logits[0]))
    return -jax.nn.log_softmax(logits)[label]


def l2(model: Trainable, record: tuple[Any, Array], key: Any = None) -> Float[Array, ""]:
    """The squared error of the probabilities of one record: the exponential mechanism's loss."""
    inputs, label = record
    logits = model.logits(inputs)
    if logits.shape[0] == 1:
        return BoundedLoss("l2")(jax.nn.sigmoid(logits[0]), label)
    return BoundedLoss("l2", logits.shape[0])(jax.nn.softmax(logits), label)


LOSS_FNS = {"bce": bce, "l2": l2}
