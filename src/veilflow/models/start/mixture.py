"""A private mixture of normals by expectation-maximization: one Gaussian mechanism a step.

Sound where published DP-EM was not: sensitivities follow from public numbers alone and never from the
records of a component; the number of steps is fixed, with no test of convergence on the data; and
all that a step learns is released together, once.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.models import em
from veilflow.models.em_growth import resized, sizes
from veilflow.models.start.release import release
from veilflow.models.start.rows import finite
from veilflow.privacy.events import Event, Gaussian, NonPrivate, Repeated, Together
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive

_FAR = 1e15


class Fitted(NamedTuple):
    """A released mixture and the number of records that its counts add up to."""

    mixture: em.Mixture
    num_records: float


def private_mixture(
    rows: Sensitive[Float[np.ndarray, "rows dim"]],
    *,
    spread: float,
    num_components: int,
    noise_multipliers: Sequence[float],
    secret: Secret,
    hardened: bool = False,
    monitor: Callable[[int], object] | None = None,
) -> Released[Fitted]:
    """Release a mixture of `num_components` normals.

    Guarantee:
        One Gaussian mechanism a step with its noise multiplier, for add/remove of one row, whatever
        the rows are and whatever earlier steps released: `event_of(noise_multipliers)`.

    Args:
        rows: Rows about zero; one that is not finite counts as zero.
        spread: Standard deviation of a column if nothing else is known.
        num_components: Normals in the mixture.
        noise_multipliers: One for each step, fixed beforehand; all 0 for no privacy.
        secret: Source of the noise.
        hardened: Noise from the operating system, on a grid.
        monitor: Called with the number of steps done, after each.
    """
    dim = rows.open().shape[1]
    rows = rows.map(lambda x: np.clip(finite(x), -_FAR, _FAR))  # so that no square overflows
    belief, age = em.first_belief(dim, spread), 0
    plan = sizes(num_components, len(noise_multipliers))
    for step, (size, noise_multiplier) in enumerate(zip(plan, noise_multipliers, strict=True)):
        age = age + 1 if size == len(belief.counts) and step else 0
        belief = resized(belief, size)
        question = em.Question.for_counts(belief.counts, dim, noise_multiplier)
        sums = em.local_sums(rows.open(), belief.mixture, question)
        # as many rows in every step, the rest of them noise: the generator is compiled for one shape
        padded = np.pad(sums, ((0, max(plan) - size), (0, 0)))
        noisy = release(
            ClippedSum(padded, clip_norm=1.0),
            noise_multiplier=noise_multiplier,
            key=secret.key("mixture", step),
            hardened=hardened,
        )
        belief = em.updated(
            belief,
            noisy.value[:size].astype(np.float64),
            question,
            noise_stddev=noise_multiplier,
            age=age,
        )
        if monitor is not None:
            monitor(step + 1)
    fitted = Fitted(em.cautious(belief), float(belief.counts.sum()))
    return Released(fitted, event_of(noise_multipliers))


def noise_multipliers(
    noise_multiplier: float, num_components: int, steps: int
) -> tuple[float, ...]:
    """One for each step: less noise where more components share the records.

    All together cost as much as `steps` steps with `noise_multiplier`.
    """
    share = np.sqrt(np.array(sizes(num_components, steps), np.float64))
    return tuple((noise_multiplier / np.sqrt(share / share.mean())).tolist())


def num_draws(dim: int, num_components: int, steps: int) -> int:
    """How many numbers get noise."""
    return steps * max(sizes(num_components, steps)) * (1 + dim + dim * (dim + 1) // 2)


def event_of(noise_multipliers: Sequence[float]) -> Event:
    """What `private_mixture` costs with these multipliers."""
    if not all(noise_multipliers):
        return NonPrivate()
    groups = [(noise, len(list(same))) for noise, same in groupby(noise_multipliers)]
    return Together(tuple(Repeated(count, Gaussian(noise)) for noise, count in groups))
