"""Sound DP-NF-INIT: the first scales and shifts of a flow's ActNorms, from noisy moments.

The paper starts every ActNorm at the mean and spread of what reaches it, with noise that is too small
for as many columns as there are. Here each block pays for one Gaussian mechanism over the sums of
(y, y^2) of all columns together, with y clamped to a declared reach, and variances are floored.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow._core.keys import Secret
from veilflow.flows import ActNorm, Chain, Flow, Scan
from veilflow.models.start.release import release
from veilflow.models.start.rows import finite, seen_through
from veilflow.privacy.events import Together
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive

_REACH = 4.0
"""What reaches an ActNorm is clamped to this before it is summed."""
_LEAST_VARIANCE = 1e-4


def private_actnorm(
    flow: Flow,
    rows: Sensitive[np.ndarray],
    *,
    num_records: float,
    noise_multipliers: Sequence[float],
    secret: Secret,
    hardened: bool = False,
) -> Released[Flow]:
    """Release `flow` with its ActNorms set so that each lets out about standard coordinates.

    Guarantee:
        One Gaussian mechanism a block, for add/remove of one row: with |y| <= reach the sums of
        y / reach and (y / reach)^2 over `dim` columns move by at most sqrt(2 dim).

    Args:
        flow: Scanned blocks that start, from the base, with an ActNorm.
        rows: Rows; one that is not finite counts as zero.
        num_records: Declared or released number of rows.
        noise_multipliers: One for each block, from the data to the base.
        secret: Source of the noise.
        hardened: Noise from the operating system, on a grid.
    """
    scan = flow.bijection
    if not (isinstance(scan, Scan) and isinstance(scan.block, Chain)):
        raise TypeError("flow must be made of scanned blocks.")
    norm, *rest = scan.block.bijections
    if not isinstance(norm, ActNorm):
        raise TypeError("every block of the flow must have an ActNorm. Build it with actnorm=True.")
    before = Chain(rest)
    y, events = np.asarray(rows.open(), np.float32), []
    clip_norm = (2 * flow.dim) ** 0.5
    for turn, noise_multiplier in enumerate(noise_multipliers):
        block = scan.num_blocks - 1 - turn
        y = finite(seen_through(_at(before, block), y))
        unit = np.clip(np.asarray(y, np.float64) / _REACH, -1, 1)
        sums = ClippedSum(np.stack([unit.sum(0), (unit**2).sum(0)]), clip_norm)
        released = release(
            sums,
            noise_multiplier=noise_multiplier,
            key=secret.key("actnorm", turn),
            hardened=hardened,
        )
        events.append(released.event)
        first, second = np.asarray(released.value, np.float64) / num_records
        mean = _REACH * np.clip(first, -1, 1)
        variance = np.maximum(_REACH**2 * second - mean**2, _LEAST_VARIANCE)
        log_scale = jnp.float32(-0.5 * np.log(variance))
        shift = jnp.float32(-mean / np.sqrt(variance))
        norm = eqx.tree_at(
            lambda n: (n.scale.log_scale, n.shift.shift),
            norm,
            (norm.scale.log_scale.at[block].set(log_scale), norm.shift.shift.at[block].set(shift)),
        )
        y = seen_through(_at(norm, block), y)
    scan = eqx.tree_at(lambda s: s.block, scan, Chain((norm, *rest)))
    return Released(Flow(flow.base, scan), Together(tuple(events)))


def _at(blocks, index: int):
    """One block of stacked ones."""
    return jax.tree.map(lambda leaf: leaf[index], blocks)
