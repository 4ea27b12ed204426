"""The fitted model of `DensityFlow`: samples and log-densities, with their guarantee."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from veilflow.flows import Blend, Flow
from veilflow.models.assembly import Assembly, restored
from veilflow.models.density_plan import DensityPlan
from veilflow.models.domain import Ball
from veilflow.models.fitted import ARRAYS
from veilflow.models.rows import RowDensity


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedDensityFlow(RowDensity):
    """A released density. Its methods are post-processing and cost nothing.

    Attributes:
        plan: The plan that was executed.
        flow: The density over flow coordinates.
        assembly: The parts and sizes of the flow.
    """

    kind: ClassVar[str] = "DensityFlow"

    plan: DensityPlan
    flow: Flow = field(repr=False, metadata=ARRAYS)
    assembly: Assembly

    @property
    def dim(self) -> int:
        """The number of columns."""
        return self.flow.dim

    @property
    def density(self) -> Blend:
        """The released density over flow coordinates: the flow with a thin uniform floor."""
        return self.assembly.floored(self.flow, ball=isinstance(self.domain, Ball))

    @classmethod
    def shapes(cls, plan: Any, public: dict[str, Any], *, num_numbers: int) -> Flow:
        assembly = public["assembly"]
        cls.check_columns(plan, public, assembly.dim)
        if assembly.border != plan.domain.border:
            raise ValueError("the flow and its domain must have the same border.")
        # before anything is built: a file cannot ask for more work than it has numbers
        if assembly.num_numbers != num_numbers:
            raise ValueError("the file does not have as many numbers as the settings require.")
        return assembly.skeleton()

    @classmethod
    def checked(cls, tree: Flow) -> Flow:
        return restored(tree)
