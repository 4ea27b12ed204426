"""Which flow a table gets, other than the flow of codes, as plain settings that a file can hold."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows.hflow import HFlow
from veilflow.flows.variables import Variables

_LINEAR = ("low-rank", "lu", "none")
_NETWORKS = ("conditional", "separate")
_DEQUANTIZATIONS = ("uniform", "variational")
_MOST = {"blocks": 1000, "bins": 1000, "layers": 20, "units": 2**16}


@dataclass(frozen=True, kw_only=True)
class HFlowArchitecture:
    """The sizes and parts of the paper's flow; made by `hflow`."""

    blocks: int
    bins: int
    hidden: tuple[int, ...]
    linear: str
    rank: int
    network: str
    dequantization: str

    def __post_init__(self) -> None:
        check.one_of(_LINEAR, linear=self.linear)
        check.one_of(_NETWORKS, network=self.network)
        check.one_of(_DEQUANTIZATIONS, dequantization=self.dequantization)
        check.count(blocks=self.blocks, rank=self.rank)
        check.count(bins=self.bins, at_least=2)
        if not isinstance(self.hidden, list | tuple) or len(self.hidden) > _MOST["layers"]:
            raise TypeError(
                f"hidden must be a tuple of sizes such as (64, 64), got {self.hidden!r}."
            )
        for size in self.hidden:
            check.count(hidden=size)
        for name, value in {
            "blocks": self.blocks,
            "bins": self.bins,
            "units": sum(self.hidden),
        }.items():
            if value > _MOST[name]:
                raise ValueError(f"{name} must be at most {_MOST[name]}, got {value}.")
        for name in ("blocks", "bins", "rank"):
            object.__setattr__(self, name, int(getattr(self, name)))
        object.__setattr__(self, "hidden", tuple(int(size) for size in self.hidden))

    def check_fits(self, num_variables: int) -> None:
        """Raise unless a flow of so many variables can have these sizes."""
        if self.linear == "low-rank" and self.rank > num_variables:
            raise ValueError(
                f"rank must be at most the {num_variables} variables of the table, got {self.rank}. "
                "Use linear='lu' for full rank."
            )

    def build(self, variables: Variables, *, key: Key[Array, ""]) -> HFlow:
        """A fresh flow over rows of `variables`; the key is spent."""
        return HFlow.create(variables.kinds, key=key, **asdict(self))

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return {**asdict(self), "hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "HFlowArchitecture":
        """The settings written by `to_json`: all of them, and no other."""
        names = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or set(data) != names:
            raise ValueError(f"an hflow has the settings {', '.join(sorted(names))}, and no other.")
        return cls(**{**data, "hidden": tuple(data["hidden"])})


def hflow(
    *,
    blocks: int = 3,
    bins: int = 8,
    hidden: tuple[int, ...] = (64, 64),
    linear: str = "low-rank",
    rank: int = 1,
    network: str = "conditional",
    dequantization: str = "uniform",
) -> HFlowArchitecture:
    """The flow of the paper of DP-HFlow, for `TableFlow(flow=...)`.

    Args:
        blocks: How many blocks, each a linear map and an autoregressive spline.
        bins: How many bins a spline has.
        hidden: Sizes of the hidden layers of the masked networks.
        linear: "low-rank", "lu" or "none".
        rank: Of the low-rank map.
        network: "conditional", one network for all blocks, or "separate", one for each.
        dequantization: "uniform", or "variational" for noise that is trained.
    """
    return HFlowArchitecture(
        blocks=blocks,
        bins=bins,
        hidden=hidden,
        linear=linear,
        rank=rank,
        network=network,
        dequantization=dequantization,
    )
