"""Which flow a table gets, as plain settings that a file can hold."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow._core.fields import convert, count, each, flag, optional, positive
from veilflow.flows.hflow import HFlow
from veilflow.flows.variables import Variables

_LINEAR = ("low-rank", "lu", "none")
_NETWORKS = ("conditional", "separate")
_DEQUANTIZATIONS = ("uniform", "variational")
_MOST = {"blocks": 1000, "bins": 1000, "layers": 20, "units": 2**16}


@dataclass(frozen=True, kw_only=True)
class TableArchitecture:
    """What the flows of a table have in common.

    Attributes:
        most_bins: About the largest number of bins of a number; None until the planner has set it.
    """

    most_bins: int | None = None

    def resolved(self, **defaults: Any) -> Self:
        """This flow with defaults for the sizes that are still None."""
        names = {field.name for field in fields(self)}
        missing = {name for name in names & set(defaults) if getattr(self, name) is None}
        return replace(self, **{name: defaults[name] for name in missing})


@dataclass(frozen=True, kw_only=True)
class CodeArchitecture(TableArchitecture):
    """The sizes of the flow of codes; made by `codes`.

    Attributes:
        hidden: Sizes of the hidden layers.
        label_weight: The weight of the label in the loss.
        num_waves: The number of features of a number.
        direct: Whether the last layer also sees the row itself.
    """

    hidden: tuple[int, ...] | None = None
    label_weight: float | None = None
    num_waves: int | None = None
    direct: bool | None = None

    def __post_init__(self) -> None:
        convert(
            self,
            most_bins=optional(count()),
            hidden=optional(each(count())),
            label_weight=optional(positive),
            num_waves=optional(count()),
            direct=optional(flag),
        )
        _check_most(hidden=self.hidden or ())


@dataclass(frozen=True, kw_only=True)
class HFlowArchitecture(TableArchitecture):
    """The sizes and parts of the paper's flow; made by `hflow`.

    Attributes:
        blocks: The number of blocks, each a linear map and an autoregressive spline.
        bins: The number of bins of a spline; None until the planner has set it.
        hidden: Sizes of the hidden layers of the masked networks.
        linear: The linear map of a block: "low-rank", "lu" or "none".
        rank: The rank of the low-rank map.
        network: Whose network sets the splines: "separate", one for each block, or "conditional", one
            for all.
        dequantization: Noise on listed values: "uniform", or "variational" for trained noise.
    """

    blocks: int
    bins: int | None
    hidden: tuple[int, ...]
    linear: str
    rank: int
    network: str
    dequantization: str

    def __post_init__(self) -> None:
        check.one_of(_LINEAR, linear=self.linear)
        check.one_of(_NETWORKS, network=self.network)
        check.one_of(_DEQUANTIZATIONS, dequantization=self.dequantization)
        convert(
            self,
            most_bins=optional(count()),
            blocks=count(),
            bins=optional(count(at_least=2)),
            hidden=each(count()),
            rank=count(),
        )
        _check_most(blocks=self.blocks, bins=self.bins or 0, hidden=self.hidden)

    def check_fits(self, num_variables: int) -> None:
        """Raise unless a flow of `num_variables` variables can have these sizes."""
        if self.linear == "low-rank" and self.rank > num_variables:
            raise ValueError(
                f"rank must be at most the {num_variables} variables of the table, got {self.rank}. "
                "Use linear='lu' for full rank."
            )

    def build(
        self,
        variables: Variables,
        *,
        key: Key[Array, ""],
        shares: Sequence[Float[np.ndarray, " codes"]] | None = None,
    ) -> HFlow:
        """A fresh flow over rows of `variables`, whose codes have these released shares."""
        parts = {name: value for name, value in asdict(self).items() if name != "most_bins"}
        return HFlow.create(variables.kinds, key=key, shares=shares, **parts)


def codes(
    *,
    hidden: tuple[int, ...] | None = None,
    label_weight: float | None = None,
    most_bins: int | None = None,
) -> CodeArchitecture:
    """The flow of codes, for `TableFlow(flow=...)`: exact densities, gaps filled, given cells.

    The planner sets whatever is left at None.

    Args:
        hidden: Sizes of the hidden layers.
        label_weight: The weight of the label in the loss. A weight above 1 brings out what predicts
            the label, at a small cost in likelihood.
        most_bins: About the largest number of bins that a number is cut into.
    """
    return CodeArchitecture(hidden=hidden, label_weight=label_weight, most_bins=most_bins)


def hflow(
    *,
    blocks: int = 3,
    bins: int | None = None,
    hidden: tuple[int, ...] = (64, 64),
    linear: str = "low-rank",
    rank: int = 1,
    network: str = "separate",
    dequantization: str = "uniform",
    most_bins: int | None = None,
) -> HFlowArchitecture:
    """The flow of the paper of DP-HFlow, for `TableFlow(flow=...)`.

    Args:
        blocks: The number of blocks, each a linear map and an autoregressive spline.
        bins: The number of bins of a spline; None for the choice of the planner.
        hidden: Sizes of the hidden layers of the masked networks.
        linear: "low-rank", "lu" or "none".
        rank: The rank of the low-rank map.
        network: "separate", one network for each block, or "conditional", the paper's one for all.
        dequantization: "uniform", or "variational" for trained noise.
        most_bins: About the largest number of bins that a number is cut into, for the marginals of a
            warm start; None for the choice of the planner.
    """
    return HFlowArchitecture(
        blocks=blocks,
        bins=bins,
        hidden=hidden,
        linear=linear,
        rank=rank,
        network=network,
        dequantization=dequantization,
        most_bins=most_bins,
    )


def _check_most(*, hidden: tuple[int, ...], **sizes: int) -> None:
    """Raise for sizes that no table needs: a file could ask for any amount of work."""
    for name, value in {**sizes, "layers": len(hidden), "units": sum(hidden)}.items():
        if value > _MOST[name]:
            raise ValueError(f"{name} must be at most {_MOST[name]}, got {value}.")
