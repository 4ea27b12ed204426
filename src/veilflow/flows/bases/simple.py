"""The interface of base distributions, and the simple ones: normal, logistic, Student's t, uniform."""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check


class AbstractBase(eqx.Module):
    """A simple distribution over examples of `dim` numbers."""

    dim: eqx.AbstractVar[int]
    """How many numbers an example has."""

    @abstractmethod
    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""


class StandardNormal(AbstractBase):
    """Independent normals of mean 0 and variance 1. Has no parameters."""

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        check.count(dim=self.dim)

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        return -0.5 * (jnp.sum(jnp.square(z)) + self.dim * math.log(2 * math.pi))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        return jax.random.normal(key, (self.dim,))


class ScaledNormal(AbstractBase):
    """Independent normals of mean 0 and one public standard deviation, which is not trained.

    For a trained mean and scale of every coordinate put an `ActNorm` next to a `StandardNormal`: its
    log-scales are then a public part of the density, and are trained without noise. For a public mean
    and scale of every coordinate use an `Affine`.
    """

    dim: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.positive(scale=self.scale)

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        standard = StandardNormal(self.dim).log_prob(z / self.scale)
        return standard - self.dim * math.log(self.scale)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        return self.scale * jax.random.normal(key, (self.dim,))


class Logistic(AbstractBase):
    """Independent coordinates, each logistic with mean 0 and one public scale.

    The variance is (pi scale)^2 / 3. The derivative of the log-density by a coordinate is
    -tanh(z / (2 scale)) / scale: however far out a record is, it is never larger than 1 / scale in
    size. That of a normal grows with the distance.
    """

    dim: int = eqx.field(static=True)
    scale: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.positive(scale=self.scale)

    @property
    def score_bound(self) -> float:
        """The largest size of the derivative of the log-density by one coordinate."""
        return 1 / self.scale

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        u = z / self.scale
        total = jnp.sum(jax.nn.softplus(u) + jax.nn.softplus(-u))
        return -total - self.dim * math.log(self.scale)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        # the ratio of two exponentials: the logit of one float32 uniform would end at 16 on one side
        return self.scale * jnp.subtract(*jnp.log(jax.random.exponential(key, (2, self.dim))))


class StudentT(AbstractBase):
    """Independent coordinates, each t-distributed with `df` degrees of freedom and a public scale.

    The mean is 0. The variance is scale^2 df / (df - 2), and infinite up to df = 2. The derivative of
    the log-density by a coordinate is -(df + 1) z / (df scale^2 + z^2). It is bounded, largest at
    scale sqrt(df), and beyond that it falls: what lies far out teaches little. Even times z, as a
    trained scale sees it, it stays below df + 1.
    """

    dim: int = eqx.field(static=True)
    df: float = eqx.field(static=True)
    scale: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.positive(df=self.df, scale=self.scale)
        if self.df < 1:  # float32 draws would overflow
            raise ValueError(f"df must be at least 1 (Cauchy tails), got {self.df}.")

    @property
    def score_bound(self) -> float:
        """The largest size of the derivative of the log-density by one coordinate."""
        return (self.df + 1) / (2 * math.sqrt(self.df) * self.scale)

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        half = (self.df + 1) / 2
        constant = math.lgamma(half) - math.lgamma(self.df / 2)
        constant -= 0.5 * math.log(self.df * math.pi) + math.log(self.scale)
        square = jnp.square(z / self.scale)
        return self.dim * constant - half * jnp.sum(jnp.log1p(square / self.df))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        return self.scale * jax.random.t(key, self.df, (self.dim,))


class Uniform(AbstractBase):
    """Every coordinate uniform between two public numbers, independently.

    Outside the box the density is zero and its log -inf, with a gradient of zero: nothing is learned
    from a record that a bijection maps there. Use it with a map that ends in the box, such as `Logit`.
    """

    dim: int = eqx.field(static=True)
    low: float = eqx.field(static=True, default=-1.0)
    high: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.finite(low=self.low, high=self.high)
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}.")

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example; the edges belong to the box."""
        inside = jnp.all((self.low <= z) & (z <= self.high))
        value = -self.dim * math.log(self.high - self.low)
        return jnp.where(inside, jnp.asarray(value, z.dtype), -jnp.inf)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        return jax.random.uniform(key, (self.dim,), minval=self.low, maxval=self.high)


class UniformBall(AbstractBase):
    """The same density wherever the Euclidean norm is at most a public `radius`, and none outside."""

    dim: int = eqx.field(static=True)
    radius: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.positive(radius=self.radius)

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example; the sphere belongs to the ball."""
        # divided first: squares of large numbers may overflow, those of small ones must not underflow
        inside = jnp.sum(jnp.square(z / self.radius)) <= 1
        half = self.dim / 2
        log_volume = half * math.log(math.pi) - math.lgamma(half + 1)
        log_volume += self.dim * math.log(self.radius)
        return jnp.where(inside, jnp.asarray(-log_volume, z.dtype), -jnp.inf)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        direction_key, radius_key = jax.random.split(key)
        normal = jax.random.normal(direction_key, (self.dim,))
        direction = normal / jnp.maximum(jnp.linalg.norm(normal), 1e-30)
        return self.radius * jax.random.uniform(radius_key) ** (1 / self.dim) * direction
