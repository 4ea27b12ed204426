"""The exponential mechanism over finitely many public candidates: exact, for one or two parameters."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.models.expm.target import Target
from veilflow.privacy.events import Event, ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import choose
from veilflow.privacy.unit import Adjacency

_MOST = 2**20
"""Candidates of a grid."""


@dataclass(frozen=True, kw_only=True)
class GridSampler:
    """One of all points of a public grid, or of a public list.

    The grid has a point in each of `per_axis` cells of equal prior mass, along every parameter. So
    all its points have one weight, and the prior is in where they lie. The candidates of a list have
    one weight, too: its prior is the list.

    Guarantee:
        Pure epsilon, unconditionally.
    """

    per_axis: int = 401
    candidates: Any = field(default=None, repr=False, compare=False)
    """A list of parameter vectors, instead of a grid; public."""

    name: ClassVar[str] = "grid"
    assumption: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        check.count(per_axis=self.per_axis, at_least=2)
        if self.candidates is None:
            return
        listed = np.array(self.candidates, np.float32)
        if listed.ndim != 2 or 0 in listed.shape or not np.isfinite(listed).all():
            raise ValueError(
                "candidates must be finite numbers, one row for each parameter vector, got shape "
                f"{listed.shape}."
            )
        object.__setattr__(self, "candidates", listed)

    def event(self, epsilon: float) -> Event:
        """What one draw costs."""
        return ExponentialMechanism(epsilon)

    def draw(
        self, target: Target, records: Sensitive[Any], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        """One candidate, with probability proportional to the exponential of minus its losses.

        Args:
            target: The density, with its epsilon.
            records: Inputs and labels.
            secret: Not used: the choice is made with operating-system entropy.
        """
        del secret
        thetas = self.points(target)
        return chosen(target, records, thetas, epsilon=target.epsilon)

    def points(self, target: Target) -> Float[np.ndarray, "num dim"]:
        """All candidates, as float32."""
        if self.candidates is not None:
            if self.candidates.shape[1] != target.dim:
                raise ValueError(
                    f"candidates have {self.candidates.shape[1]} numbers and the network takes "
                    f"{target.dim} parameters."
                )
            return self.candidates
        if self.per_axis**target.dim > _MOST:
            raise ValueError(
                f"a grid of {self.per_axis} points along each of {target.dim} parameters is out of "
                f"reach: at most {_MOST} points, so {math.floor(_MOST ** (1 / target.dim))} along "
                "each. Grids are for one or two parameters; use sampler='zoom' for more."
            )
        side = target.prior.quantile((np.arange(self.per_axis) + 0.5) / self.per_axis)
        axes = np.meshgrid(*[side.astype(np.float32)] * target.dim, indexing="ij")
        return np.stack([axis.ravel() for axis in axes], axis=1)


def chosen(
    target: Target,
    records: Sensitive[Any],
    thetas: Float[np.ndarray, "num dim"],
    *,
    epsilon: float,
) -> Released[Float[np.ndarray, " dim"]]:
    """One of `thetas`, by the finite exponential mechanism at `epsilon`.

    Sums of losses are exact as floats, so their sensitivity is; the choice is exact, too.
    """
    replace = target.adjacency is Adjacency.REPLACE_ONE
    index = choose(
        records,
        utility_fn=lambda data: -target.losses(thetas, data),
        # `choose` doubles it for replacing a record, which moves a sum of losses from 0 to s by s
        sensitivity=target.loss.sensitivity / (2 if replace else 1),
        epsilon=epsilon,
        monotonic=not replace,
        adjacency=target.adjacency,
    )
    return index.map(lambda place: thetas[place])
