"""A fitted density flow: samples, log-densities, and the guarantee they carry."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from veilflow.flows import Blend, Flow
from veilflow.models.assembly import Assembly, restored
from veilflow.models.density_plan import DensityPlan
from veilflow.models.domain import Ball
from veilflow.models.fitted import ARRAYS
from veilflow.models.row_density import RowDensity


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedDensityFlow(RowDensity):
    """A released density. All of its methods are post-processing: they cost nothing.

    Attributes:
        plan: What was executed.
        flow: The density in flow coordinates.
        assembly: How the flow is put together.
    """

    kind: ClassVar[str] = "DensityFlow"

    plan: DensityPlan
    flow: Flow = field(repr=False, metadata=ARRAYS)
    assembly: Assembly

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self.flow.dim

    @property
    def density(self) -> Blend:
        """The released density over flow coordinates: the flow, and a thin floor under it."""
        return self.assembly.floored(self.flow, ball=isinstance(self.domain, Ball))

    @classmethod
    def shapes(cls, plan: DensityPlan, public: dict[str, Any], *, num_numbers: int) -> Flow:
        assembly = public["assembly"]
        cls.check_columns(plan, public, assembly.dim)
        if assembly.border != plan.domain.border:
            raise ValueError("the flow and its domain must end at the same border.")
        # before anything is built: a file cannot ask for more work than it has numbers
        if assembly.num_numbers != num_numbers:
            raise ValueError("there are not as many numbers as the settings ask for.")
        return assembly.skeleton()

    @classmethod
    def checked(cls, tree: Flow) -> Flow:
        return restored(tree)
