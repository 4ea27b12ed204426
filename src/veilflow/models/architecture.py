"""Which flow to train, as plain settings: what a file can hold and an auditor can read."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows import Flow, architectures

_KINDS = ("maf", "nsf", "realnvp")
_MOST_BLOCKS = 1000
_MOST_LAYERS = 20


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A kind of flow and its sizes; made by `maf`, `nsf` or `realnvp`."""

    kind: str
    blocks: int
    hidden: tuple[int, ...]
    num_bins: int | None = None
    """Bins of a spline; None for affine maps."""
    actnorm: bool = False
    """Whether each block ends with a trained scale and shift of every coordinate."""

    def __post_init__(self) -> None:
        check.one_of(_KINDS, kind=self.kind)
        if not isinstance(self.hidden, list | tuple) or len(self.hidden) > _MOST_LAYERS:
            raise TypeError(
                f"hidden must be a tuple of sizes such as (100, 100), got {self.hidden!r}."
            )
        check.count(blocks=self.blocks)
        for size in self.hidden:
            check.count(hidden=size)
        if self.blocks > _MOST_BLOCKS:
            raise ValueError(f"blocks must be at most {_MOST_BLOCKS}, got {self.blocks}.")
        if (self.num_bins is None) == (self.kind == "nsf"):
            raise ValueError("a nsf has num_bins, other flows have none.")
        if self.num_bins is not None:
            check.count(num_bins=self.num_bins, at_least=2)
            object.__setattr__(self, "num_bins", int(self.num_bins))
        object.__setattr__(self, "blocks", int(self.blocks))
        object.__setattr__(self, "hidden", tuple(int(size) for size in self.hidden))

    def build(self, dim: int, *, key: Key[Array, ""]) -> Flow:
        """A fresh flow over a standard normal."""
        sizes: dict[str, Any] = {"blocks": self.blocks, "hidden": self.hidden, "key": key}
        sizes["actnorm"] = self.actnorm
        if self.num_bins is not None:
            sizes["num_bins"] = self.num_bins
        return getattr(architectures, self.kind)(dim, **sizes)

    def num_parameters(self, dim: int) -> int:
        """How many numbers `build` would make, without making them."""
        seen, mapped = (dim // 2, dim - dim // 2) if self.kind == "realnvp" else (dim, dim)
        outputs = (2 if self.num_bins is None else 3 * self.num_bins + 1) * mapped
        sizes = (seen, *self.hidden, outputs)
        network = sum(after * (before + 1) for before, after in pairwise(sizes))
        return self.blocks * (network + (2 * dim if self.actnorm else 0))

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return {**asdict(self), "hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Architecture":
        """The settings written by `to_json`."""
        return cls(
            kind=data["kind"],
            blocks=data["blocks"],
            hidden=tuple(data["hidden"]),
            num_bins=data["num_bins"],
            actnorm=bool(data["actnorm"]),
        )


def maf(*, blocks: int = 5, hidden: tuple[int, ...] = (100, 100)) -> Architecture:
    """A masked autoregressive flow, as in the paper of DP-NF."""
    return Architecture(kind="maf", blocks=blocks, hidden=hidden)


def nsf(*, blocks: int = 3, hidden: tuple[int, ...] = (100,), num_bins: int = 8) -> Architecture:
    """A neural spline flow: fewer blocks, each of which bends more."""
    return Architecture(kind="nsf", blocks=blocks, hidden=hidden, num_bins=num_bins)


def realnvp(*, blocks: int = 8, hidden: tuple[int, ...] = (100, 100)) -> Architecture:
    """A coupling flow: samples are as cheap as densities."""
    return Architecture(kind="realnvp", blocks=blocks, hidden=hidden)
