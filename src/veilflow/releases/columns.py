"""A map that makes each column approximately normal, from histograms that are released together.

Spikes, long tails and loose bounds are properties of single columns. A histogram of each column costs
little, and mapping the column to a normal leaves only the dependence between columns to the flow.
"""

# SciPy has no type stubs
# pyright: reportMissingTypeStubs=false

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from veilflow._core import check
from veilflow.flows.bijections.fixed import PiecewiseLinear
from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.dyadic import denoise
from veilflow.releases.gaussian import OneGaussian
from veilflow.releases.release import Tools
from veilflow.releases.rows import finite

_EDGE = 1e-7
"""Mass below the first knot, and above the last."""
_MOST_BITS = 24


@dataclass(frozen=True, kw_only=True)
class Columns(OneGaussian):
    """Histograms of all columns, which define a map that makes each approximately standard normal.

    Guarantee:
        One Gaussian mechanism for add/remove of one row: a row is in one cell of each of `dim`
        histograms, so their joint L2 sensitivity is sqrt(dim).

    Attributes:
        dim: Number of columns.
        bits: Each histogram has 2^bits cells.
        border: Rows are clamped to the box from -border to border; one that is not finite counts as
            zero.
    """

    purpose: str = "histograms of columns"
    dim: int
    bits: int
    border: float

    def __post_init__(self) -> None:
        check.count(dim=self.dim, bits=self.bits)
        if self.bits > _MOST_BITS:
            raise ValueError(f"bits must be at most {_MOST_BITS}, got {self.bits}.")

    @property
    def numbers(self) -> int:
        return self.dim * 2**self.bits

    @property
    def coordinates(self) -> int:
        return 4 * self.dim  # `gaussian_once` uses four for each number that a row changes

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return ()  # counts are integers, whose sums are exact

    def run(
        self, records: Sensitive[Float[np.ndarray, "rows dim"]], tools: Tools
    ) -> Released[Float[np.ndarray, "dim cells"]]:
        values, cells = np.clip(finite(records.open()), -self.border, self.border), 2**self.bits
        at = np.floor((values / self.border + 1) * (cells / 2))
        at = np.clip(at, 0, cells - 1).astype(np.int64)
        counts = np.stack([np.bincount(column, minlength=cells) for column in at.T])
        return gaussian_once(
            ClippedSum(counts, self.dim**0.5),
            noise_multiplier=self.noise_multiplier,
            secret=tools.secret,
            purpose="marginals",
            touched=self.dim,
        )

    def result(self, value: Float[np.ndarray, "dim cells"]) -> PiecewiseLinear:
        """The map that makes each column approximately standard normal."""
        variance = self.noise_multiplier**2 * self.dim
        mass = np.stack([denoise(column, variance).mass for column in value])
        up_to = np.concatenate([np.zeros((self.dim, 1)), np.cumsum(mass, axis=1)], axis=1)
        knots = ndtri(_EDGE + (1 - 2 * _EDGE) * np.minimum(up_to, 1.0))
        return PiecewiseLinear.create(knots, border=self.border)
