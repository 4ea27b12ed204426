"""The masked network (MADE) that sets each coordinate's parameters from the coordinates before it.

Inputs have degrees 1..D. A hidden unit of degree k sees inputs of degree <= k, the outputs for
coordinate i see hidden units of degree <= i - 1, so they depend on inputs 1..i-1 only. A condition
has degree 0: every unit sees it. Hidden units are sorted by degree, so the units of one degree are a
slice. A network whose inputs become known one by one therefore need not run once for each of them: with
inputs 1..i known, exactly the units of degree i can be added to those already known. Every unit and
every output is computed once, which is one pass in all.

References:
    Germain, Gregor, Murray, Larochelle, "MADE: Masked autoencoder for distribution estimation",
    2015.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from veilflow._core import check
from veilflow.flows.bijection import Condition
from veilflow.flows.network import ACTIVATIONS, Activation, check_layers, with_condition
from veilflow.nn.masked import Degrees, MaskedDense

Known = tuple[Float[Array, " size"], ...]
"""Values of the inputs, the condition first, and of each hidden layer; zero where not known yet."""


def hidden_degrees(dim: int, size: int, *, conditional: bool = False) -> Degrees:
    """Degrees of `size` hidden units: sorted, spread evenly over 1..dim-1, the last one dim-1.

    With a condition they start at 0; otherwise the first coordinate would not depend on it.
    """
    first = 0 if conditional else 1
    last = max(dim - 1, first)  # with one coordinate and no condition, no output sees the units
    count = last - first + 1
    if size >= count:  # groups differ by one unit at most
        spread = first - 1 + np.ceil(np.arange(1, size + 1) * count / size)
    else:  # fewer units than degrees: some degrees are skipped, but not the two ends
        spread = np.linspace(first, last, size).round() if size > 1 else [last]
    return tuple(int(degree) for degree in spread)


@lru_cache(maxsize=256)
def groups(degrees: Degrees, dim: int) -> tuple[np.ndarray, int]:
    """Starts and size of equal slices, the i-th of which holds all units of degree i.

    The slice of a smaller group includes neighbors. That is harmless: a unit of lower degree gets the
    same value as before, and one of higher degree is computed again before anything depends on it.
    """
    bounds = np.searchsorted(degrees, np.arange(dim + 1))
    size = max(1, int(np.diff(bounds).max()))
    return np.minimum(bounds[:-1], len(degrees) - size).astype(np.int32), size


class MaskedMLP(eqx.Module):
    """A masked network from `dim` coordinates to `num_params` parameters for each of them."""

    layers: tuple[MaskedDense, ...]
    dim: int = eqx.field(static=True)
    num_params: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    condition_dim: int = eqx.field(static=True, default=0)

    @classmethod
    def create(
        cls,
        dim: int,
        num_params: int,
        *,
        key: Key[Array, ""],
        hidden: tuple[int, ...] = (100, 100),
        activation: Activation = "tanh",
        first_layer_scale: float = 2.0,
        last_layer_scale: float = 0.01,
        condition_dim: int = 0,
    ) -> "MaskedMLP":
        """A new network whose outputs start close to zero.

        Args:
            dim: Number of coordinates.
            num_params: Number of parameters for each coordinate.
            key: Spent here, for the weights.
            hidden: Sizes of the hidden layers.
            activation: "tanh" or "relu".
            first_layer_scale: Factor on the first layer's weights. Above 1, so that hidden units are
                nonlinear over the range of standard coordinates from the start: noise leaves little
                room to learn it.
            last_layer_scale: Factor on the last layer's weights. Small, so that a bijection that is
                the identity at zero parameters starts close to it.
            condition_dim: Size of the condition; 0 for none.

        Returns:
            The network.

        Raises:
            ValueError: If a size is below 1 or the activation is unknown.
        """
        check.count(dim=dim, num_params=num_params)
        check.count(at_least=0, condition_dim=condition_dim)
        check_layers(hidden, activation)
        degrees = [
            (0,) * condition_dim + tuple(range(1, dim + 1)),
            *(hidden_degrees(dim, size, conditional=condition_dim > 0) for size in hidden),
            tuple(range(dim)) * num_params,
        ]
        keys = jax.random.split(key, len(degrees) - 1)
        layers = [
            MaskedDense.create(before, after, key=keys[i])
            for i, (before, after) in enumerate(pairwise(degrees))
        ]
        for place, scale in ((0, first_layer_scale if hidden else 1.0), (-1, last_layer_scale)):
            weight = scale * layers[place].weight
            layers[place] = eqx.tree_at(lambda m: m.weight, layers[place], weight)
        return cls(tuple(layers), dim, num_params, activation, condition_dim)

    def __call__(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> Float[Array, "num_params dim"]:
        """Parameters for every coordinate: row p holds parameter p of all coordinates."""
        # the condition is first because inputs are sorted by degree
        x = with_condition(x, condition, condition_dim=self.condition_dim)
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.layers[-1](x).reshape(self.num_params, self.dim)

    def nothing_known(self, condition: Condition = None, *, dtype: Any = jnp.float32) -> Known:
        """The start of a pass coordinate by coordinate: only the condition is known."""
        nothing = jnp.zeros(self.dim, dtype)
        inputs = with_condition(nothing, condition, condition_dim=self.condition_dim)
        hidden = (jnp.zeros(len(layer.out_degrees), dtype) for layer in self.layers[:-1])
        return (inputs.astype(dtype), *hidden)

    def parameters_of(
        self, i: Int[Array, ""], known: Known
    ) -> tuple[Float[Array, " num_params"], Known]:
        """Parameters of coordinate i (from 0), and `known` with the units that can now be computed.

        Reads the layers' weights without calling them, so taps do not see this pass.

        Args:
            i: The coordinate; those before it must have been added in order, by `with_coordinate`.
            known: All that is known from the coordinates before i.
        """
        values = list(known)
        for depth, layer in enumerate(self.layers[:-1]):
            starts, size = groups(layer.out_degrees, self.dim)
            start = jnp.asarray(starts)[i]
            rows = partial(jax.lax.dynamic_slice_in_dim, start_index=start, slice_size=size)
            units = ACTIVATIONS[self.activation](_some_rows(layer, rows, values[depth]))
            values[depth + 1] = jax.lax.dynamic_update_slice_in_dim(
                values[depth + 1], units, start, axis=0
            )

        def of_coordinate(a: Array) -> Array:
            by_coordinate = a.reshape(self.num_params, self.dim, *a.shape[1:])
            return jax.lax.dynamic_index_in_dim(by_coordinate, i, axis=1, keepdims=False)

        return _some_rows(self.layers[-1], of_coordinate, values[-1]), tuple(values)

    def with_coordinate(self, i: Int[Array, ""], x_i: Float[Array, ""], known: Known) -> Known:
        """`known` and the value of coordinate i."""
        return (known[0].at[self.condition_dim + i].set(x_i), *known[1:])


def _some_rows(layer: MaskedDense, rows: Callable[[Array], Array], x: Array) -> Array:
    """Some outputs of `layer`; `rows` selects them from an array with one row per output."""
    y = (rows(layer.weight) * rows(jnp.asarray(layer.mask))) @ x
    return y if layer.bias is None else y + rows(layer.bias)
