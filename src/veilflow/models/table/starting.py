"""The start of a fit of a table: all that is released before the training, and rows behind the door."""

from dataclasses import dataclass
from typing import Any

from veilflow._core.keys import Secret
from veilflow.models.table.code_density import CodeDensity
from veilflow.models.table.coder import Coder
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.discovery import discover
from veilflow.models.table.hflow_density import HFlowDensity
from veilflow.models.table.histograms import private_coder
from veilflow.models.table.recipe import TableFacts, TableRecipe, count_epsilon
from veilflow.models.table.warm_start import rows_of_marginals, trained_on
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import count_records
from veilflow.tabular.codec import EncodedRows, Vocabularies, encode
from veilflow.tabular.schema import Schema


@dataclass(frozen=True)
class Reading:
    """How rows are read, whoever they are of."""

    extra: str
    invalid: str

    def rows(
        self, source: Any, schema: Schema, vocabularies: Vocabularies
    ) -> Sensitive[EncodedRows]:
        """The rows of `source`, each encoded by itself."""
        encoded = encode(
            source, schema, vocabularies=vocabularies, extra=self.extra, invalid=self.invalid
        )
        if not len(encoded):
            raise ValueError("the table has no rows.")
        return Sensitive(encoded, description=f"{len(schema.columns)} columns")


@dataclass(frozen=True)
class Started:
    """What was declared or released before the training."""

    schema: Schema
    """With what was discovered."""
    vocabularies: Vocabularies
    num_records: int
    density: AbstractTableDensity
    """What is to be trained."""


def begin(
    source: Any,
    reading: Reading,
    recipe: TableRecipe,
    facts: TableFacts,
    budget: Budget,
    *,
    num_records: int | None,
    secret: Secret,
    progress: bool,
) -> tuple[Started, Sensitive[EncodedRows]]:
    """Release the start of `recipe`, and read the rows.

    Guarantee:
        The ledger of `settle_table`, for the same recipe, facts and budget.

    Args:
        source: A frame or a file.
        reading: How to read it.
        recipe: Of the fit.
        facts: Of the fit.
        budget: Of the fit.
        num_records: If declared.
        secret: Source of randomness, but for counts, discoveries and choices, and for noise where
            it is hardened.
        progress: Show progress bars.
    """
    schema, vocabularies = discover(source, facts.schema, recipe, private=budget.private)
    rows = reading.rows(source, schema, vocabularies)
    if num_records is None:
        num_records = _counted(rows, budget)
    columns = schema.columns
    coder = private_coder(
        rows,
        tuple(columns.values()),
        sizes=[column.num_codes(vocabularies.get(name)) for name, column in columns.items()],
        noise_multiplier=recipe.columns_noise,
        most_bins=recipe.most_bins,
        num_records=num_records,
        secret=secret,
        hardened=facts.hardened,
    ).value
    if not recipe.warm_mu:
        density = _fresh(recipe, facts, coder, secret)
        return Started(schema, vocabularies, num_records, density), rows
    coder, drawn = rows_of_marginals(
        rows.map(coder.codes),
        coder,
        mu=recipe.warm_mu,
        label=facts.label,
        num_records=num_records,
        secret=secret,
        hardened=facts.hardened,
        progress=progress,
    )
    density = trained_on(_fresh(recipe, facts, coder, secret), drawn, secret, progress=progress)
    return Started(schema, vocabularies, num_records, density), rows


def _counted(rows: Sensitive[EncodedRows], budget: Budget) -> int:
    if not budget.private:
        return len(rows.open())
    counted = count_records(rows.map(lambda x: x.codes), epsilon=count_epsilon(budget))
    found = max(1, int(counted.value))
    budget.warn_if_weak(found)
    return found


def _fresh(
    recipe: TableRecipe, facts: TableFacts, coder: Coder, secret: Secret
) -> AbstractTableDensity:
    """Columns by themselves: what is known before any table of several."""
    key = secret.key("weights")
    if facts.flow is not None:
        return HFlowDensity.create(coder, architecture=facts.flow, key=key)
    return CodeDensity.create(
        coder,
        label=facts.label,
        label_weight=recipe.label_weight,
        num_waves=recipe.num_waves,
        hidden=recipe.hidden,
        key=key,
    )
