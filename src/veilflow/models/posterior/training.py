"""The free-energy bound through the engine: which terms hold a record, and which do not.

For n records the bound is the sum of -E log p(x_i | theta) and of E [log q(theta) - log p(theta)], with
theta drawn from the guide. The first term is each record's own, clipped and noised. The second holds no
record: its gradient is added after the noise, divided by the public number of records.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import Array, Float

from veilflow.models.posterior.guides import FlatGuide
from veilflow.releases.rounds.statistics import LogLikelihood
from veilflow.releases.rounds.surrogate import LogPrior

_SHORT = 16
"""Longer sums are left to the compiler's kernel."""


@lru_cache(maxsize=64)
def record_loss(log_likelihood: LogLikelihood, num_draws: int) -> Callable[..., Array]:
    """Minus the mean over draws of a record's log-likelihood; one function for all fits.

    Only its gradient counts, which is that of the mean with respect to the numbers, computed without a
    backward pass through guide and likelihood together. The value is 0.
    """
    slope = with_short_sums(jax.grad(log_likelihood))

    def loss(guide: FlatGuide, record: Any, key: Any) -> Float[Array, ""]:
        thetas, jacobian = guide.draws_and_jacobian(guide.base_draws(num_draws))
        slopes = jax.vmap(slope, (0, None))(thetas, record)
        gradient = jnp.tensordot(slopes, jacobian, axes=2) / -num_draws
        return gradient @ (guide.numbers - jax.lax.stop_gradient(guide.numbers))

    return loss


@lru_cache(maxsize=64)
def public_loss(log_prior: LogPrior, num_draws: int, num_records: float) -> Callable[..., Array]:
    """The terms of the bound that hold no record, divided by the number of records."""

    def loss(guide: FlatGuide) -> Float[Array, ""]:
        thetas, log_prob = guide.draws_and_log_prob(guide.base_draws(num_draws))
        return jnp.mean(log_prob - jax.vmap(log_prior)(thetas)) / num_records

    return loss


def with_short_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with sums of a few numbers written out as additions, which compilers fuse.

    On a CPU a sum along an axis is a kernel of its own that takes about ten nanoseconds, however short
    the axis is. The gradient of a likelihood has such sums, for instance over a person's few
    measurements, and a step evaluates it half a million times. Written out, it is a few times faster;
    the numbers are the same up to rounding. The function takes one example: apply `vmap` afterwards.
    """

    def written_out(*args: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        outputs = _evaluated(closed.jaxpr, closed.consts, jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shape), outputs)

    return written_out


def _evaluated(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def value(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        inputs, inner = [value(v) for v in equation.invars], equation.params.get("jaxpr")
        if equation.primitive.name == "reduce_sum" and _is_short(equation):
            outputs = [_added(inputs[0], equation.params["axes"])]
        elif equation.primitive.name in ("jit", "pjit") and isinstance(inner, ClosedJaxpr):
            outputs = _evaluated(inner.jaxpr, inner.consts, inputs)
        else:
            params = equation.primitive.get_bind_params(equation.params)
            outputs = equation.primitive.bind(*inputs, **params)
            outputs = outputs if equation.primitive.multiple_results else [outputs]
        values.update(zip(equation.outvars, outputs, strict=True))
    return [value(v) for v in jaxpr.outvars]


def _is_short(equation: Any) -> bool:
    shape = equation.invars[0].aval.shape
    return all(0 < shape[axis] <= _SHORT for axis in equation.params["axes"])


def _added(x: Any, axes: Sequence[int]) -> Any:
    for axis in sorted(axes, reverse=True):
        parts = [jax.lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis])]
        x = reduce(jax.lax.add, parts)
    return x
