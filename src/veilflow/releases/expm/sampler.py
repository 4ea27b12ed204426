"""Samplers: how one parameter vector is drawn from a target, and what that costs."""

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
    """Settings of a sampling method. All of them are public."""

    name: ClassVar[str]
    """The name that stands for its default settings."""
    assumption: ClassVar[Unproved | None] = None
    """What the guarantee of a draw rests on; None if it rests on the bounded loss alone, and all
    randomness that matters comes from the operating system."""

    def settled(self, target: Target) -> Self:
        """These settings with everything that determines the price, from public facts alone.

        Raises:
            ValueError: If this sampler cannot handle the target.
        """
        return self

    @abstractmethod
    def event(self, epsilon: float) -> Event:
        """The price of one draw, which does not depend on the records."""

    @abstractmethod
    def draw(
        self, target: Target, records: Sensitive[Any], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        """One parameter vector. A second one needs another secret and is paid for again.

        Args:
            target: The density, with its epsilon.
            records: Inputs and labels.
            secret: Source of all randomness on which no exact guarantee rests.

        Returns:
            The parameters, at a price of `event(target.epsilon)`.
        """


@dataclass(frozen=True, kw_only=True)
class CountingSampler(Sampler):
    """A sampler that needs the approximate number of records."""

    num_records: int | None = None
    """Declared, or released by a private count. Privacy does not depend on its accuracy."""

    def __post_init__(self) -> None:
        convert(self, num_records=optional(count()))

    def knowing(self, num_records: int | None) -> Self:
        """These settings with the number of records, unless they have one."""
        if self.num_records is not None or num_records is None:
            return self
        return dataclasses.replace(self, num_records=num_records)

    def _counted(self) -> int:
        if self.num_records is None:
            raise ValueError(
                f"{type(self).__name__} needs num_records: declare the number of records, or "
                "release a private count first."
            )
        return self.num_records
