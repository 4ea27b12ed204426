"""Where the log-likelihood is evaluated next, and the posterior of all values: post-processing.

The first points lie around the place that the rounds found, from near to far. From then on they are
draws from what is known of the posterior so far, made wider, which includes everything that cannot be
ruled out yet. So points go where the posterior has its mass, whatever its shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret, wrap
from veilflow.models.posterior.population import population
from veilflow.models.posterior.surface import Known, draw_surfaces
from veilflow.releases.rounds.surrogate import LogPrior, Surrogate, normal_of
from veilflow.releases.rounds.values import Values

_ROUNDS = 5
_PER_NUMBER, _LEAST_POINTS = 8, 48
"""Points of a round for each number of a quadratic, and the fewest."""
_FIRST = 3
"""How many times as many there are in the first round, which searches everywhere."""
_REACH = 25.0
"""The farthest points, in standard deviations of the quadratic."""
_WIDER = 1.3
"""Standard deviation of the first points around the origin."""
_LIMIT = 1.0
"""The most by which a record's value may differ, over what the bound on gradients suggests."""
_NEGLIGIBLE = 8.0
"""Nats below the highest at which the prior rules parameters out."""
_POWER = 0.5
"""Points are drawn from the posterior to this power."""
_AGAIN = 4
"""Of so many points, one is asked for again: values are known up to a constant for each round, and only
through points of earlier rounds does a round tell that all its new points are hopeless."""
_EXACT = 0.01
"""Nats below which a deviation does not matter to a posterior, and would to the linear algebra."""
_EXPLORING = (16, 128)
_FINAL = (32, 256)
"""Surfaces, and draws for each."""
_MARGIN, _LEAST_MARGIN = 32.0, 3.0
"""Nats by which a surface may exceed the expected one: the first, halved after each round; and in the
end."""

Points = Float[np.ndarray, "points dim"]


def num_points(dim: int) -> tuple[int, ...]:
    """Points of each round: a few for each number of a quadratic, and more in the first."""
    number = max(_LEAST_POINTS, _PER_NUMBER * (dim + dim * (dim + 1) // 2))
    return (_FIRST * number, *[number] * (_ROUNDS - 1))


@dataclass(frozen=True)
class Explored:
    """What was released so far, in coordinates in which the quadratic's posterior is standard.

    Attributes:
        start: Declared mean.
        scale: Declared distance from it.
        surrogate: What the rounds released.
        log_prior: The log-density of the prior.
        values: Rounds of values, if any.
        secret: The source of all draws.
    """

    start: Float[np.ndarray, " dim"]
    scale: Float[np.ndarray, " dim"]
    surrogate: Surrogate
    log_prior: LogPrior
    values: Sequence[Values]
    secret: Secret

    @property
    def informative(self) -> list[Values]:
        """The rounds of values that are not only noise."""
        return [one for one in self.values if one.significant]

    def next_question(self) -> dict[str, Any]:
        """Parameters at which to ask for values, their weights, and the limit."""
        mean, factor = self._place
        number = num_points(len(mean))[len(self.values)]
        rng = np.random.default_rng(self.secret.words("points", len(self.values), 1)[0])
        if self.informative:
            u = self._explored(number, rng)
        else:
            declared = self.start + self.scale * rng.standard_normal((4 * number, len(mean)))
            u = _near_and_far(4 * number, np.linalg.solve(factor, (declared - mean).T).T, rng)
            u = self._plausible(u, number)
        squares = (u**2).sum(axis=1)
        unit = max(float(len(mean)), float(np.median(squares)))
        weights = (1 + squares / unit) ** -0.5
        limit = _LIMIT * self.surrogate.length * unit**0.5
        return {"points": mean + u @ factor.T, "weights": weights, "limit": limit}

    def draws(self, *, noise_aware: bool = True) -> Float[np.ndarray, "draws dim"]:
        """Draws from the posterior of everything that was released.

        Args:
            noise_aware: Whether they include how uncertain the log-likelihood is; otherwise the
                expected surface is taken for the true one.
        """
        mean, factor = self._place
        rng = np.random.default_rng(self.secret.words("points", len(self.values), 1)[0])
        return mean + self._draws(*_FINAL, power=1.0, rng=rng, noise_aware=noise_aware) @ factor.T

    def _explored(self, number: int, rng: np.random.Generator) -> Points:
        """Points where the posterior may have its mass, behind some at which it was found already."""
        u = self._draws(*_EXPLORING, power=_POWER, rng=rng)
        known = self._known(*self._place)
        _, expected = draw_surfaces(known, 1, rng, padded=len(known.points))
        height = np.asarray(expected(jnp.float32(known.points)[None])[0], np.float64)
        height += self._log_prior_at(known.points)
        # Gumbel's noise draws without replacement; the first point has none, as all others are compared
        # with it
        noise = rng.gumbel(size=len(height))
        noise[np.argmax(height)] = np.inf
        again = np.argsort(-(_POWER * height + noise))[: number // _AGAIN]
        new = rng.choice(len(u), number - len(again), replace=False)
        return np.concatenate([known.points[again], u[new]])

    def _log_prior_at(self, u: Points) -> Float[np.ndarray, " points"]:
        mean, factor = self._place
        prior = np.asarray(jax.vmap(self.log_prior)(jnp.float32(mean + u @ factor.T)), np.float64)
        return np.where(np.isfinite(prior), prior, -np.inf)

    def _plausible(self, u: Points, number: int) -> Points:
        """The first so many points at which the prior is not negligible, then others."""
        prior = self._log_prior_at(u)
        chosen = prior > prior.max() - _NEGLIGIBLE
        chosen[0] = True
        return u[np.argsort(~chosen, kind="stable")][:number]

    @property
    def _place(self) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
        mean, covariance = normal_of(self.surrogate.aware(), self.log_prior)
        return mean, np.linalg.cholesky(covariance)

    def _draws(
        self,
        count: int,
        size: int,
        *,
        power: float,
        rng: np.random.Generator,
        noise_aware: bool = True,
    ) -> Float[np.ndarray, "draws dim"]:
        mean, factor = self._place
        known = self._known(mean, factor)
        surfaces, expected = draw_surfaces(known, count, rng, padded=sum(num_points(len(mean))))
        if not noise_aware:
            surfaces = expected.repeated(count)
        key = wrap(jnp.asarray(rng.integers(0, 2**32, 2, np.uint32)))
        place = (jnp.float32(mean), jnp.float32(factor))
        margin = max(_MARGIN * 0.5 ** len(self.values), _LEAST_MARGIN)
        settings: tuple[Any, ...] = (*map(jnp.float32, (_REACH, power, margin)), key)
        draws = population(surfaces, expected, self.log_prior, place, *settings, size=size)
        return np.asarray(draws, np.float64).reshape(-1, len(mean))

    def _known(self, mean: np.ndarray, factor: np.ndarray) -> Known:
        surrogate, rounds = self.surrogate, self.informative
        away = surrogate.precision @ (mean - surrogate.mean)
        points = np.concatenate([one.points for one in rounds])
        return Known(
            gradient=factor.T @ (surrogate.gradient - away),
            precision=factor.T @ surrogate.precision @ factor,
            noise=factor.T @ surrogate.noise @ factor,
            points=np.linalg.solve(factor, (points - mean).T).T,
            values=np.concatenate([one.values for one in rounds]),
            deviations=np.maximum(np.concatenate([d.deviations for d in rounds]), _EXACT),
            rounds=np.repeat(np.arange(len(rounds)), [len(one.values) for one in rounds]),
        )


def _near_and_far(number: int, declared: Points, rng: np.random.Generator) -> Points:
    """The origin; then points around it, at all distances up to the reach, and where declared."""
    dim = declared.shape[1]
    near = _WIDER * rng.standard_normal((number, dim))
    directions = near / np.linalg.norm(near, axis=1, keepdims=True)
    least = min(_WIDER * dim**0.5, _REACH / 2)
    far = directions * least * (_REACH / least) ** rng.uniform(size=(number, 1))
    lengths = np.linalg.norm(declared, axis=1, keepdims=True)
    inside = declared * np.minimum(1.0, _REACH / lengths)
    kind = rng.permuted(np.arange(number) % 4)[:, None]
    points = np.select([kind == 0, kind == 1], [near, far], inside[:number])
    points[0] = 0.0
    return points
