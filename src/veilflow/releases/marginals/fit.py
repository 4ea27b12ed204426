"""The private fit of a marginal model: histograms, then rounds of choices and tables.

The histograms of all columns come first. In each of a few rounds, the tables on which the current model
is most wrong are chosen and released together, and a new model is fitted to everything released so
far. Between releases everything is post-processing. No noise depends on a release: releases decide
only which tables are measured, and how coarse they are.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from veilflow._core.keys import Secret
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.marginals.choice import Known, candidates, private_choice
from veilflow.releases.marginals.codes import Merging, num_groups, without_rare
from veilflow.releases.marginals.graph import Columns
from veilflow.releases.marginals.inference import Table, fitted, ridges
from veilflow.releases.marginals.model import MarginalModel, Spread, sampled
from veilflow.releases.marginals.plan import MarginalPlan, cliques
from veilflow.releases.marginals.questions import Tally, histograms, shares_of, tables

_ROWS, _CODES = 2**17, 2**23
"""Rows drawn from a model to estimate its expected tables, and their codes: wide tables take fewer."""

Codes = Int[np.ndarray, "rows columns"]
_RARE = 3.0
"""Codes with fewer records than this many standard deviations of noise are merged."""
_WIDE = 2.0
"""Prior standard deviation of the weights of a histogram: hardly informative."""
Counts = Float[np.ndarray, " codes"]


def private_marginal_model(
    rows: Sensitive[Codes],
    *,
    plan: MarginalPlan,
    secret: Secret,
    monitor: Callable[[int], object] | None = None,
) -> Released[MarginalModel]:
    """Release a model of a table of codes.

    Guarantee:
        `plan.event` for add/remove of one row, whatever the rows are. Choices use entropy of the
        operating system. Noise is Gaussian up to the slack of `plan.num_draws` draws.

    Args:
        rows: Integer codes, one row per record; those of column i are from 0 to `plan.sizes[i]` - 1.
        plan: From `MarginalPlan.of`, made of public facts.
        secret: Source of the noise, and of the rows drawn between rounds.
        monitor: Called with the number of rounds done, after each.

    Returns:
        The model and `plan.event`, which is paid in full even if fewer tables were measured.

    Raises:
        TypeError: If the rows are not integers.
        ValueError: If they have another number of columns, or codes outside the plan. That cannot be
            after an encoder that clamps. The message mentions no code and no row.
    """
    checked = rows.map(lambda codes: _checked(codes, plan))
    noise = plan.noise_multiplier / shares_of(plan.sizes)
    one_way = _released(
        checked.map(lambda codes: histograms(codes, plan.sizes)),
        [(size,) for size in plan.sizes],
        noise_multiplier=plan.noise_multiplier,
        secret=secret,
        purpose="histograms",
    )
    columns = settled(one_way, noise.tolist(), ordered=plan.ordered, num_records=plan.num_records)
    merged = [spread.groups for spread in columns.spreads]
    tally = checked.map(lambda codes: Tally.of_codes(codes, merged, columns.merging))
    measured, pool = list(columns.tables), cliques(len(plan.sizes), plan.label)
    num_rows = min(_ROWS, _CODES // len(plan.sizes))
    chosen: tuple[Columns, ...] = ()
    tree, weights = fitted(columns.merging.sizes, measured, num_records=columns.num_records)
    for i, step in enumerate(plan.rounds):
        drawn = sampled(tree, num_rows, secret.key("scoring", i))
        known = Known(plan, columns.merging, columns.num_records, chosen, pool, drawn)
        options = candidates(known, step)
        choices = private_choice(tally, options, known=known, step=step)
        # a table that does not fit now will not fit later
        pool = tuple(candidate.query.columns for candidate in options)
        if choices:
            queries = [candidate.query for candidate in choices]
            expected = [candidate.expected for candidate in choices]
            noise = step.noise_multiplier / shares_of([table.size for table in expected])
            answers = _released(
                tally.map(lambda records, asked=queries: tables(records, asked)),
                [table.shape for table in expected],
                noise_multiplier=step.noise_multiplier,
                secret=secret,
                purpose="tables",
                index=i,
            )
            measured += [
                Table(
                    query.columns,
                    columns.merging.groups(query),
                    counts,
                    ridges(counts, table, float(deviation)),
                )
                for query, counts, table, deviation in zip(
                    queries, answers, expected, noise, strict=True
                )
            ]
            chosen += tuple(query.columns for query in queries)
            tree, weights = fitted(
                columns.merging.sizes, measured, num_records=columns.num_records, start=weights
            )
        if monitor is not None:
            monitor(i + 1)
    model = MarginalModel(plan.sizes, columns.num_records, chosen, tree, columns.spreads)
    return Released(model, plan.event)


def _released(
    query: Sensitive[ClippedSum],
    shapes: Sequence[tuple[int, ...]],
    *,
    noise_multiplier: float,
    secret: Secret,
    purpose: str,
    index: int = 0,
) -> list[Float[np.ndarray, "..."]]:
    """Noisy tables of these shapes, in units of counts."""
    stacked = query.open()
    noisy = gaussian_once(
        stacked,
        noise_multiplier=noise_multiplier,
        secret=secret,
        purpose=purpose,
        index=index,
        touched=len(shapes),  # a row is in one cell of each table
    )
    cells = [int(np.prod(shape)) for shape in shapes]
    parts = np.split(noisy.value, np.cumsum(cells)[:-1])
    return [
        part.reshape(shape) / share
        for part, shape, share in zip(parts, shapes, shares_of(cells), strict=True)
    ]


def _checked(codes: Codes, plan: MarginalPlan) -> Codes:
    codes = np.asarray(codes)
    if codes.dtype.kind not in "iu":
        raise TypeError(f"rows must be integers, got {codes.dtype}. Encode the table first.")
    if codes.ndim != 2 or codes.shape[1] != len(plan.sizes):
        raise ValueError(
            f"rows must have {len(plan.sizes)} columns, one for each size of the plan, got an array "
            f"of {codes.ndim} axes{f' and {codes.shape[1]} columns' if codes.ndim == 2 else ''}."
        )
    if len(codes) and not ((codes >= 0) & (codes < np.array(plan.sizes))).all():
        raise ValueError(
            "rows must have codes from 0 to the size of their column minus 1. Clamp them to the "
            "declared codes first, row by row."
        )
    return codes


class Settled(NamedTuple):
    """What the histograms of single columns determine, by post-processing."""

    num_records: float
    spreads: tuple[Spread, ...]
    merging: Merging
    tables: tuple[Table, ...]


def settled(
    noisy: Sequence[Counts],
    noise_stddevs: Sequence[float],
    *,
    ordered: Sequence[bool],
    num_records: int | None,
) -> Settled:
    """Post-process noisy histograms, each with its own noise; `num_records` if it was declared."""
    total = float(num_records or _estimated(noisy, noise_stddevs))
    spreads: list[Spread] = []
    masses: list[np.ndarray] = []
    tables: list[Table] = []
    for column, (counts, noise) in enumerate(zip(noisy, noise_stddevs, strict=True)):
        mass = nearest_masses(counts, total)
        groups = without_rare(mass, least=_RARE * noise, ordered=ordered[column])
        spreads.append(Spread.of(groups, mass))
        merged = np.bincount(groups, mass)
        masses.append(merged / merged.sum())
        variance = noise**2 * np.bincount(groups) + 1.0
        summed = np.bincount(groups, counts)
        held = variance / np.maximum(summed, np.sqrt(variance)) / _WIDE**2
        tables.append(Table((column,), (np.arange(num_groups(groups)),), summed, held))
    return Settled(total, tuple(spreads), Merging.of(masses, ordered), tuple(tables))


def nearest_masses(counts: Counts, total: float) -> Counts:
    """The nearest vector in L2 of nonnegative numbers that sum to `total`."""
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(counts - excess[last], 0.0)


def _estimated(noisy: Sequence[Counts], noise_stddevs: Sequence[float]) -> float:
    """The number of records, estimated from all histograms together; at least 1."""
    sums = np.array([counts.sum() for counts in noisy])
    variances = [noise**2 * len(c) + 1e-9 for noise, c in zip(noise_stddevs, noisy, strict=True)]
    return max(1.0, float(np.average(sums, weights=1 / np.array(variances))))
