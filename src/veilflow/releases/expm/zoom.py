"""A search by a few rounds of the finite exponential mechanism, each of them exact.

Each round chooses one of many candidates. The first candidates come from the prior, later ones from a
normal around the last choice, whose deviation shrinks by a public schedule. The candidates depend on
releases alone, so each round is the finite exponential mechanism, and the rounds compose: no density
has to be trusted, and knowing the candidates reveals nothing about the records.

The schedule was tuned on generated problems (`benchmarks/generated_labels.py`). With K candidates in D
dimensions, the best of a cloud is nearer to the optimum than the deviation of the cloud by a factor of
about (15 / K)^(1/D): clouds shrink by this factor, at most by 0.45. They end at 28 / sqrt(epsilon n),
about the deviation of the exponential mechanism itself for n records scaled to [-1, 1]; finer
differences cannot be distinguished anyway. Narrow clouds have to resolve finer differences than wide
ones and get more of epsilon, in proportion to their deviation to the power of -0.6.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float

from veilflow._core.fields import convert, count, optional, positive
from veilflow._core.keys import Secret
from veilflow.privacy.events import Event, ExponentialMechanism, Together
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.expm.grid import chosen
from veilflow.releases.expm.sampler import CountingSampler
from veilflow.releases.expm.target import Target

_CROWD, _LEAST, _SLOWEST = 15.0, 0.45, 0.95
_LAST = 28.0
_FOCUS = 0.6
_NOMINAL = 10_000
"""Number of records for which rounds are planned if it is to be counted."""
_MOST_ROUNDS = 60


@dataclass(frozen=True, kw_only=True)
class ZoomSampler(CountingSampler):
    """Candidates around the last choice, closer to it in each round.

    Guarantee:
        Pure epsilon, unconditionally: the sum over the rounds.

    Args:
        num_candidates: Candidates of each round.
        rounds: Number of rounds; by default it follows from the number of records, epsilon and the
            number of parameters.
        growth: Epsilon of a round over that of the previous one; by default it follows from the
            schedule.
    """

    num_candidates: int = 16384
    rounds: int | None = None
    growth: float | None = None

    name: ClassVar[str] = "zoom"

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(
            self,
            num_candidates=count(at_least=2),
            rounds=optional(count()),
            growth=optional(positive),
        )
        if self.rounds is not None and self.rounds > _MOST_ROUNDS:
            raise ValueError(f"rounds must be at most {_MOST_ROUNDS}, got {self.rounds}.")

    def settled(self, target: Target) -> "ZoomSampler":
        """These settings with rounds and growth, from public facts alone."""
        planned = self if self.num_records is not None else self.knowing(_NOMINAL)
        zoom = math.log(target.prior.scale / planned._last_scale(target))
        shrink = min(max(_LEAST, (_CROWD / self.num_candidates) ** (1 / target.dim)), _SLOWEST)
        rounds, growth = self.rounds, self.growth
        if rounds is None:
            rounds = min(1 + max(1, math.ceil(zoom / -math.log(shrink))), _MOST_ROUNDS)
        if growth is None:
            growth = math.exp(_FOCUS * zoom / max(1, rounds - 1))
        return dataclasses.replace(self, rounds=rounds, growth=growth)

    def epsilons(self, epsilon: float) -> tuple[float, ...]:
        """The epsilon of each round; they sum to `epsilon`."""
        if self.rounds is None or self.growth is None:
            raise ValueError("the schedule is not determined: call settled(target) first.")
        weights = [self.growth**r for r in range(self.rounds)]
        first = [epsilon * weight / math.fsum(weights) for weight in weights[:-1]]
        return (*first, epsilon - math.fsum(first))

    def scales(self, target: Target) -> tuple[float, ...]:
        """The deviation of the candidates in each round after the first."""
        rounds = len(self.epsilons(target.epsilon))
        if rounds == 1:
            return ()
        ratio = (self._last_scale(target) / target.prior.scale) ** (1 / (rounds - 1))
        return tuple(target.prior.scale * ratio**r for r in range(1, rounds))

    def event(self, epsilon: float) -> Event:
        return Together(tuple(ExponentialMechanism(each) for each in self.epsilons(epsilon)))

    def draw(
        self, target: Target, records: Sensitive[Any], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        # the secret determines the candidates, on which no guarantee rests, but not the choices
        settings = self.settled(target)
        epsilons = settings.epsilons(target.epsilon)
        num, dim = self.num_candidates, target.dim
        thetas = np.asarray(target.prior.sample(secret.key("zoom prior"), num, dim))
        center = chosen(target, records, thetas, epsilon=epsilons[0]).value
        scales = settings.scales(target)
        for r, (epsilon, scale) in enumerate(zip(epsilons[1:], scales, strict=True), start=1):
            steps = np.asarray(jax.random.normal(secret.key("zoom step", r), (num, dim)))
            thetas = (center + scale * steps).astype(np.float32)
            center = chosen(target, records, thetas, epsilon=epsilon).value
        return Released(center, settings.event(target.epsilon))

    def _last_scale(self, target: Target) -> float:
        nats = target.rate * self._counted()
        return min(_LAST / math.sqrt(nats), target.prior.scale)
