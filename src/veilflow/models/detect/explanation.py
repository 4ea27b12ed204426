"""Which column makes a row anomalous: the log-density of each cell given the rest of its row.

The blocks of a flow reverse the columns between them, so no single order of columns yields
conditionals. The definition holds for every density: the density of the row divided by the integral of
the density along one column. For codes the integral is a sum.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from veilflow.models.domain import Ball, Domain
from veilflow.models.table.code_density import CodeDensity
from veilflow.tabular.codec import EncodedRows

Rows = Float[np.ndarray, "rows dim"]
LogDensity = Callable[[Rows], Float[np.ndarray, " rows"]]

_NODES = 129
_ROUNDS, _CUT = 3, 16
"""Rounds of refinement, and how many of the heaviest intervals each cuts into four."""
_AT_ONCE = 256
"""Rows whose integrals are computed together."""


def explain_density(
    log_prob: LogDensity, values: Rows, domain: Domain
) -> Float[np.ndarray, "rows dim"]:
    """For each cell, the log of its conditional density relative to the uniform one on its range.

    0 is as likely as any number of the range; minus infinity where the cell is outside it.
    """
    inside = domain.clamp(values)
    own = log_prob(inside)
    logs = np.empty(values.shape)
    for j in range(values.shape[1]):
        low, high = _range(inside, j, domain)
        for start in range(0, len(values), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            total = _log_mean(log_prob, inside[here], j, low[here], high[here])
            logs[here, j] = own[here] - total
        # no single column puts a row outside a ball
        if not isinstance(domain, Ball):
            logs[inside[:, j] != values[:, j], j] = -np.inf
    # where both densities are zero, the row is anomalous whatever this column holds
    return np.nan_to_num(logs, nan=-np.inf, neginf=-np.inf, posinf=np.inf)


def _range(values: Rows, column: int, domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """The range of each cell of a column, given the rest of its row."""
    if isinstance(domain, Ball):
        others = np.square(np.delete(values, column, axis=1)).sum(axis=1)
        half = np.sqrt(np.maximum(domain.row_norm**2 - others, 0.0))
        half = np.maximum(half, np.maximum(np.abs(values[:, column]), 1e-9 * domain.row_norm))
        return -half, half
    half = np.broadcast_to(domain.scale, (values.shape[1],))[column] * domain.border
    middle = np.broadcast_to(domain.center, (values.shape[1],))[column]
    return np.full(len(values), middle - half), np.full(len(values), middle + half)


def _log_mean(
    log_prob: LogDensity, rows: Rows, column: int, low: np.ndarray, high: np.ndarray
) -> Float[np.ndarray, " rows"]:
    """The log of the mean density along a column: a trapezoid rule, refined where the mass is."""
    grid = np.linspace(0.0, 1.0, _NODES)
    own = np.clip((rows[:, column] - low) / (high - low), 0.0, 1.0)
    # the row itself is a node, so that no narrow peak there is missed
    places = np.sort(np.column_stack([np.tile(grid, (len(rows), 1)), own]), axis=1)
    logs = _along(log_prob, rows, column, low, high, places)
    for _ in range(_ROUNDS):
        heavy = np.argsort(_log_masses(places, logs), axis=1)[:, -_CUT:]
        left = np.take_along_axis(places, heavy, axis=1)
        width = np.take_along_axis(places, heavy + 1, axis=1) - left
        new = np.concatenate([left + part * width for part in (0.25, 0.5, 0.75)], axis=1)
        places = np.concatenate([places, new], axis=1)
        logs = np.concatenate([logs, _along(log_prob, rows, column, low, high, new)], axis=1)
        order = np.argsort(places, axis=1)
        places, logs = (np.take_along_axis(a, order, axis=1) for a in (places, logs))
    return np.asarray(logsumexp(_log_masses(places, logs), axis=1))


def _along(
    log_prob: LogDensity,
    rows: Rows,
    column: int,
    low: np.ndarray,
    high: np.ndarray,
    places: Float[np.ndarray, "rows nodes"],
) -> Float[np.ndarray, "rows nodes"]:
    """Log-densities of rows with one column moved to each of the places."""
    moved = np.repeat(rows, places.shape[1], axis=0)
    moved[:, column] = (low[:, None] + places * (high - low)[:, None]).ravel()
    return log_prob(moved).reshape(places.shape)


def _log_masses(places: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Log-masses of the intervals between nodes."""
    with np.errstate(divide="ignore"):
        return np.log(np.diff(places, axis=1) / 2) + np.logaddexp(logs[:, :-1], logs[:, 1:])


def explain_codes(density: CodeDensity, rows: EncodedRows) -> Float[np.ndarray, "rows columns"]:
    """For each cell, the log of its code's conditional probability times the number of codes.

    0 is as likely as any code of the column. The sum over the codes of a column is exact.
    """
    codes = density.coder.codes(rows)
    columns = density.coder.columns
    logs = np.empty(codes.shape)
    own = _log_share(density, codes)
    for j, column in enumerate(columns):
        step = max(1, _AT_ONCE * _NODES // column.num_codes)
        for start in range(0, len(codes), step):
            part = codes[start : start + step]
            moved = np.repeat(part, column.num_codes, axis=0)
            moved[:, j] = np.tile(np.arange(column.num_codes), len(part))
            shares = _log_share(density, moved).reshape(len(part), column.num_codes)
            total = logsumexp(shares, axis=1) - np.log(column.num_codes)
            logs[start : start + step, j] = own[start : start + step] - total
    return logs


def _log_share(density: CodeDensity, codes: Any) -> Float[np.ndarray, " rows"]:
    """Log-probabilities of rows of codes, without the density within bins, which cancels."""
    rng = np.random.default_rng(0)
    rows = density.coder.rows(codes, rng)  # any rows with these codes
    return density.log_prob(rows) - density.coder.log_within(rows)
