"""The private fit of a marginal model: histograms, then rounds of choices and tables.

First the histograms of all columns. Then, in each of a few rounds, the tables that the model of now
gets most wrong are chosen, released together, and a new model is fitted to all that was released.
Between releases everything is post-processing. No noise depends on a release: only which tables are
asked for, and how coarse they are.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from veilflow._core.keys import Secret
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.marginals.choice import Known, candidates, private_choice
from veilflow.releases.marginals.columns import settled
from veilflow.releases.marginals.inference import Table, fitted, ridges
from veilflow.releases.marginals.model import MarginalModel, sampled
from veilflow.releases.marginals.plan import MarginalPlan, cliques
from veilflow.releases.marginals.questions import Tally, histograms, shares_of, tables

_ROWS = 2**17
"""Rows drawn from a model to see what it expects of tables."""

Codes = Int[np.ndarray, "rows columns"]


def private_marginal_model(
    rows: Sensitive[Codes],
    *,
    plan: MarginalPlan,
    secret: Secret,
    monitor: Callable[[int], object] | None = None,
) -> Released[MarginalModel]:
    """Release a model of a table of codes.

    Guarantee:
        `plan.event` for add/remove of one row, whatever the rows are. Choices are drawn from the
        operating system. Noise is within the slack of `plan.num_draws` draws of Gaussian.

    Args:
        rows: Whole numbers, one row per record; those of column i from 0 to `plan.sizes[i]` - 1.
        plan: From `MarginalPlan.of`, made of public facts.
        secret: Source of the noise, and of the rows drawn between rounds.
        monitor: Called with the number of rounds done, after each.

    Returns:
        The model and `plan.event`, which is paid in full even where fewer tables fitted in.

    Raises:
        TypeError: If the rows are not whole numbers.
        ValueError: If they have another number of columns, or codes that the plan does not know. An
            encoder that clamps never lets that happen; the message names no code and no row.
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
    measured, chosen, pool = list(columns.tables), (), cliques(len(plan.sizes), plan.label)
    tree, weights = fitted(columns.merging.sizes, measured, num_records=columns.num_records)
    for i, step in enumerate(plan.rounds):
        drawn = sampled(tree, _ROWS, secret.key("scoring", i))
        known = Known(plan, columns.merging, columns.num_records, chosen, pool, drawn)
        found = candidates(known, step)
        picked = private_choice(tally, found, known=known, step=step)
        # what has no room now has none later
        pool = tuple(candidate.query.columns for candidate in found)
        if picked:
            queries = [candidate.query for candidate in picked]
            expected = [candidate.expected for candidate in picked]
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
    """Noisy tables of these shapes, each back in counts."""
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
        raise TypeError(f"rows must hold whole numbers, got {codes.dtype}. Encode the table first.")
    if codes.ndim != 2 or codes.shape[1] != len(plan.sizes):
        raise ValueError(
            f"rows must have {len(plan.sizes)} columns, one for each size of the plan, got an array "
            f"of {codes.ndim} axes{f' and {codes.shape[1]} columns' if codes.ndim == 2 else ''}."
        )
    if len(codes) and not ((codes >= 0) & (codes < np.array(plan.sizes))).all():
        raise ValueError(
            "rows must hold codes from 0 to the size of their column minus 1. Clamp them to the "
            "declared codes before, row by row."
        )
    return codes
