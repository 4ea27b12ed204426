"""Regressions ready for a posterior: likelihood, prior, start and scale, all from declared bounds.

Slopes are in the units of the columns. The intercept is the prediction where every column is at the
middle of its bounds: far from there it would be uncertain, and correlated with all slopes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check

KINDS = ("linear", "logistic", "poisson")
INTERCEPT, LOG_SD = "intercept", "log_sd"
_LOG_SD_SCALE = 2.0
"""Deviation of the prior of `log_sd`: anything from a hundredth of the bounds to all of them."""


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A target column that depends on other columns through a linear predictor.

    Args:
        kind: "linear" (normal errors of unknown deviation, whose log is the last parameter),
            "logistic" (a target of 0 and 1), or "poisson" (counts with a log link).
        columns: Names of the explanatory columns.
        target: Name of the target column.
        bounds: `(low, high)` of all columns, the target last; declared, not read from records. Values
            outside are clamped.
        prior_scale: Deviation of the normal priors of the intercept and of the effect of each column
            from the middle of its bounds to an end. Its unit is half the width of the target's bounds
            if linear, log odds if logistic, log means if poisson.
    """

    kind: str
    columns: tuple[str, ...]
    target: str
    bounds: tuple[tuple[float, ...], tuple[float, ...]]
    prior_scale: float = 2.0

    def __post_init__(self) -> None:
        check.one_of(KINDS, kind=self.kind)
        check.positive(prior_scale=self.prior_scale)
        names = (*self.columns, self.target)
        taken = sorted({INTERCEPT, LOG_SD} & {*self.columns})
        if len(set(names)) < len(names) or not self.columns or taken:
            raise ValueError(
                "there must be at least one column, names must differ, and none may be "
                f"{INTERCEPT!r} or {LOG_SD!r}, got {', '.join(names)}."
            )
        low, high = self.bounds
        if len(low) != len(names) or len(high) != len(names):
            raise ValueError(f"bounds must be declared for {', '.join(names)}, one pair each.")
        for name, *ends in zip(names, low, high, strict=True):
            if not (all(map(math.isfinite, ends)) and ends[0] < ends[1]):
                raise ValueError(f"bounds of {name!r} must be finite and increasing.")
        if self.kind == "logistic" and (low[-1], high[-1]) != (0, 1):
            raise ValueError(
                f"a logistic regression needs a target of 0 and 1, but bounds of {self.target!r} are "
                f"{low[-1]:g} and {high[-1]:g}. Declare 0 and 1."
            )
        if self.kind == "poisson" and low[-1] < 0:
            raise ValueError(
                f"counts are not negative, but the bounds of {self.target!r} begin at {low[-1]:g}."
            )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The intercept, one slope per column under its name, and `log_sd` if linear."""
        return (INTERCEPT, *self.columns, *((LOG_SD,) if self.kind == "linear" else ()))

    @property
    def middle(self) -> Float[np.ndarray, " names"]:
        """The middle of all bounds."""
        return np.mean(self.bounds, axis=0)

    @property
    def half(self) -> Float[np.ndarray, " names"]:
        """Half the width of all bounds."""
        low, high = map(np.array, self.bounds)
        return (high - low) / 2

    @property
    def start(self) -> Float[np.ndarray, " parameters"]:
        """The center of the prior."""
        level = 0.0
        if self.kind != "logistic":
            level = self.middle[-1] if self.kind == "linear" else math.log(self.middle[-1])
        last = [math.log(self.half[-1] / 2)] if self.kind == "linear" else []
        return np.array([level, *np.zeros(len(self.columns)), *last])

    @property
    def scale(self) -> Float[np.ndarray, " parameters"]:
        """The deviation of the prior."""
        unit = self.prior_scale * (self.half[-1] if self.kind == "linear" else 1.0)
        last = [_LOG_SD_SCALE] if self.kind == "linear" else []
        return np.array([unit, *(unit / self.half[:-1]), *last])

    @cached_property
    def log_prior(self) -> Callable[[Array], Array]:
        """Independent normals around `start`."""
        start, scale = jnp.float32(self.start), jnp.float32(self.scale)
        return lambda theta: -0.5 * jnp.sum(((theta - start) / scale) ** 2)

    @cached_property
    def log_likelihood(self) -> Callable[[Array, Any], Array]:
        """The log-likelihood of one record, up to a constant."""
        kind, number = self.kind, len(self.columns)
        half, middle = jnp.float32(self.half), jnp.float32(self.middle[-1])

        def log_likelihood(theta: Float[Array, " parameters"], record: Any) -> Float[Array, ""]:
            x, y = record  # both in half widths from the middle, as `records` returns them
            slopes = jnp.sum(theta[1 : 1 + number] * half[:-1] * x)
            if kind == "linear":
                log_sd = theta[-1] - jnp.log(half[-1])
                off = y - (theta[0] - middle + slopes) / half[-1]
                return -0.5 * (off * jnp.exp(-log_sd)) ** 2 - log_sd
            predictor, y = theta[0] + slopes, middle + half[-1] * y
            rest = jax.nn.softplus(predictor) if kind == "logistic" else jnp.exp(predictor)
            return y * predictor - rest

        return log_likelihood

    def records(
        self, values: Float[np.ndarray, "records names"]
    ) -> tuple[Float[np.ndarray, "records columns"], Float[np.ndarray, " records"]]:
        """Rows of columns and target, clamped and scaled, as the likelihood takes them."""
        low, high = map(np.array, self.bounds)
        inside = np.clip(np.asarray(values, np.float64), low, high)
        scaled = ((inside - self.middle) / self.half).astype(np.float32)
        return scaled[:, :-1], scaled[:, -1]
