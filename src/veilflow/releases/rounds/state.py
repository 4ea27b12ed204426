"""The state of the search, and pure functions from released numbers to the next state.

Nothing here sees a record: a state follows from declared numbers and from the releases of earlier
rounds. Bounds for what records contribute are read from noisy counts of lengths (`lengths.py`).
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from veilflow.releases.rounds.lengths import Counts, Lengths, read_counts
from veilflow.releases.rounds.statistics import SENSITIVITY, unpacked
from veilflow.releases.rounds.surrogate import VAGUE, PriorParts, Surrogate

_FLOOR = 1.5
"""Floor of curvatures, in units of the largest eigenvalue of their noise."""
_KNOWN = 2.0
"""At the end a direction counts as known if its curvature exceeds this many of these units."""
_FINEST = 1e-8
"""Finest coordinates relative to the declared scale and to the coarsest, for single precision."""
_ALIKE = 2.0
"""Coordinates that differ by less than this factor in any direction share their counts of lengths."""
Vector = Float[np.ndarray, " dim"]
Matrix = Float[np.ndarray, "dim dim"]


@dataclass(frozen=True)
class Answer:
    """The noisy sum over all records in one round, in coordinates."""

    place: Vector
    """The parameters at which it was evaluated."""
    gradient: Vector
    curvature: Matrix


@dataclass(frozen=True)
class State:
    """The estimates of the rounds so far.

    Attributes:
        mean: The mean of the posterior.
        factor: From coordinates to parameters. Gradients and curvatures are measured in these
            coordinates, and the bounds of `lengths` hold in them.
        posterior: A root of the covariance of the posterior.
        lengths: The last significant estimates; None if there are none yet.
        significant: Whether the last counts were significant. If not, an early round moves nothing,
            and the next one counts the same lengths again.
        counts: All noisy counts, each with its coordinates.
        answers: The answers that determine `mean`, all in the current coordinates.
        precision: Curvature of the log-likelihood, in coordinates.
        prior: Gradient and curvature of the prior, in coordinates.
    """

    mean: Vector
    factor: Matrix
    posterior: Matrix
    precision: Matrix
    prior: PriorParts
    lengths: Lengths | None = None
    significant: bool = False
    counts: tuple[tuple[Matrix, Counts], ...] = ()
    answers: tuple[Answer, ...] = ()

    @classmethod
    def first(cls, start: Vector, scale: Vector) -> "State":
        """The declared state: the posterior lies around `start`, at a distance of about `scale`."""
        factor = np.diag(scale)
        none = PriorParts(np.zeros_like(start), np.zeros_like(factor))
        return cls(start, factor, posterior=factor, precision=np.eye(len(start)), prior=none)

    @property
    def bounds(self) -> tuple[float, float]:
        """Clipping bounds of gradients and curvatures in late rounds."""
        return (1.0, 1.0) if self.lengths is None else self.lengths.bounds

    @property
    def rough(self) -> tuple[float, float]:
        """The same in early rounds."""
        return (1.0, 1.0) if self.lengths is None else self.lengths.rough

    def next_factor(self, scale: Vector) -> Matrix:
        """Coordinates in which the posterior is isotropic, unless they can only be noise."""
        return self.posterior if _within_reason(self.posterior, scale) else self.factor


def with_lengths(state: State, factor: Matrix, counts: Counts, *, noise: float) -> State:
    """The state after lengths were counted.

    Args:
        state: The previous state.
        factor: Coordinates in which lengths were counted.
        counts: The noisy counts.
        noise: Their noise multiplier.
    """
    seen = (*state.counts, (factor, counts))
    # lengths are similar in similar coordinates: the mean of their counts is more precise
    alike = [counts for at, counts in seen if _are_alike(at, factor)]
    lengths = read_counts(np.mean(alike, axis=0), noise / len(alike) ** 0.5)
    state = replace(state, counts=seen, significant=lengths.significant)
    return replace(state, factor=factor, lengths=lengths) if lengths.significant else state


def next_state(
    state: State,
    statistics: Float[np.ndarray, " numbers"],
    prior: PriorParts,
    *,
    bounds: tuple[float, float],
    noise: float,
    average: bool,
    reach: Vector | None,
) -> State:
    """The state after a step of Newton's method.

    Args:
        state: The previous state, with significant bounds.
        statistics: The noisy sum of gradients and curvatures.
        prior: Gradient and curvature of the prior, at the same place and in the same coordinates.
        bounds: The clipping bounds of this sum.
        noise: The noise multiplier.
        average: Whether the step uses the mean of this answer and earlier ones.
        reach: The most that the mean may move in each parameter; None for no limit.
    """
    dim, factor = len(state.mean), state.factor
    answer = Answer(state.mean, *unpacked(statistics, dim, bounds))
    answers = (*state.answers, answer) if average else (answer,)
    largest = _largest_noise(noise, bounds, answers)
    braking = np.zeros(dim)
    if reach is not None and state.lengths is not None:
        braking = answer.gradient / state.lengths.num_records**0.5
    precision = _floored(_curvature(answers), prior.curvature, largest, braking)
    values, vectors = np.linalg.eigh(precision + prior.curvature)

    def target(answer: Answer) -> Vector:
        step = factor @ (vectors @ (vectors.T @ (answer.gradient + prior.gradient) / values))
        too_far = 1.0 if reach is None else max(1.0, np.abs(step / reach).max())
        return answer.place + step / too_far

    return replace(
        state,
        mean=np.mean([target(answer) for answer in answers], axis=0),
        posterior=factor @ (vectors / np.sqrt(values)),
        precision=precision,
        prior=prior,
        answers=answers,
    )


def surrogate_of(state: State, *, start: Vector, scale: Vector, noise: float) -> Surrogate:
    """The quadratic after the last round; a vague one if nothing was significant.

    Args:
        state: The last state.
        start: Declared mean.
        scale: Declared distance from it.
        noise: The noise multiplier of `state.answers`.
    """
    if state.lengths is None:
        return Surrogate.vague(start, scale)
    mean, precision, answers = state.mean, state.precision, state.answers
    inverse = np.linalg.inv(state.factor)
    moved = [precision @ inverse @ (mean - answer.place) for answer in answers]
    shifted = [answer.gradient - m for answer, m in zip(answers, moved, strict=True)]
    gradient = np.mean(shifted, axis=0)
    spread = noise * SENSITIVITY * state.bounds[0] / len(answers) ** 0.5
    # in directions whose curvature is at the level of the noise, nothing was learned
    values, vectors = np.linalg.eigh(_curvature(answers))
    known = vectors[:, values > _KNOWN * _largest_noise(noise, state.bounds, answers)]
    onto = known @ known.T
    others = np.eye(len(mean)) - onto
    vague = state.factor.T @ np.diag((VAGUE * scale) ** -2.0) @ state.factor
    precision = onto @ precision @ onto + others @ vague @ others
    gradient = onto @ gradient
    unknown = len(mean) - known.shape[1]
    if unknown:
        # around the start, because the mean of the rounds is only noise in these directions
        gradient = gradient + others @ vague @ others @ inverse @ (start - mean)
    typical = np.linalg.eigvalsh(precision + state.prior.curvature).mean() ** 0.5
    surrogate = Surrogate(
        mean=mean,
        gradient=inverse.T @ gradient,
        precision=inverse.T @ precision @ inverse,
        noise=spread**2 * inverse.T @ onto @ inverse,
        num_records=state.lengths.num_records,
        length=float(state.bounds[0] / typical),
        unknown=unknown,
        few=state.lengths.few,
    )
    return surrogate if surrogate.is_sound(scale) else Surrogate.vague(start, scale)


def _curvature(answers: tuple[Answer, ...]) -> Matrix:
    return np.mean([answer.curvature for answer in answers], axis=0)


def _largest_noise(noise: float, bounds: tuple[float, float], answers: tuple[Answer, ...]) -> float:
    """Approximately the largest eigenvalue of the noise in the mean curvature of some answers."""
    one = noise * SENSITIVITY * bounds[1] * (2 * len(answers[0].place)) ** 0.5
    return one / len(answers) ** 0.5


def _floored(curvature: Matrix, prior: Matrix, largest: float, braking: Vector) -> Matrix:
    """`curvature` with its eigenvalues raised to the level of the noise.

    The curvature of the prior counts towards that level. Far from the posterior, curvatures may be
    negative: their absolute value still limits the length of a step. Where it is small, a step would
    be of any length, and the search would swing from side to side. With the gradient over the root of
    the number of records for `braking`, a step in such a direction promises at most one nat a record.
    """
    values, vectors = np.linalg.eigh(curvature)
    least = max(0.0, _FLOOR * largest - np.linalg.eigvalsh(prior)[0])
    brakes = np.where(values < largest, (vectors.T @ braking) ** 2, 0.0)
    values = np.maximum(np.abs(values), brakes)
    values = np.maximum(values, max(least, 1e-9 * values.max()))
    return (vectors * values) @ vectors.T


def _are_alike(one: Matrix, other: Matrix) -> bool:
    """Whether lengths agree in two coordinates, up to a bin or two."""
    sizes = np.linalg.svd(np.linalg.solve(one, other), compute_uv=False)
    return bool(sizes[-1] > 1 / _ALIKE and sizes[0] < _ALIKE)


def _within_reason(factor: Matrix, scale: Vector) -> bool:
    """Whether coordinates are neither so fine nor so coarse that they can only be noise."""
    relative = factor / scale[:, None]
    if not np.isfinite(relative).all():
        return False
    sizes = np.linalg.svd(relative, compute_uv=False)
    return bool(sizes[-1] > _FINEST * max(1.0, sizes[0]) and sizes[0] < 1 / _FINEST)
