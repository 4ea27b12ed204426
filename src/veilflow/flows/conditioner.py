"""The masked network (MADE) that sets each coordinate's parameters from the coordinates before it.

Inputs have degrees 1..D. A hidden unit of degree k sees inputs of degree <= k, the outputs for
coordinate i see hidden units of degree <= i - 1, so they depend on inputs 1..i-1 only. Hidden units
are sorted by degree: units of one degree lie side by side, each group is a slice, and everything a
group sees is a prefix. Norms and the sequential inverse are cheap because of it.

References:
    Germain, Gregor, Murray, Larochelle, "MADE: Masked autoencoder for distribution estimation",
    2015.
"""

from itertools import pairwise
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.nn.masked import Degrees, MaskedDense

Activation = Literal["tanh", "relu"]
_ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


def hidden_degrees(dim: int, size: int) -> Degrees:
    """Degrees of `size` hidden units: sorted, spread evenly over 1..dim-1, the last one dim-1."""
    last = max(dim - 1, 1)  # with one coordinate: units that no output may see
    if size >= last:
        spread = np.ceil(np.arange(1, size + 1) * last / size)  # groups differ by one unit at most
    else:  # fewer units than degrees: some are skipped, but not the two ends
        spread = np.linspace(1, last, size).round() if size > 1 else [last]
    return tuple(int(degree) for degree in spread)


class MaskedMLP(eqx.Module):
    """A masked network from `dim` coordinates to `num_params` parameters for each of them."""

    layers: tuple[MaskedDense, ...]
    dim: int = eqx.field(static=True)
    num_params: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        dim: int,
        num_params: int,
        *,
        key: Key[Array, ""],
        hidden: tuple[int, ...] = (100, 100),
        activation: Activation = "tanh",
        last_layer_scale: float = 0.01,
    ) -> "MaskedMLP":
        """A fresh network whose outputs start close to zero.

        Args:
            dim: How many coordinates go in.
            num_params: How many parameters come out for each coordinate.
            key: Spent here, for the weights.
            hidden: Sizes of the hidden layers.
            activation: "tanh" or "relu".
            last_layer_scale: Factor on the last layer's weights. Small, so that a bijection that is
                the identity at zero parameters starts close to it.

        Returns:
            The network.

        Raises:
            ValueError: If a size is below 1 or the activation is unknown.
        """
        check.count(dim=dim, num_params=num_params)
        for size in hidden:
            check.count(hidden=size)
        check.one_of(tuple(_ACTIVATIONS), activation=activation)
        degrees = [
            tuple(range(1, dim + 1)),
            *(hidden_degrees(dim, size) for size in hidden),
            tuple(range(dim)) * num_params,
        ]
        keys = jax.random.split(key, len(degrees) - 1)
        layers = [
            MaskedDense.create(before, after, key=keys[i])
            for i, (before, after) in enumerate(pairwise(degrees))
        ]
        layers[-1] = eqx.tree_at(
            lambda m: m.weight, layers[-1], last_layer_scale * layers[-1].weight
        )
        return cls(tuple(layers), dim, num_params, activation)

    def __call__(self, x: Float[Array, " dim"]) -> Float[Array, "num_params dim"]:
        """Parameters for every coordinate: row p holds parameter p of all coordinates."""
        for layer in self.layers[:-1]:
            x = _ACTIVATIONS[self.activation](layer(x))
        return self.layers[-1](x).reshape(self.num_params, self.dim)
