"""The exponential mechanism over finitely many public candidates: exact, for one or two parameters."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from veilflow._core.fields import convert, count, optional
from veilflow._core.keys import Secret
from veilflow.privacy.events import Event, ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import choose
from veilflow.privacy.unit import Adjacency
from veilflow.releases.expm.sampler import Sampler
from veilflow.releases.expm.target import Target

_MOST = 2**20
"""The most candidates of a grid."""


@dataclass(frozen=True, kw_only=True)
class GridSampler(Sampler):
    """Chooses from the points of a public grid, or from a public list.

    The grid has a point in each of `per_axis` cells of equal prior mass, along every parameter. So all
    points have equal weight, and the prior is in their positions. The candidates of a list have equal
    weight, too: the list is the prior.

    Guarantee:
        Pure epsilon, unconditionally.

    Args:
        per_axis: Points of the grid along each parameter.
        candidates: A public list of parameter vectors, instead of a grid.
    """

    per_axis: int = 401
    candidates: Any = field(default=None, repr=False)

    name: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        convert(self, per_axis=count(at_least=2), candidates=optional(_vectors))

    def event(self, epsilon: float) -> Event:
        return ExponentialMechanism(epsilon)

    def settled(self, target: Target) -> "GridSampler":
        self._check(target.dim)
        return self

    def draw(
        self, target: Target, records: Sensitive[Any], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        del secret  # the choice uses entropy of the operating system
        return chosen(target, records, self.points(target), epsilon=target.epsilon)

    def points(self, target: Target) -> Float[np.ndarray, "num dim"]:
        """All candidates, as float32."""
        self._check(target.dim)
        if self.candidates is not None:
            return np.array(self.candidates, np.float32)
        side = target.prior.quantile((np.arange(self.per_axis) + 0.5) / self.per_axis)
        axes = np.meshgrid(*[side.astype(np.float32)] * target.dim, indexing="ij")
        return np.stack([axis.ravel() for axis in axes], axis=1)

    def _check(self, dim: int) -> None:
        """Raise unless there are candidates of `dim` parameters, and not too many."""
        if self.candidates is not None:
            if len(self.candidates[0]) != dim:
                raise ValueError(
                    f"candidates have {len(self.candidates[0])} numbers, but the network has {dim} "
                    "parameters."
                )
        elif self.per_axis**dim > _MOST:
            raise ValueError(
                f"a grid of {self.per_axis} points along each of {dim} parameters is out of reach: at "
                f"most {_MOST} points, so {math.floor(_MOST ** (1 / dim))} along each. Grids are for "
                "one or two parameters; use sampler='zoom' for more."
            )


def _vectors(name: str, value: Any) -> tuple[tuple[float, ...], ...]:
    """A rule for fields: finite parameter vectors in single precision."""
    array = np.array(value, np.float32)
    if array.ndim != 2 or 0 in array.shape or not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite numbers, one row for each parameter vector, got an array of "
            f"shape {array.shape}."
        )
    rows: list[list[float]] = array.tolist()
    return tuple(map(tuple, rows))


def chosen(
    target: Target,
    records: Sensitive[Any],
    thetas: Float[np.ndarray, "num dim"],
    *,
    epsilon: float,
) -> Released[Float[np.ndarray, " dim"]]:
    """One of `thetas`, by the finite exponential mechanism at `epsilon`.

    Sums of losses are exact as floats, hence so is their sensitivity; the choice is exact, too.
    """
    replace = target.adjacency is Adjacency.REPLACE_ONE
    index = choose(
        records,
        utility_fn=lambda data: -target.losses(thetas, data),
        # `choose` doubles it for replacing a record, which moves a sum of losses by at most s
        sensitivity=target.loss.sensitivity / (2 if replace else 1),
        epsilon=epsilon,
        monotonic=not replace,
        adjacency=target.adjacency,
    )
    return index.map(lambda place: thetas[place])
