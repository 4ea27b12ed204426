"""Private rounds of Newton's method: where the posterior lies, and how wide it is.

Each round asks all records for gradient and curvature in the coordinates that the rounds before made:
there records have lengths of about one size, so a bound costs little, and noise is small against what
all of them say together. A few early rounds find the place; the late ones stay there and are averaged,
so that splitting the budget among them loses nothing. Noise is fixed before the first round; only the
questions adapt.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from veilflow._core.keys import Secret
from veilflow.models.posterior.lengths import read_counts, read_few
from veilflow.models.posterior.statistics import (
    BINS,
    SENSITIVITY,
    LogLikelihood,
    clipped_statistics,
    length_counts,
    num_statistics,
    unpacked,
)
from veilflow.models.start.release import release
from veilflow.privacy.events import Event, Gaussian, NonPrivate, Together
from veilflow.privacy.guarantees import Released, Sensitive

LogPrior = Callable[[Float[Array, " dim"]], Float[Array, ""]]

EARLY, LATE = 8, 3
_COUNTS_SHARE, _LATE_SHARE = 0.08, 0.62
"""Parts of the budget, in squared signal over noise: lengths, and the late rounds."""
_FLOOR = 1.5
"""No curvature is below this many deviations of the largest eigenvalue of its noise."""
_KNOWN = 2.0
"""In the end a direction counts as known if its curvature is so many times that eigenvalue."""
_VAGUE = 3.0
"""Deviation in directions that are not, over the declared scale."""
_FINEST = 1e-8
"""Coordinates over the declared scale, and over the coarsest: single precision tells no less apart."""
_SINGULAR = 1e-14
"""Smallest over largest eigenvalue of a matrix that can still be inverted."""
_ALIKE = 2.0
"""Coordinates that differ by less, in any direction, share their counts of lengths."""
_DRAWS = 8
"""Draws of the guide at which records are asked in late rounds, half of them mirrored."""


@dataclass(frozen=True)
class Noises:
    """Noise multipliers of all releases, settled beforehand; 0 for none."""

    counts: float
    early: float
    late: float

    @classmethod
    def of(cls, whole: float) -> "Noises":
        """Those that together cost as much as one release with the multiplier `whole`."""
        rest = 1 - _COUNTS_SHARE - _LATE_SHARE
        shares = (_COUNTS_SHARE / EARLY, rest / EARLY, _LATE_SHARE / LATE)
        return cls(*(whole / share**0.5 for share in shares))

    @property
    def event(self) -> Event:
        """What all rounds cost."""
        if self.late == 0:
            return NonPrivate()
        each = [self.counts] * EARLY + [self.early] * EARLY + [self.late] * LATE
        return Together(tuple(Gaussian(noise) for noise in each))


@dataclass(frozen=True)
class Surrogate:
    """The log-likelihood as far as it was released: a quadratic around where the posterior lies.

    Attributes:
        mean: The mean of the posterior, with the prior, by the quadratic.
        gradient: Of the log-likelihood there.
        precision: Minus its second derivative.
        noise: Covariance of the noise in `gradient`.
        num_records: About how many records there are, from the counts of lengths.
        length: What records' gradients were cut to, over the posterior's own deviations.
        unknown: In how many directions curvatures were not told from noise. There the quadratic is as
            wide as three times the declared scale, around the start.
        few: Whether records are few for the noise, so that what they were cut to is not sure.
    """

    mean: Float[np.ndarray, " dim"]
    gradient: Float[np.ndarray, " dim"]
    precision: Float[np.ndarray, "dim dim"]
    noise: Float[np.ndarray, "dim dim"]
    num_records: float
    length: float
    unknown: int = 0
    few: bool = False

    def aware(self) -> "Surrogate":
        """The log-likelihood of what was released, in which the noise is one more error.

        The gradient of all records is a normal around H (theta - mean) with covariance H; released,
        it has the noise's covariance on top. Nothing is paid for knowing that.
        """
        total = self.precision + self.noise
        shrunk = self.precision @ np.linalg.solve(total, self.precision)
        gradient = self.precision @ np.linalg.solve(total, self.gradient)
        none = np.zeros_like(self.noise)
        precision = (shrunk + shrunk.T) / 2
        return replace(self, gradient=gradient, precision=precision, noise=none)


def private_rounds(
    log_likelihood: LogLikelihood,
    log_prior: LogPrior,
    records: Sensitive[PyTree],
    *,
    start: Float[np.ndarray, " dim"],
    scale: Float[np.ndarray, " dim"],
    noises: Noises,
    secret: Secret,
    average: bool = True,
    hardened: bool = False,
    monitor: Callable[[int], None] | None = None,
) -> Released[Surrogate]:
    """Release a quadratic of the log-likelihood around where the posterior lies.

    Guarantee:
        `noises.event` for add/remove of one record: a Gaussian mechanism for each release, whose
        sensitivity `statistics` proves. What is asked next is computed from released numbers.

    Args:
        log_likelihood: Of one record.
        log_prior: Of the parameters.
        records: Arrays with the record as first axis.
        start: Public: where the search begins.
        scale: Public: how far, in each parameter, one round may move.
        noises: Of each release.
        secret: Source of the noise and of the draws.
        average: Whether late rounds are averaged; else the last one stands alone.
        hardened: Noise from the operating system, on a grid.
        monitor: Told the number of rounds done.
    """
    ask = _Ask(log_likelihood, records, secret, hardened)
    events, mean = [], np.asarray(start, np.float64)
    factor = following = np.diag(np.asarray(scale, np.float64))
    bounds, number, posterior = (1.0, 1.0), 1.0, following
    sure, few, seen = False, True, []
    for round_ in range(EARLY):
        here = mean[None]
        counts = ask.lengths(here, following, noises.counts)
        seen.append((following, counts.value))
        lengths = read_counts(counts.value, noises.counts)
        if lengths.few:
            # in coordinates that hardly changed lengths are about the same: together counts tell more
            alike = [told for at, told in seen if _are_alike(at, following)]
            lengths = read_few(np.mean(alike, axis=0), noises.counts / len(alike) ** 0.5)
        if lengths.told:
            sure, few = True, lengths.few
            factor, bounds, number = following, lengths.bounds, lengths.num_records
        found = ask.statistics(here, factor, bounds, noises.early)
        events += [counts.event, found.event]
        if monitor is not None:
            monitor(round_ + 1)
        if not lengths.told:
            continue  # noise moves nothing: the next counts are of the same lengths
        gradient, curvature = unpacked(found.value, len(mean), bounds)
        own = _prior_parts(log_prior, here, factor)
        precision = _floored(curvature, own[1], _largest_noise(noises.early, bounds, len(mean)))
        values, vectors = np.linalg.eigh(precision + own[1])
        step = factor @ (vectors @ (vectors.T @ (gradient + own[0]) / values))
        mean = mean + step / max(1.0, np.abs(step / scale).max())
        posterior = factor @ (vectors / np.sqrt(values))
        following = posterior if _within_reason(posterior, scale) else factor

    # in the coordinates of the last counts of lengths, whose bounds hold there
    gradients, curvatures, places = [], [], []
    precision, own = np.eye(len(mean)), (np.zeros(len(mean)), np.zeros_like(factor))
    for round_ in range(LATE):
        draws = mean + _mirrored(secret, round_, len(mean)) @ posterior.T
        found = ask.statistics(draws, factor, bounds, noises.late)
        events.append(found.event)
        if monitor is not None:
            monitor(EARLY + round_ + 1)
        if not sure:
            continue
        gradient, curvature = unpacked(found.value, len(mean), bounds)
        own = _prior_parts(log_prior, draws, factor)
        if not average:
            gradients, curvatures, places = [], [], []
        gradients.append(gradient)
        curvatures.append(curvature)
        places.append(mean)
        largest = _largest_noise(noises.late, bounds, len(mean)) / len(places) ** 0.5
        precision = _floored(np.mean(curvatures, axis=0), own[1], largest)
        values, vectors = np.linalg.eigh(precision + own[1])
        posterior = factor @ (vectors / np.sqrt(values))
        steps = [vectors @ (vectors.T @ (g + own[0]) / values) for g in gradients]
        targets = [at + factor @ step for at, step in zip(places, steps, strict=True)]
        mean = np.mean(targets, axis=0)

    event = Together(tuple(events)) if noises.late else NonPrivate()
    if not sure:
        return Released(_nothing(start, scale), event)
    inverse = np.linalg.inv(factor)
    moved = [precision @ inverse @ (mean - at) for at in places]
    gradient = np.mean([g - m for g, m in zip(gradients, moved, strict=True)], axis=0)
    spread = noises.late * SENSITIVITY * bounds[0] / len(places) ** 0.5
    # A curvature no larger than what noise brings would pass for knowledge: there nothing was learned.
    largest = _largest_noise(noises.late, bounds, len(mean)) / len(places) ** 0.5
    values, vectors = np.linalg.eigh(np.mean(curvatures, axis=0))
    known = vectors[:, values > _KNOWN * largest]
    told = known @ known.T
    vague = factor.T @ np.diag((_VAGUE * scale) ** -2.0) @ factor
    others = np.eye(len(mean)) - told
    precision = told @ precision @ told + others @ vague @ others
    gradient = told @ gradient
    unknown = len(mean) - known.shape[1]
    if unknown:
        # around the start, for the place that was found there is noise, too
        gradient = gradient + others @ vague @ others @ inverse @ (start - mean)
    surrogate = Surrogate(
        mean=mean,
        gradient=inverse.T @ gradient,
        precision=inverse.T @ precision @ inverse,
        noise=spread**2 * inverse.T @ told @ inverse,
        num_records=number,
        length=bounds[0] / np.linalg.eigvalsh(precision + own[1]).mean() ** 0.5,
        unknown=unknown,
        few=few,
    )
    return Released(surrogate if _is_sound(surrogate, scale) else _nothing(start, scale), event)


def normal_of(
    surrogate: Surrogate, log_prior: LogPrior
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """Mean and covariance of the normal that quadratic and prior make, to second order."""
    own = _prior_parts(log_prior, surrogate.mean[None], np.eye(len(surrogate.mean)))
    covariance = np.linalg.inv(surrogate.precision + own[1])
    covariance = (covariance + covariance.T) / 2
    return surrogate.mean + covariance @ (surrogate.gradient + own[0]), covariance


def num_numbers(dim: int) -> int:
    """How many numbers all rounds together put noise on."""
    return EARLY * (2 * BINS + num_statistics(dim)) + LATE * num_statistics(dim)


@dataclass
class _Ask:
    """The door to the records: every question gets noise of its own."""

    log_likelihood: LogLikelihood
    records: Sensitive[PyTree]
    secret: Secret
    hardened: bool
    asked: int = 0

    def lengths(self, draws: Any, factor: Any, noise: float) -> Released[Any]:
        query = length_counts(self.log_likelihood, self.records, draws=draws, factor=factor)
        return self._release(query, noise)

    def statistics(self, draws: Any, factor: Any, bounds: Any, noise: float) -> Released[Any]:
        query = clipped_statistics(
            self.log_likelihood, self.records, draws=draws, factor=factor, bounds=bounds
        )
        return self._release(query, noise)

    def _release(self, query: Any, noise: float) -> Released[Any]:
        self.asked += 1
        key = self.secret.key("curvature", self.asked)
        found = release(query, noise_multiplier=noise, key=key, hardened=self.hardened)
        return found.map(lambda x: np.asarray(x, np.float64))


def _largest_noise(noise: float, bounds: tuple[float, float], dim: int) -> float:
    """About the largest eigenvalue that noise alone gives a curvature."""
    return noise * SENSITIVITY * bounds[1] * (2 * dim) ** 0.5


def _floored(curvature: np.ndarray, prior: np.ndarray, largest: float) -> np.ndarray:
    """`curvature` with no eigenvalue below what noise alone brings: better too wide than unknown.

    What the prior knows already counts. Far from the posterior curvatures may point down: their size
    still tells how far a step may go.
    """
    values, vectors = np.linalg.eigh(curvature)
    least = max(0.0, _FLOOR * largest - np.linalg.eigvalsh(prior)[0])
    values = np.maximum(np.abs(values), max(least, 1e-9 * np.abs(values).max()))
    return (vectors * values) @ vectors.T


def _nothing(start: np.ndarray, scale: np.ndarray) -> Surrogate:
    """What is known where nothing was told from noise: three times the scale, around the start."""
    none = np.zeros((len(start), len(start)))
    return Surrogate(
        mean=np.asarray(start, np.float64),
        gradient=none[0],
        precision=np.diag((_VAGUE * scale) ** -2.0),
        noise=none,
        num_records=1.0,
        length=1.0,
        unknown=len(start),
        few=True,
    )


def _is_sound(surrogate: Surrogate, scale: np.ndarray) -> bool:
    """Whether its matrices can be inverted. Noise that passes for lengths may end beyond that."""
    for matrix in (surrogate.precision, surrogate.precision + surrogate.noise):
        scaled = matrix * np.outer(scale, scale)
        if not (np.isfinite(scaled).all() and np.isfinite(surrogate.mean).all()):
            return False
        values = np.linalg.eigvalsh(scaled)
        if values[0] <= _SINGULAR * values[-1]:
            return False
    return True


def _are_alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether lengths are about the same in two coordinates, give or take a bin or two."""
    sizes = np.linalg.svd(np.linalg.solve(one, other), compute_uv=False)
    return bool(sizes[-1] > 1 / _ALIKE and sizes[0] < _ALIKE)


def _within_reason(factor: np.ndarray, scale: np.ndarray) -> bool:
    """Whether coordinates are neither so fine nor so coarse that they can only be those of noise."""
    relative = factor / scale[:, None]
    if not np.isfinite(relative).all():
        return False
    sizes = np.linalg.svd(relative, compute_uv=False)
    return bool(sizes[-1] > _FINEST * max(1.0, sizes[0]) and sizes[0] < 1 / _FINEST)


def _prior_parts(log_prior: LogPrior, draws: Any, factor: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and curvature of the prior, in coordinates; it is public."""
    gradient, curvature = _prior_means(log_prior, jnp.float32(draws))
    # far out, where noise may lead, a prior that is not finite says nothing
    found = (np.asarray(x, np.float64) for x in (gradient, curvature))
    gradient, curvature = (np.where(np.isfinite(x), x, 0.0) for x in found)
    values, vectors = np.linalg.eigh(factor.T @ curvature @ factor)
    return factor.T @ gradient, (vectors * np.maximum(values, 0.0)) @ vectors.T


@partial(jax.jit, static_argnums=0)
def _prior_means(log_prior: LogPrior, draws: Array) -> tuple[Array, Array]:
    gradient = jnp.mean(jax.vmap(jax.grad(log_prior))(draws), axis=0)
    return gradient, -jnp.mean(jax.vmap(jax.hessian(log_prior))(draws), axis=0)


def _mirrored(secret: Secret, round_: int, dim: int) -> np.ndarray:
    """Standard normal draws and their mirror images, so that their mean is zero."""
    rng = np.random.default_rng(secret.words("guide draws", round_, 1)[0])
    half = rng.standard_normal((_DRAWS // 2, dim))
    return np.concatenate([half, -half])
