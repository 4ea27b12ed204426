"""What single columns look like: one histogram each, all released by one Gaussian mechanism.

From it come the bins of numbers, the share of every code, and what is inside a bin.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.models.start.release import release
from veilflow.models.table.bins import bins_of
from veilflow.models.table.cells import cells_of
from veilflow.models.table.coder import CodedColumn, Coder
from veilflow.models.table.tree import estimate, weighted_counts
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.tabular.codec import EncodedRows
from veilflow.tabular.columns import Column, Ordinal


def private_coder(
    rows: Sensitive[EncodedRows],
    columns: Sequence[Column],
    *,
    sizes: Sequence[int],
    noise_multiplier: float,
    most_bins: int,
    num_records: float,
    secret: Secret,
    hardened: bool = False,
) -> Released[Coder]:
    """Release how each column is distributed, as the codes that a flow is to model.

    Guarantee:
        One Gaussian mechanism for add/remove of one row: a row is in one cell of each histogram,
        so their joint L2 sensitivity is the square root of the number of columns.

    Args:
        rows: Encoded by the schema.
        columns: Of the schema, with bounds.
        sizes: Codes of each column in the schema.
        noise_multiplier: Of the joint release; 0 releases the counts themselves.
        most_bins: About how many bins a number gets at most.
        num_records: Declared or released.
        secret: Source of the noise.
        hardened: Noise from the operating system, on a grid.
    """
    encoded = rows.open()
    cells = [cells_of(column) if column.has_position else None for column in columns]
    counts = []
    for j, column in enumerate(columns):
        found, own = encoded.codes[:, j], cells[j]
        if own is not None:
            missing = column.nullable & (found == 1)
            found = own.of(encoded.positions[:, j])
            # a missing cell weighs as much as a value
            tree = weighted_counts(found[~missing], own.num)
            counts.append(np.append(tree, missing.sum()) if column.nullable else tree)
        else:
            counts.append(np.bincount(found, minlength=sizes[j]))
    sensitivity = len(columns) ** 0.5
    released = release(
        ClippedSum(np.concatenate(counts), sensitivity),
        noise_multiplier=noise_multiplier,
        key=secret.key("columns"),
        hardened=hardened,
    )
    noisy = np.split(np.float64(released.value), np.cumsum([len(c) for c in counts])[:-1])
    deviation = noise_multiplier * sensitivity
    coded = []
    for column, own, count in zip(columns, cells, noisy, strict=True):
        if own is None:
            mass = shares(count, deviation=deviation, total=num_records)
            coded.append(CodedColumn(mass, isinstance(column, Ordinal), column.nullable))
            continue
        share = 0.0
        if column.nullable:
            share = float(np.clip(count[-1] / num_records, 1e-6, 1 - 1e-6))
            count = count[:-1]
        total = (1 - share) * num_records
        bins = bins_of(estimate(count, own.num, deviation=deviation, total=total), most=most_bins)
        mass = np.append(bins.masses * (1 - share), share) if column.nullable else bins.masses
        coded.append(CodedColumn(mass, True, column.nullable, own, bins))
    return Released(Coder(tuple(coded)), released.event)


def shares(
    counts: Float[np.ndarray, " codes"], *, deviation: float, total: float
) -> Float[np.ndarray, " codes"]:
    """Noisy counts as shares: moved by one number, cut at a little above zero, to the right sum."""
    low, high = counts.min() - total, counts.max()
    least = 0.1 * deviation + 0.5  # a count of zero is as likely as the noise makes it
    for _ in range(60):  # the shift at which what is left sums to the total
        middle = (low + high) / 2
        too_much = np.maximum(counts - middle, least).sum() > total
        low, high = (middle, high) if too_much else (low, middle)
    found = np.maximum(counts - high, least)
    return found / found.sum()
