"""What draws one parameter vector from a target, and what that costs."""

import dataclasses
import importlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.models.expm.target import Target
from veilflow.privacy.events import Event
from veilflow.privacy.guarantees import Released, Sensitive

_HOMES = {
    "zoom": ("veilflow.models.expm.zoom", "ZoomSampler"),
    "rejection": ("veilflow.models.expm.rejection", "RejectionSampler"),
    "grid": ("veilflow.models.expm.grid", "GridSampler"),
    "flow": ("veilflow.models.expm.flow_sampler", "FlowSampler"),
    "hmc": ("veilflow.models.expm.hmc", "HmcSampler"),
}
SAMPLERS = tuple(_HOMES)


@runtime_checkable
class Sampler(Protocol):
    """Settings of one way to draw. All of them are public."""

    name: ClassVar[str]
    assumption: ClassVar[str | None]
    """What the guarantee of a draw rests on, in a sentence that starts with CONDITIONAL; None where
    it rests on nothing but the loss being bounded."""

    def event(self, epsilon: float) -> Event:
        """What one draw costs: known before the records are."""
        ...

    def draw(
        self, target: Target, records: Sensitive[Any], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        """One parameter vector; another one needs another secret, and is paid for again."""
        ...


S = TypeVar("S", bound="CountingSampler")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CountingSampler(ABC):
    """A sampler that has to know roughly how many records there are."""

    num_records: int | None = None
    """Declared, or released by a private count. Privacy does not rest on its being right."""

    def __post_init__(self) -> None:
        if self.num_records is not None:
            check.count(num_records=self.num_records)
            object.__setattr__(self, "num_records", int(self.num_records))

    @abstractmethod
    def settled(self: S, target: Target) -> S:
        """These settings with all that decides the price, from public facts alone.

        Raises:
            ValueError: The target is out of this sampler's reach.
        """

    def knowing(self: S, num_records: int | None) -> S:
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


def sampler_of(given: Any) -> Sampler:
    """The sampler of this name with its usual settings; or the settings that were given."""
    if isinstance(given, str):
        check.one_of(SAMPLERS, sampler=given)
        module, name = _HOMES[given]
        return getattr(importlib.import_module(module), name)()
    if not isinstance(given, Sampler) or isinstance(given, type):
        raise TypeError(
            f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, or settings such as "
            f"RejectionSampler(max_trials=10**6), got {type(given).__name__}."
        )
    return given
