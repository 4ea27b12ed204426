"""What draws one parameter vector from a target, and what that costs."""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float

from veilflow._core.codec import Tagged
from veilflow._core.fields import convert, count, optional
from veilflow._core.keys import Secret
from veilflow.privacy.assumptions import Unproved
from veilflow.privacy.events import Event
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.expm.target import Target


@dataclass(frozen=True, kw_only=True)
class Sampler(Tagged, ABC):
    """Settings of one way to draw. All of them are public."""

    name: ClassVar[str]
    """The word that stands for its usual settings."""
    assumption: ClassVar[Unproved | None] = None
    """What the guarantee of a draw rests on; None where it rests on nothing but a bounded loss, and
    all that matters is drawn from operating-system entropy."""

    def settled(self, target: Target) -> Self:
        """These settings with all that decides the price, from public facts alone.

        Raises:
            ValueError: The target is out of this sampler's reach.
        """
        return self

    @abstractmethod
    def event(self, epsilon: float) -> Event:
        """What one draw costs: known before the records are."""

    @abstractmethod
    def draw(
        self, target: Target, records: Sensitive[Any], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        """One parameter vector; another one needs another secret, and is paid for again.

        Args:
            target: The density, with its epsilon.
            records: Inputs and labels.
            secret: Source of all randomness that no exact guarantee rests on.

        Returns:
            The parameters, which cost `event(target.epsilon)`.
        """


@dataclass(frozen=True, kw_only=True)
class CountingSampler(Sampler):
    """A sampler that has to know roughly how many records there are."""

    num_records: int | None = None
    """Declared, or released by a private count. Privacy does not rest on its being right."""

    def __post_init__(self) -> None:
        convert(self, num_records=optional(count()))

    def knowing(self, num_records: int | None) -> Self:
        """These settings with the number of records, unless it was set before."""
        if self.num_records is not None or num_records is None:
            return self
        return dataclasses.replace(self, num_records=num_records)

    def _counted(self) -> int:
        if self.num_records is None:
            raise ValueError(
                f"{type(self).__name__} needs num_records: declare how many records there are, or "
                "release a private count first."
            )
        return self.num_records
