"""The search of the rounds as one state, and pure functions from released numbers to the next.

Nothing here sees a record: a state follows from declared numbers and from what earlier rounds released.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from veilflow.releases.rounds.lengths import Lengths, read_counts, read_few
from veilflow.releases.rounds.statistics import SENSITIVITY, unpacked
from veilflow.releases.rounds.surrogate import VAGUE, PriorParts, Surrogate

_FLOOR = 1.5
"""No curvature is below this many deviations of the largest eigenvalue of its noise."""
_KNOWN = 2.0
"""In the end a direction counts as known if its curvature is so many times that eigenvalue."""
_FINEST = 1e-8
"""Coordinates over the declared scale, and over the coarsest: single precision tells no less apart."""
_ALIKE = 2.0
"""Coordinates that differ by less, in any direction, share their counts of lengths."""

Vector = Float[np.ndarray, " dim"]
Matrix = Float[np.ndarray, "dim dim"]
Counts = Float[np.ndarray, "2 bins"]


@dataclass(frozen=True)
class Answer:
    """What all records said in one round, with noise, in coordinates."""

    place: Vector
    """Parameters around which they were asked."""
    gradient: Vector
    curvature: Matrix


@dataclass(frozen=True)
class State:
    """What the rounds know so far.

    Attributes:
        mean: Where the posterior lies.
        factor: From coordinates to parameters. Gradients and curvatures are asked in these coordinates,
            and the bounds of `lengths` hold in them.
        posterior: A root of the posterior's covariance.
        lengths: The last that stood out of the noise; None as long as none did.
        significant: Whether the last counts stood out. If not, an early round moves nothing: the next
            one counts the same lengths again.
        counts: All noisy counts, each with its coordinates.
        answers: Those that `mean` is made of, all in the coordinates of now.
        precision: Curvature of the log-likelihood, in coordinates.
        prior: Gradient and curvature of the prior, likewise.
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
        """What is declared: the posterior lies around `start`, as far off as `scale` says."""
        factor = np.diag(scale)
        none = PriorParts(np.zeros_like(start), np.zeros_like(factor))
        return cls(start, factor, posterior=factor, precision=np.eye(len(start)), prior=none)

    @property
    def bounds(self) -> tuple[float, float]:
        """What gradients and curvatures are cut to."""
        return (1.0, 1.0) if self.lengths is None else self.lengths.bounds

    def next_factor(self, scale: Vector) -> Matrix:
        """Coordinates in which the posterior is round, unless these can only be those of noise."""
        return self.posterior if _within_reason(self.posterior, scale) else self.factor


def with_lengths(state: State, factor: Matrix, counts: Counts, *, noise: float) -> State:
    """The state after lengths were counted.

    Args:
        state: Before.
        factor: Coordinates in which lengths were counted.
        counts: With noise.
        noise: Its multiplier.
    """
    seen = (*state.counts, (factor, counts))
    lengths = read_counts(counts, noise)
    if lengths.few:
        # in coordinates that hardly changed lengths are about the same: together counts tell more
        alike = [counts for at, counts in seen if _are_alike(at, factor)]
        lengths = read_few(np.mean(alike, axis=0), noise / len(alike) ** 0.5)
    state = replace(state, counts=seen, significant=lengths.significant)
    return replace(state, factor=factor, lengths=lengths) if lengths.significant else state


def next_state(
    state: State,
    statistics: Float[np.ndarray, " numbers"],
    prior: PriorParts,
    *,
    noise: float,
    average: bool,
    reach: Vector | None,
) -> State:
    """The state after all records answered: a step of Newton's method.

    Args:
        state: Before, with bounds that stood out of the noise.
        statistics: The sum of gradients and curvatures, with noise.
        prior: Of the same parameters, in the same coordinates.
        noise: Multiplier of the noise.
        average: Whether earlier answers, in the same coordinates, count as much as this one.
        reach: How far the mean may move in each parameter; None for as far as the step goes.
    """
    dim, factor = len(state.mean), state.factor
    answer = Answer(state.mean, *unpacked(statistics, dim, state.bounds))
    answers = (*state.answers, answer) if average else (answer,)
    precision = _floored(
        _curvature(answers), prior.curvature, _largest_noise(state, noise, answers)
    )
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
    """The quadratic that the last rounds make; a vague one where they say nothing.

    Args:
        state: After the last round.
        start: As declared.
        scale: As declared.
        noise: Multiplier of the noise in `state.answers`.
    """
    if state.lengths is None:
        return Surrogate.vague(start, scale)
    mean, precision, answers = state.mean, state.precision, state.answers
    inverse = np.linalg.inv(state.factor)
    moved = [precision @ inverse @ (mean - answer.place) for answer in answers]
    shifted = [answer.gradient - m for answer, m in zip(answers, moved, strict=True)]
    gradient = np.mean(shifted, axis=0)
    spread = noise * SENSITIVITY * state.bounds[0] / len(answers) ** 0.5
    # A curvature no larger than what noise brings would pass for knowledge: there nothing was learned.
    values, vectors = np.linalg.eigh(_curvature(answers))
    known = vectors[:, values > _KNOWN * _largest_noise(state, noise, answers)]
    onto = known @ known.T
    others = np.eye(len(mean)) - onto
    vague = state.factor.T @ np.diag((VAGUE * scale) ** -2.0) @ state.factor
    precision = onto @ precision @ onto + others @ vague @ others
    gradient = onto @ gradient
    unknown = len(mean) - known.shape[1]
    if unknown:
        # around the start, for the place that the rounds led to is noise there, too
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


def _largest_noise(state: State, noise: float, answers: tuple[Answer, ...]) -> float:
    """About the largest eigenvalue that noise alone gives the mean curvature of some answers."""
    one = noise * SENSITIVITY * state.bounds[1] * (2 * len(state.mean)) ** 0.5
    return one / len(answers) ** 0.5


def _floored(curvature: Matrix, prior: Matrix, largest: float) -> Matrix:
    """`curvature` with no eigenvalue below what noise alone brings: better too wide than unknown.

    What the prior knows already counts. Far from the posterior curvatures may point down: their size
    still tells how far a step may go.
    """
    values, vectors = np.linalg.eigh(curvature)
    least = max(0.0, _FLOOR * largest - np.linalg.eigvalsh(prior)[0])
    values = np.maximum(np.abs(values), max(least, 1e-9 * np.abs(values).max()))
    return (vectors * values) @ vectors.T


def _are_alike(one: Matrix, other: Matrix) -> bool:
    """Whether lengths are about the same in two coordinates, give or take a bin or two."""
    sizes = np.linalg.svd(np.linalg.solve(one, other), compute_uv=False)
    return bool(sizes[-1] > 1 / _ALIKE and sizes[0] < _ALIKE)


def _within_reason(factor: Matrix, scale: Vector) -> bool:
    """Whether coordinates are neither so fine nor so coarse that they can only be those of noise."""
    relative = factor / scale[:, None]
    if not np.isfinite(relative).all():
        return False
    sizes = np.linalg.svd(relative, compute_uv=False)
    return bool(sizes[-1] > _FINEST * max(1.0, sizes[0]) and sizes[0] < 1 / _FINEST)
