"""Marginals of a table of codes, and the choice of which to measure, as one entry of a plan."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from jaxtyping import Int

from veilflow.privacy import calibration
from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.marginals.choice import most_cells
from veilflow.releases.marginals.fit import private_marginal_model
from veilflow.releases.marginals.graph import Bag
from veilflow.releases.marginals.inference import Tree
from veilflow.releases.marginals.model import MarginalModel, Spread
from veilflow.releases.marginals.plan import MarginalPlan
from veilflow.releases.release import Release, Tools

_MU = (0.01, 2.0)
"""Range of mu that is searched, relative to that of the whole budget."""


@dataclass(frozen=True, kw_only=True)
class Marginals(Release):
    """A model of a table of codes, from noisy marginals of a few columns at a time.

    Guarantee:
        `MarginalPlan.event` for add/remove of one row, whatever the rows are: histograms of all
        columns, then rounds of choices by the exponential mechanism and of tables with Gaussian noise.
        It depends on `mu`, the number of columns and whether there is a label, but not on the number
        of codes that a column turns out to have.

    Attributes:
        most_codes: The most codes of each column. Fewer columns cost the same.
        label: The index of the column to predict, if there is one.
        mu: Roughly the mu of a Gaussian mechanism with the price of all of it; infinite without
            privacy.
    """

    purpose: str = "marginals"
    most_codes: tuple[int, ...]
    label: int | None
    mu: float

    @property
    def event(self) -> Event:
        return self._plan(self.most_codes).event

    @property
    def num_draws(self) -> int:
        return self._plan(self.most_codes).num_draws

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        plan = self._plan(self.most_codes)
        # `gaussian_once` uses four coordinates for each number that a row changes
        rounds = ((step.noise_multiplier, 4 * step.num_choices) for step in plan.rounds)
        return ((plan.noise_multiplier, 4 * len(plan.sizes)), *rounds)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return ()  # counts are integers, whose sums are exact

    @property
    def rounds(self) -> int:
        return len(self._plan(self.most_codes).rounds)

    def priced(self, budget: Budget, others: Ledger) -> Self:
        columns = len(self.most_codes)
        return replace(self, mu=_affordable(budget, others, columns, self.label))

    def run(
        self,
        records: Sensitive[Int[np.ndarray, "rows columns"]],
        tools: Tools,
        *,
        sizes: Sequence[int],
        ordered: Sequence[bool],
        num_records: int,
        label: int | None = None,
    ) -> Released[dict[str, Any]]:
        """Choose and measure.

        Args:
            records: Rows of codes.
            tools: The tools of the run.
            sizes: Released number of codes of each column.
            ordered: Which columns have codes in a meaningful order.
            num_records: Declared or released.
            label: The index of the label, if it is another one because there are fewer columns.
        """
        facts: dict[str, Any] = {} if label is None else {"label": label}
        plan = self._plan(tuple(sizes), ordered=ordered, num_records=num_records, **facts)
        return private_marginal_model(
            records, plan=plan, secret=tools.secret, monitor=tools.monitor
        ).map(_plain)

    def result(self, value: dict[str, Any]) -> MarginalModel:
        """The maximum-entropy distribution for the marginals."""
        bags = (Bag(column, tuple(parents)) for column, parents in value["bags"])
        spreads = (Spread.given(*arrays) for arrays in value["spreads"])
        return MarginalModel(
            sizes=tuple(value["sizes"]),
            num_records=value["num_records"],
            cliques=tuple(tuple(clique) for clique in value["cliques"]),
            tree=Tree(tuple(bags), tuple(value["conditionals"])),
            spreads=tuple(spreads),
        )

    def resolution(self, num_records: float) -> int:
        """About how many groups of codes of a column a table of a pair tells apart."""
        plan = self._plan(self.most_codes)
        cells = [most_cells(plan, step, num_records) for step in plan.rounds]
        return max(2, int(max(cells, default=4.0) ** 0.5))

    def _plan(self, sizes: tuple[int, ...], **facts: Any) -> MarginalPlan:
        columns = len(self.most_codes)
        settings: dict[str, Any] = {"label": self.label, "num_columns": columns, **facts}
        return MarginalPlan.of(sizes, mu=self.mu, **settings)


def _plain(model: MarginalModel) -> dict[str, Any]:
    """A model as plain numbers and arrays."""
    return {
        "sizes": list(model.sizes),
        "num_records": float(model.num_records),
        "cliques": [list(map(int, clique)) for clique in model.cliques],
        "bags": [[int(bag.column), list(map(int, bag.parents))] for bag in model.tree.bags],
        "conditionals": list(model.tree.conditionals),
        "spreads": [[spread.groups, spread.within] for spread in model.spreads],
    }


@lru_cache(maxsize=64)
def _affordable(budget: Budget, others: Ledger, num_columns: int, label: int | None) -> float:
    total_mu = calibration.gaussian_mu(budget)
    # the price depends on the number of columns alone, not on their codes
    return calibration.calibrate(
        lambda mu: MarginalPlan.of((2,) * num_columns, mu=mu, label=label).event,
        budget,
        bracket=(_MU[0] * total_mu, _MU[1] * total_mu),
        increasing=True,
        ledger=others,
        guess=0.9 * total_mu,
        what="warm_mu",
    )
