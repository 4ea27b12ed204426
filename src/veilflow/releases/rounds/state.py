"""The state of the search, and pure functions from released numbers to the next state.

Nothing here sees a record: a state follows from declared numbers and from the releases of earlier
rounds.

Bounds for what records contribute are read from noisy counts of lengths. With many records every
relevant bin stands out by itself. With few, a bin may hide a good part of them, and a bound below that
bin would cut them off: the sums would be wrong, and nothing would show it. So with few records several
bins are read together, and the bound of gradients lies well above these lengths.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from veilflow.releases.rounds.statistics import SENSITIVITY, bin_tops, unpacked
from veilflow.releases.rounds.surrogate import VAGUE, PriorParts, Surrogate

_CERTAIN = 4.5
"""Deviations of the noise above which bins are taken to hold somebody: there are thousands of them."""
_QUANTILE = 0.98
"""Of the lengths: the bound lies above so many of them."""
_ENOUGH = 80.0
"""Records in certain bins, over the noise multiplier of a count: with fewer, a bin that is not certain
may hide a twelfth of them."""
_WIDTHS = (1, 2, 4, 8)
"""Bins that are read together where there are fewer."""
_ABOVE = (2.0, 1.0)
"""The bounds over the longest lengths there. A gradient that is cut moves the posterior; a
curvature that is cut widens it, and noise on it does so, too."""
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
class Lengths:
    """What counts of lengths say.

    Attributes:
        bounds: Of gradients and of curvatures; infinite where nothing stands out of the noise.
        num_records: About how many records there are, of those that say something or nothing.
        few: Whether records are few for the noise, so that bounds are less sure.
    """

    bounds: tuple[float, float]
    num_records: float
    few: bool

    @property
    def significant(self) -> bool:
        """Whether both bounds stand out of the noise."""
        return bool(np.isfinite(self.bounds).all())


def read_counts(counts: Float[np.ndarray, "2 bins"], noise: float) -> Lengths:
    """The bounds that noisy counts of lengths suggest, and about how many records there are.

    Args:
        counts: Of gradients, and of curvatures, as `length_counts` makes them, with noise.
        noise: Its multiplier; 0 for none.
    """
    level = _level(noise)
    kept = np.where(counts > level, counts, 0.0)
    tops, bounds = bin_tops(), []
    for row in kept:
        # records that say nothing, in the first bin, do not set the bounds of those that do
        row = np.append(0.0, row[1:])
        if not row.any() or row.sum() < _ENOUGH * noise:
            return read_few(counts, noise)
        bounds.append(float(tops[np.searchsorted(np.cumsum(row), _QUANTILE * row.sum())]))
    return Lengths((bounds[0], bounds[1]), float(max(1.0, kept.sum(axis=1).mean())), few=False)


def read_few(counts: Float[np.ndarray, "2 bins"], noise: float) -> Lengths:
    """The same where records are few: bins are read several at a time, with room above."""
    level, tops, bounds = _level(noise), bin_tops(), []
    kept = np.where(counts > level, counts, 0.0)
    for i, noisy in enumerate(counts):
        kept[i, 1:] = _standing_out(noisy[1:], level)
        filled = 1 + np.flatnonzero(kept[i, 1:])
        bounds.append(float(_ABOVE[i] * tops[filled[-1]]) if len(filled) else np.inf)
    return Lengths((bounds[0], bounds[1]), float(max(1.0, kept.sum(axis=1).mean())), few=True)


def _level(noise: float) -> float:
    """Below, a bin may as well be empty."""
    return max(_CERTAIN * noise * SENSITIVITY, 0.5)


def _standing_out(noisy: Float[np.ndarray, " bins"], level: float) -> Float[np.ndarray, " bins"]:
    """The counts in neighbouring bins that stand out together, 0 elsewhere.

    The neighbours that stand out most are taken first, then those among the bins that are left.
    """
    kept, left = np.zeros(len(noisy)), noisy.copy()
    while True:
        # the noise of a sum of so many bins is so many times larger, under the root
        windows = [
            (sums / width**0.5, width)
            for width in _WIDTHS
            for sums in [np.convolve(left, np.ones(width), mode="valid")]
        ]
        scores, width = max(windows, key=lambda pair: pair[0].max())
        if scores.max() <= level:
            return kept
        taken = slice(scores.argmax(), scores.argmax() + width)
        kept[taken], left[taken] = noisy[taken], -np.inf


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
