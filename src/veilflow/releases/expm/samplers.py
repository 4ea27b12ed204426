"""All samplers, by the words that stand for their usual settings."""

from typing import Any

from veilflow._core import check
from veilflow.releases.expm.flow_sampler import FlowSampler
from veilflow.releases.expm.grid import GridSampler
from veilflow.releases.expm.hmc import HmcSampler
from veilflow.releases.expm.rejection import RejectionSampler
from veilflow.releases.expm.sampler import Sampler
from veilflow.releases.expm.zoom import ZoomSampler

_KINDS = (ZoomSampler, RejectionSampler, GridSampler, FlowSampler, HmcSampler)
SAMPLERS: dict[str, type[Sampler]] = {kind.name: kind for kind in _KINDS}


def sampler_of(given: Any) -> Sampler:
    """The sampler of this name with its usual settings; or the settings that were given."""
    if isinstance(given, str):
        check.one_of(tuple(SAMPLERS), sampler=given)
        return SAMPLERS[given]()
    if not isinstance(given, Sampler):
        raise TypeError(
            f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, or settings such as "
            f"RejectionSampler(max_trials=10**6), got {type(given).__name__}."
        )
    return given
