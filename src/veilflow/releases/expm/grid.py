"""The exponential mechanism over finitely many public candidates: exact, for one or two parameters."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from veilflow._core.fields import convert, count
from veilflow._core.keys import Secret
from veilflow.privacy.events import Event, ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import choose
from veilflow.privacy.unit import Adjacency
from veilflow.releases.expm.sampler import Sampler
from veilflow.releases.expm.target import Target

_MOST = 2**20
"""Candidates of a grid."""


@dataclass(frozen=True, kw_only=True)
class GridSampler(Sampler):
    """One of all points of a public grid, or of a public list.

    The grid has a point in each of `per_axis` cells of equal prior mass, along every parameter. So
    all its points have one weight, and the prior is in where they lie. The candidates of a list have
    one weight, too: its prior is the list.

    Guarantee:
        Pure epsilon, unconditionally.
    """

    per_axis: int = 401
    candidates: Any = field(default=None, repr=False)
    """A list of parameter vectors, instead of a grid; public."""

    name: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        convert(self, per_axis=count(at_least=2))
        if self.candidates is None:
            return
        listed = np.array(self.candidates, np.float32)
        if listed.ndim != 2 or 0 in listed.shape or not np.isfinite(listed).all():
            raise ValueError(
                "candidates must be finite numbers, one row for each parameter vector, got shape "
                f"{listed.shape}."
            )
        convert(self, candidates=lambda *_: tuple(map(tuple, listed.tolist())))

    def event(self, epsilon: float) -> Event:
        return ExponentialMechanism(epsilon)

    def settled(self, target: Target) -> "GridSampler":
        self._check(target.dim)
        return self

    def draw(
        self, target: Target, records: Sensitive[Any], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        del secret  # one choice, made with operating-system entropy
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
                    f"candidates have {len(self.candidates[0])} numbers and the network takes {dim} "
                    "parameters."
                )
        elif self.per_axis**dim > _MOST:
            raise ValueError(
                f"a grid of {self.per_axis} points along each of {dim} parameters is out of reach: at "
                f"most {_MOST} points, so {math.floor(_MOST ** (1 / dim))} along each. Grids are for "
                "one or two parameters; use sampler='zoom' for more."
            )


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
