"""Which flow to train, as plain settings that a file can hold and an auditor can read."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from jaxtyping import Array, Key

from veilflow._core import fields
from veilflow.flows import Chain, Flow, Radial, architectures

_KINDS = ("maf", "nsf", "realnvp")
_MOST_BLOCKS = 1000
_MOST_LAYERS = 20
_RADIAL_BINS = 16


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A kind of flow and its sizes, from `maf`, `nsf` or `realnvp`."""

    kind: str
    blocks: int
    hidden: tuple[int, ...]
    num_bins: int | None = None
    """The number of bins of a spline; None for affine maps."""
    actnorm: bool = False
    """Whether each block ends with a trained scale and shift of every coordinate."""
    radial: bool = False
    """Whether the distance from the origin goes through a trained spline first."""

    def __post_init__(self) -> None:
        fields.convert(
            self,
            kind=fields.word(*_KINDS),
            blocks=fields.count(),
            hidden=fields.each(fields.count()),
            num_bins=fields.optional(fields.count(at_least=2)),
            actnorm=fields.flag,
            radial=fields.flag,
        )
        if len(self.hidden) > _MOST_LAYERS:
            raise ValueError(f"hidden must have at most {_MOST_LAYERS} sizes.")
        if self.blocks > _MOST_BLOCKS:
            raise ValueError(f"blocks must be at most {_MOST_BLOCKS}, got {self.blocks}.")
        if (self.num_bins is None) == (self.kind == "nsf"):
            raise ValueError("a nsf has num_bins, other flows have none.")

    def build(self, dim: int, *, key: Key[Array, ""]) -> Flow:
        """A fresh flow over a standard normal."""
        sizes: dict[str, Any] = {"blocks": self.blocks, "hidden": self.hidden, "key": key}
        sizes["actnorm"] = self.actnorm
        if self.num_bins is not None:
            sizes["num_bins"] = self.num_bins
        flow: Flow = getattr(architectures, self.kind)(dim, **sizes)
        if not self.radial:
            return flow
        return Flow(flow.base, Chain((flow.bijection, Radial.create(dim, num_bins=_RADIAL_BINS))))

    def num_parameters(self, dim: int) -> int:
        """The number of parameters of the flow, without building it."""
        inputs, mapped = (dim // 2, dim - dim // 2) if self.kind == "realnvp" else (dim, dim)
        outputs = (2 if self.num_bins is None else 3 * self.num_bins + 1) * mapped
        sizes = (inputs, *self.hidden, outputs)
        network = sum(after * (before + 1) for before, after in pairwise(sizes))
        blocks = self.blocks * (network + (2 * dim if self.actnorm else 0))
        return blocks + (3 * _RADIAL_BINS - 1 if self.radial else 0)


def maf(
    *, blocks: int = 5, hidden: tuple[int, ...] = (100, 100), radial: bool = False
) -> Architecture:
    """A masked autoregressive flow, as in the paper of DP-NF."""
    return Architecture(kind="maf", blocks=blocks, hidden=hidden, radial=radial)


def nsf(
    *,
    blocks: int = 3,
    hidden: tuple[int, ...] = (100,),
    num_bins: int = 8,
    radial: bool = False,
) -> Architecture:
    """A neural spline flow: fewer blocks, each more flexible."""
    return Architecture(kind="nsf", blocks=blocks, hidden=hidden, num_bins=num_bins, radial=radial)


def realnvp(
    *, blocks: int = 8, hidden: tuple[int, ...] = (100, 100), radial: bool = False
) -> Architecture:
    """A coupling flow: sampling is as cheap as evaluating densities."""
    return Architecture(kind="realnvp", blocks=blocks, hidden=hidden, radial=radial)
