"""Parameter vectors drawn by the exponential mechanism, as one entry of a plan."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.errors import BudgetError
from veilflow._core.fields import convert, count
from veilflow._core.keys import Secret
from veilflow.privacy import calibration
from veilflow.privacy.assumptions import Assumption, FloatSums, Generator
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Repeated, Together
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.expm.flow_sampler import FlowSampler
from veilflow.releases.expm.grid import GridSampler
from veilflow.releases.expm.hmc import HmcSampler
from veilflow.releases.expm.rejection import RejectionSampler
from veilflow.releases.expm.sampler import CountingSampler, Sampler
from veilflow.releases.expm.target import Target
from veilflow.releases.expm.zoom import ZoomSampler
from veilflow.releases.release import Release, Tools

_BRACKET = 1e3
"""The epsilon of one draw is searched within this factor of an equal share."""
_KINDS = (ZoomSampler, RejectionSampler, GridSampler, FlowSampler, HmcSampler)
SAMPLERS: dict[str, type[Sampler]] = {kind.name: kind for kind in _KINDS}


@dataclass(frozen=True, kw_only=True)
class ExponentialDraw(Release):
    """Parameter vectors, drawn independently from the density of the exponential mechanism.

    Guarantee:
        For add/remove of one record: the loss of a record lies between 0 and `target.loss.sensitivity`
        whatever the record and the parameters are, so it moves every utility in one direction by at
        most that. With an exact sampler `event` holds unconditionally; with others, under the
        assumption that is listed with it.

    Attributes:
        target: The density, with the epsilon of one draw.
        sampler: The method of sampling.
        num_models: Number of vectors. Each is paid for.
    """

    purpose: str = "parameters"
    target: Target
    sampler: Sampler
    num_models: int = 1

    def __post_init__(self) -> None:
        convert(self, num_models=count())

    @property
    def event(self) -> Event:
        return self.event_after(self.num_models)

    def event_after(self, done: int) -> Event:
        return _repeated(max(1, done), self.sampler.event(self.target.epsilon))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        conditional = self.sampler.assumption
        every = (conditional, None if self.target.network.exact else FloatSums())
        generator = Generator() if self.from_secret else None
        return tuple(one for one in (*every, generator) if one is not None)

    @property
    def from_secret(self) -> bool:
        return self.sampler.assumption is not None

    @property
    def rounds(self) -> int:
        return self.num_models

    @property
    def num_records(self) -> int | None:
        """The number of records that the sampler uses; None if it was not declared."""
        return self.sampler.num_records if isinstance(self.sampler, CountingSampler) else None

    def knowing(self, num_records: int | None) -> Self:
        """This release with the number of records, if the sampler needs it and lacks it."""
        if not isinstance(self.sampler, CountingSampler):
            return self
        return replace(self, sampler=self.sampler.knowing(num_records))

    def at(self, epsilon: float) -> Self:
        """This release with an epsilon for each draw.

        Raises:
            ValueError: If the sampler cannot handle the target.
        """
        target = replace(self.target, epsilon=epsilon)
        return replace(self, target=target, sampler=self.sampler.settled(target))

    def share(self, budget: Budget, others: Ledger) -> float:
        """The epsilon of each draw under basic composition."""
        return (budget.epsilon - others.epsilon(delta=0.0)) / self.num_models

    def priced(self, budget: Budget, others: Ledger) -> Self:
        share = self.share(budget, others)
        if share <= 0:
            raise BudgetError(
                f"nothing is left of epsilon={budget.epsilon:.4g} for {self.purpose}. Raise the "
                "budget, or spend less on the other releases."
            )
        equal = self.at(share)
        if budget.delta == 0:
            return equal

        def event(epsilon: float) -> Event:
            return _repeated(self.num_models, equal.sampler.event(epsilon))

        # with a positive delta, several choices compose to less than their sum
        epsilon = calibration.calibrate(
            event,
            budget,
            bracket=(share / _BRACKET, share * _BRACKET),
            increasing=True,
            ledger=others,
            guess=share,
            what="epsilon of a model",
        )
        # pure releases may always spend their full share
        if budget.admits(others.spend(equal.event, purpose=self.purpose)):
            epsilon = max(epsilon, share)
        return equal.at(epsilon)

    def run(
        self, records: Sensitive[Any], tools: Tools, *, num_records: int | None = None
    ) -> Released[Float[np.ndarray, "models dim"]]:
        """Draw, given inputs and labels; `num_records` is for samplers that need it."""
        sampler = self.knowing(num_records).sampler
        thetas: list[np.ndarray] = []
        events: list[Event] = []
        for index in range(self.num_models):
            secret = _secret_of(tools.secret, index)
            drawn = sampler.draw(self.target, records, secret=secret)
            thetas.append(np.asarray(drawn.value, np.float32))
            events.append(drawn.event)
            tools.monitor(index + 1)
        alike = len(set(events)) == 1
        event = _repeated(len(events), events[0]) if alike else Together(tuple(events))
        return Released(np.stack(thetas), event)


def _repeated(times: int, event: Event) -> Event:
    return event if times == 1 else Repeated(times, event)


def _secret_of(secret: Secret, index: int) -> Secret:
    """A secret for one of several models, so that no two models share a key."""
    digest = hashlib.blake2b(
        index.to_bytes(8, "little"), key=secret.reveal(), person=b"one model", digest_size=32
    )
    return Secret(digest.digest(), chosen=secret.chosen)


def sampler_of(given: Any) -> Sampler:
    """The sampler with this name and its default settings, or `given` if it is a sampler."""
    if isinstance(given, str):
        check.one_of(tuple(SAMPLERS), sampler=given)
        return SAMPLERS[given]()
    if not isinstance(given, Sampler):
        raise TypeError(
            f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, or settings such as "
            f"RejectionSampler(max_trials=10**6), got {type(given).__name__}."
        )
    return given
