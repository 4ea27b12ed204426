"""A network of dense layers, with an optional condition besides its input."""

from itertools import pairwise
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import Condition
from veilflow.nn.dense import Dense

Activation = Literal["tanh", "relu"]
ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


def check_layers(hidden: tuple[int, ...], activation: str) -> None:
    """Raise unless every hidden layer has a unit and the activation is known."""
    for size in hidden:
        check.count(hidden=size)
    check.one_of(tuple(ACTIVATIONS), activation=activation)


def with_condition(x: Array, condition: Condition, *, condition_dim: int) -> Array:
    """All inputs of a network, the condition first; a condition that is not used is ignored.

    Raises:
        ValueError: If the condition is missing or not of size `condition_dim`.
    """
    if not condition_dim:  # some blocks of a chain may use the condition, and others not
        return x
    if condition is None or condition.shape != (condition_dim,):
        shape = "none" if condition is None else f"shape {condition.shape}"
        raise ValueError(
            f"condition must have shape ({condition_dim},), as this network was built with "
            f"condition_dim={condition_dim}, got {shape}. One example has one condition; for "
            "batches map over both with jax.vmap."
        )
    return jnp.concatenate([condition, x])


class MLP(eqx.Module):
    """A network from `in_size` numbers and an optional condition to `out_size` numbers."""

    layers: tuple[Dense, ...]
    activation: Activation = eqx.field(static=True)
    condition_dim: int = eqx.field(static=True, default=0)

    @classmethod
    def create(
        cls,
        in_size: int,
        out_size: int,
        *,
        key: Key[Array, ""],
        hidden: tuple[int, ...] = (100, 100),
        activation: Activation = "tanh",
        last_layer_scale: float = 0.01,
        condition_dim: int = 0,
    ) -> "MLP":
        """A new network whose outputs start close to zero.

        Args:
            in_size: Number of inputs; 0 for outputs that depend on the condition only.
            out_size: Number of outputs.
            key: Spent here, for the weights.
            hidden: Sizes of the hidden layers.
            activation: "tanh" or "relu".
            last_layer_scale: Factor on the last layer's weights. Small, so that a bijection that is
                the identity at zero parameters starts close to it.
            condition_dim: Size of the condition; 0 for none.

        Returns:
            The network.

        Raises:
            ValueError: If a size is out of range or the activation is unknown.
        """
        check.count(at_least=0, in_size=in_size, condition_dim=condition_dim)
        check.count(out_size=out_size)
        check_layers(hidden, activation)
        sizes = (in_size + condition_dim, *hidden, out_size)
        keys = jax.random.split(key, len(sizes) - 1)
        layers = [Dense.create(*pair, key=keys[i]) for i, pair in enumerate(pairwise(sizes))]
        layers[-1] = eqx.tree_at(
            lambda m: m.weight, layers[-1], last_layer_scale * layers[-1].weight
        )
        return cls(tuple(layers), activation, condition_dim)

    @property
    def in_size(self) -> int:
        """Number of inputs, without the condition."""
        return self.layers[0].weight.shape[-1] - self.condition_dim

    @property
    def out_size(self) -> int:
        """Number of outputs."""
        return self.layers[-1].weight.shape[-2]

    def __call__(
        self, x: Float[Array, " in_size"], condition: Condition = None
    ) -> Float[Array, " out_size"]:
        """The outputs for one example."""
        x = with_condition(x, condition, condition_dim=self.condition_dim)
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.layers[-1](x)
