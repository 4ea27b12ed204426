"""A fitted posterior: draws, densities, moments and intervals, and the guarantee they carry."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow._core.chunks import apply_in_chunks
from veilflow._core.keys import Secret
from veilflow.flows import Chain, FixedLinear, Flow, StandardNormal
from veilflow.models.assembly import restored
from veilflow.models.fitted import ARRAYS, Fitted
from veilflow.models.posterior.guides import skeleton
from veilflow.models.posterior.posterior_plan import PosteriorPlan
from veilflow.models.posterior.regressions import Regression
from veilflow.releases.plan import FitPlan

_CHUNK = 4096
"""Draws made at once, by one compiled program."""
_MOMENT_DRAWS = 65_536
_MOST_NUMBERS = 10_000_000


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedPosterior(Fitted):
    """A released posterior. All of its methods are post-processing: they cost nothing.

    `facts` holds what the rounds released, if there were any: `mean`, `precision` and `noise` of a
    quadratic of the log-likelihood, `unknown` (in how many directions nothing stood out of the noise)
    and `few`.

    Attributes:
        flow: The guide, a density over parameters.
        parameters: Their names.
        regression: What the parameters are of, where that is a regression by declared columns.
    """

    kind: ClassVar[str] = "FlowPosterior"

    flow: Flow = field(repr=False, metadata=ARRAYS)
    parameters: tuple[str, ...]
    regression: Regression | None = None

    def __post_init__(self) -> None:
        if self.regression is not None and self.regression.parameters != self.parameters:
            raise ValueError("the regression and the parameters do not belong together.")

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        return self.flow.dim

    @property
    def few(self) -> bool:
        """Whether there were few records for the noise, so that the posterior is less sure."""
        return self.facts.get("few") is True

    def sample(self, num_draws: int, *, seed: int | None = None) -> Float[np.ndarray, "draws dim"]:
        """Draws of the parameters.

        Args:
            num_draws: How many.
            seed: To draw the same again.
        """
        check.count(num_draws=num_draws)
        secret = Secret.from_seed(seed)
        parts = [
            np.asarray(_drawn(self.flow, secret.key("posterior", i)))
            for i in range(-(-num_draws // _CHUNK))
        ]
        return np.concatenate(parts)[:num_draws]

    def log_prob(self, thetas: Any) -> Float[np.ndarray, " draws"]:
        """The natural log of the density at each of some parameters.

        Args:
            thetas: One vector of parameters a row.
        """
        thetas = np.atleast_2d(np.asarray(thetas, np.float32))
        if thetas.ndim != 2 or thetas.shape[1] != self.dim:
            raise ValueError(f"thetas must have {self.dim} columns, got shape {thetas.shape}.")
        score = lambda part: _log_prob(self.flow, jnp.asarray(part))  # noqa: E731
        return apply_in_chunks(score, thetas, size=_CHUNK)

    @cached_property
    def _draws(self) -> Float[np.ndarray, "draws dim"]:
        return self.sample(_MOMENT_DRAWS, seed=0).astype(np.float64)

    @property
    def mean(self) -> Float[np.ndarray, " dim"]:
        """The mean of each parameter."""
        return self._draws.mean(axis=0)

    @property
    def covariance(self) -> Float[np.ndarray, "dim dim"]:
        """Covariances of the parameters."""
        return np.atleast_2d(np.cov(self._draws.T))

    @property
    def sd(self) -> Float[np.ndarray, " dim"]:
        """The standard deviation of each parameter."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def correlation(self) -> Float[np.ndarray, "dim dim"]:
        """Correlations of the parameters."""
        return self.covariance / np.outer(self.sd, self.sd)

    def interval(self, level: float = 0.95) -> Float[np.ndarray, "dim 2"]:
        """The interval of each parameter with so much of the mass, as much below it as above.

        Args:
            level: The mass within.
        """
        check.fraction(level=level)
        ends = [(1 - level) / 2, (1 + level) / 2]
        return np.quantile(self._draws, ends, axis=0).T

    @classmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> Any:
        if not isinstance(plan, PosteriorPlan) or len(public["parameters"]) != plan.dim:
            raise ValueError("there must be a name for each parameter.")
        guide, dim = plan.flow, plan.dim
        # before anything is built: a file cannot ask for more work than it has numbers
        asked = max(dim * dim, *guide.hidden, 0)
        if num_numbers > _MOST_NUMBERS or asked > num_numbers:
            raise ValueError("there are not as many numbers as the settings ask for.")
        bones = skeleton(guide, dim)

        def blank() -> Flow:
            place = FixedLinear(factor=np.eye(dim), shift=np.zeros(dim))
            maps = (bones.bijection(jnp.zeros(bones.size)), place)
            return Flow(StandardNormal(dim), Chain(maps))

        return eqx.filter_eval_shape(blank)

    @classmethod
    def checked(cls, tree: Flow) -> Flow:
        return restored(tree)

    def _about(self) -> str:
        pairs = zip(self.parameters, self.mean, self.sd, strict=True)
        return ", ".join(f"{name} {mean:.4g} ± {sd:.2g}" for name, mean, sd in pairs)


@eqx.filter_jit
def _drawn(flow: Flow, key: Any) -> Float[Array, "draws dim"]:
    return jax.vmap(flow.sample)(jax.random.split(key, _CHUNK))


@eqx.filter_jit
def _log_prob(flow: Flow, thetas: Float[Array, "draws dim"]) -> Float[Array, " draws"]:
    return jax.vmap(flow.log_prob)(thetas)
