"""Sound DP-NF-INIT: the initial scales and shifts of a flow's ActNorms, from noisy moments.

The paper initializes every ActNorm with the mean and the spread of its inputs, but its noise is too
small for more than one column. Here each block pays for one Gaussian mechanism over the sums of
(y, y^2) of all columns together, where y is clamped to a declared range, and variances have a floor.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow.flows import AbstractBijection, Chain, Flow, PrivateLogDet, Scan
from veilflow.privacy.events import Event, Together
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.gaussian import GaussianRounds
from veilflow.releases.release import Tools
from veilflow.releases.rows import finite, seen_through

_REACH = 4.0
"""Inputs of an ActNorm are clamped to this range before they are summed."""
_LEAST_VARIANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class ActNorms(GaussianRounds):
    """Scales and shifts of a flow's ActNorms, so that the outputs of each are about standard.

    Guarantee:
        One Gaussian mechanism per block, for add/remove of one row: with |y| <= reach the sums of
        y / reach and (y / reach)^2 over `dim` columns move by at most sqrt(2 dim). A row that is not
        finite counts as zero.

    Attributes:
        dim: Number of columns.
        noise_multipliers: One for each block, from the data to the base; all 0 without privacy.
    """

    purpose: str = "scales and shifts"
    dim: int

    @property
    def numbers(self) -> int:
        return 2 * self.dim

    def run(
        self, records: Sensitive[np.ndarray], tools: Tools, *, flow: Flow, num_records: float
    ) -> Released[dict[str, np.ndarray]]:
        """Measure block by block.

        Args:
            records: The rows.
            tools: The tools of the run.
            flow: The untrained flow: scanned blocks that, from the base, start with an ActNorm.
            num_records: Declared or released number of rows.
        """
        scan, norm, rest = _parts(flow)
        before = Chain(rest)
        y = np.asarray(records.open(), np.float32)
        events: list[Event] = []
        scales, shifts = np.zeros((2, scan.num_blocks, self.dim), np.float32)
        for turn, noise_multiplier in enumerate(self.noise_multipliers):
            block = scan.num_blocks - 1 - turn
            y = finite(seen_through(_at(before, block), y))
            unit = np.clip(np.asarray(y, np.float64) / _REACH, -1, 1)
            released = gaussian_once(
                ClippedSum(np.stack([unit.sum(0), (unit**2).sum(0)]), (2 * self.dim) ** 0.5),
                noise_multiplier=noise_multiplier,
                secret=tools.secret,
                purpose="actnorm",
                index=turn,
            )
            events.append(released.event)
            first, second = released.value / num_records
            mean = _REACH * np.clip(first, -1, 1)
            variance = np.maximum(_REACH**2 * second - mean**2, _LEAST_VARIANCE)
            scales[block], shifts[block] = -0.5 * np.log(variance), -mean / np.sqrt(variance)
            y = seen_through(_at(_set(norm, scales, shifts), block), y)
        return Released({"log_scale": scales, "shift": shifts}, Together(tuple(events)))


def with_actnorms(flow: Flow, value: dict[str, np.ndarray]) -> Flow:
    """The flow with released scales and shifts."""
    scan, norm, rest = _parts(flow)
    norm = _set(norm, value["log_scale"], value["shift"])
    return Flow(flow.base, eqx.tree_at(lambda s: s.block, scan, Chain((norm, *rest))))


def _parts(flow: Flow) -> tuple[Scan, PrivateLogDet, list[AbstractBijection]]:
    """The scan over blocks, the ActNorm that each starts with, and what follows it."""
    scan = flow.bijection
    if not (isinstance(scan, Scan) and isinstance(scan.block, Chain)):
        raise TypeError("flow must consist of scanned blocks.")
    norm, *rest = scan.block.bijections
    if not isinstance(norm, PrivateLogDet):
        raise TypeError("every block of the flow must have an ActNorm. Build it with actnorm=True.")
    return scan, norm, rest


def _set(norm: PrivateLogDet, log_scale: np.ndarray, shift: np.ndarray) -> PrivateLogDet:
    both = jnp.concatenate([jnp.float32(log_scale), jnp.float32(shift)], axis=-1)
    return eqx.tree_at(lambda n: n.params.shift, norm, both)


def _at(blocks: Any, index: int) -> Any:
    """One of the stacked blocks."""
    return jax.tree.map(lambda leaf: leaf[index], blocks)
