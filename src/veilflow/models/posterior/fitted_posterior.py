"""A fitted posterior: draws, densities, moments and intervals, and the guarantee they carry."""

from collections.abc import Sequence
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
"""Draws per call of the compiled program."""
_MOMENT_DRAWS = 65_536
_MAX_NUMBERS = 10_000_000


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedPosterior(Fitted):
    """A released posterior. All of its methods are post-processing: they cost nothing.

    `facts` holds what the rounds released, if there were any: `mean`, `precision` and `noise` of a
    quadratic of the log-likelihood, `unknown` (the number of directions in which nothing stood out of
    the noise) and `few`.

    Attributes:
        flow: The guide, a density over parameters.
        parameters: Names of the parameters.
        regression: The regression that they belong to, where it was declared by columns.
    """

    kind: ClassVar[str] = "FlowPosterior"

    flow: Flow = field(repr=False, metadata=ARRAYS)
    parameters: tuple[str, ...]
    regression: Regression | None = None

    def __post_init__(self) -> None:
        if self.regression is not None and self.regression.parameters != self.parameters:
            raise ValueError("the regression has other parameters than the posterior.")

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.flow.dim

    @property
    def few(self) -> bool:
        """Whether there were few records for so much noise, so that the posterior is less reliable."""
        return self.facts.get("few") is True

    def sample(self, num_draws: int, *, seed: int | None = None) -> Float[np.ndarray, "draws dim"]:
        """Draws of the parameters.

        Args:
            num_draws: Number of draws.
            seed: For the same draws again.
        """
        check.count(num_draws=num_draws)
        secret = Secret.from_seed(seed)
        parts = [
            np.asarray(_drawn(self.flow, secret.key("posterior", i)))
            for i in range(-(-num_draws // _CHUNK))
        ]
        return np.concatenate(parts)[:num_draws]

    def log_prob(self, thetas: Any) -> Float[np.ndarray, " draws"]:
        """The natural log of the density.

        Args:
            thetas: One vector of parameters per row.
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
        """The central interval of each parameter.

        Args:
            level: Its probability.
        """
        check.fraction(level=level)
        ends = [(1 - level) / 2, (1 + level) / 2]
        return np.quantile(self._draws, ends, axis=0).T

    @classmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> Any:
        if not isinstance(plan, PosteriorPlan) or len(public["parameters"]) != plan.dim:
            raise ValueError("there must be a name for each parameter.")
        guide, dim = plan.flow, plan.dim
        # before anything is built: a file cannot demand more work than it has numbers
        least = max(dim * dim, *guide.hidden, 0)
        if num_numbers > _MAX_NUMBERS or least > num_numbers:
            raise ValueError("the arrays hold fewer numbers than the settings ask for.")
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


def combine_posteriors(
    means: Sequence[Float[np.ndarray, " dim"]],
    covariances: Sequence[Float[np.ndarray, "dim dim"]],
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """Mean and covariance over posteriors that were each computed from a synthetic data set.

    Rubin's rule, W + (1 + 1/m) B, adds the variance within the posteriors to the variance between
    them, with a correction for the small number m of data sets. It holds where the sets are
    independent given the records, as from generators that were each fitted with a part of the budget:
    B then also contains the noise. Sets that were drawn from one generator share its noise, which B
    does not see, so the result is too narrow.

    Args:
        means: One per posterior, at least two.
        covariances: One per posterior.

    References:
        Rubin, "Multiple imputation for nonresponse in surveys", 1987; Raghunathan, Reiter, Rubin,
        "Multiple imputation for statistical disclosure limitation", 2003.
    """
    if len(means) != len(covariances) or len(means) < 2:
        raise ValueError(
            "there must be as many means as covariances, and at least two, got "
            f"{len(means)} and {len(covariances)}."
        )
    centers = np.stack([np.asarray(mean, np.float64) for mean in means])
    between = np.atleast_2d(np.cov(centers.T))
    within = np.mean([np.asarray(c, np.float64) for c in covariances], axis=0)
    return centers.mean(axis=0), within + (1 + 1 / len(centers)) * between
