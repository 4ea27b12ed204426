"""Gaps of a table filled by draws from a flow, given the observed cells.

For every row with gaps several rows are drawn with its own codes in place, and one of them is chosen by
weight. Filled rows are as private as the rows were: nothing here is a release.
"""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from veilflow._core.keys import Secret
from veilflow.flows.code_flow import FREE, CodeFlow
from veilflow.flows.codebook import span
from veilflow.models.table.coder import Coder
from veilflow.models.table.conditional import draw_given
from veilflow.releases.table.cells import is_real
from veilflow.tabular.codec import core_table, encode
from veilflow.tabular.columns import Numeric
from veilflow.tabular.derivation import doubles, full_table
from veilflow.tabular.encoded import EncodedRows, Vocabularies
from veilflow.tabular.raw import core_numbers, open_values
from veilflow.tabular.satisfaction import satisfied_each
from veilflow.tabular.schema import Schema
from veilflow.tabular.structure import sources

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1024
"""Rows whose gaps are filled at once."""
_PARTICLES = 32
"""Candidates drawn for each row."""
_TRIES = 8
"""How often a row is filled again if it violates a constraint."""


def filled_table(
    source: Any,
    *,
    flow: CodeFlow,
    coder: Coder,
    schema: Schema,
    vocabularies: Vocabularies,
    extra: str,
    secret: Secret,
) -> "pa.Table":
    """The table in `source` with its gaps filled. Observed cells stay as they are."""
    rows = encode(source, schema, vocabularies=vocabularies, extra=extra)
    codes = coder.codes(rows)
    gaps = np.zeros(codes.shape, bool)
    for j, column in enumerate(coder.columns):
        gaps[:, j] = column.nullable & (codes[:, j] == column.num_codes - 1)
    new_codes, positions = rows.codes.copy(), rows.positions.astype(np.float64)
    holes, blocks = np.flatnonzero(gaps.any(axis=1)), itertools.count()
    for _ in range(_TRIES):
        for first in range(0, len(holes), _ROWS):
            part = holes[first : first + _ROWS]
            own = rows.take(part), codes[part], gaps[part]
            new = _filled(*own, flow, coder, schema, secret, next(blocks))
            new_codes[part], positions[part] = new.codes, new.positions
        holes = _still_broken(EncodedRows(new_codes, positions), gaps, holes, schema)
    filled = EncodedRows(new_codes, positions)
    return _with_own_cells(source, filled, gaps, schema, vocabularies)


def _still_broken(
    rows: EncodedRows, gaps: np.ndarray, filled: np.ndarray, schema: Schema
) -> np.ndarray:
    """Indices of the filled rows that violate a constraint on a column that was filled."""
    broken = np.zeros(len(filled), bool)
    each = satisfied_each(rows.take(filled), schema)
    for constraint, satisfied in zip(schema.constraints, each.T, strict=True):
        named = sources(constraint.columns, schema.rules)
        places = [j for j, name in enumerate(schema.core.names) if name in named]
        broken |= gaps[filled][:, places].any(axis=1) & ~satisfied
    return filled[broken]


def _filled(
    rows: EncodedRows,
    codes: np.ndarray,
    gaps: np.ndarray,
    flow: CodeFlow,
    coder: Coder,
    schema: Schema,
    secret: Secret,
    block: int,
) -> EncodedRows:
    """The rows with their gaps filled."""
    given = np.full((_ROWS, codes.shape[1]), FREE, np.int32)  # of one size: compiled once
    given[: len(codes)] = np.where(gaps, FREE, codes)
    given = np.repeat(given, _PARTICLES, axis=0)
    allowed = np.ones(flow.codebook.log_mass.shape, bool)
    for j, column in enumerate(coder.columns):
        if column.nullable:  # a gap is not filled by a gap
            allowed[span(flow.codebook.slot_columns, j).stop - 1] = False
    drawn = draw_given(flow, given, allowed=allowed, key=secret.key("gaps", block))
    rng = np.random.default_rng(secret.words("imputation", block, 1)[0])
    each = np.repeat(np.arange(len(codes)), _PARTICLES)
    own = rows.take(each)
    new = coder.rows(drawn.codes[: len(each)], rng, given=own, fixed=~gaps[each])
    weights = drawn.log_weights[: len(each)]
    if schema.constraints:
        # if a row's own cells rule one of them out, the others still count
        weights = weights - 1e6 * (~satisfied_each(new, schema)).sum(axis=1)
    weights = weights.reshape(-1, _PARTICLES)
    best = np.argmax(weights + rng.gumbel(size=weights.shape), axis=1)
    return new.take(np.arange(len(codes)) * _PARTICLES + best)


def _with_own_cells(
    source: Any,
    rows: EncodedRows,
    gaps: Bool[np.ndarray, "rows columns"],
    schema: Schema,
    vocabularies: Vocabularies,
) -> "pa.Table":
    """The table of `rows`, with undiscovered values and real numbers as the source has them."""
    import pyarrow as pa

    core, codes = schema.core, rows.codes.copy()
    words = {name: list(v) for name, v in vocabularies.items()}
    for name, (said, places) in open_values(source, schema).items() if vocabularies else ():
        j, known = core.names.index(name), len(words[name])
        new = [word for word in said if word not in set(words[name])]
        at = {word: known + i for i, word in enumerate(new)}
        after = np.where(codes[:, j] >= known, codes[:, j] + len(new), codes[:, j])
        own = np.array([*(at.get(word, -1) for word in said), -1])[places]
        codes[:, j] = np.where(gaps[:, j] | (own < 0), after, own)
        words[name] += new
    table = core_table(EncodedRows(codes, rows.positions), schema, vocabularies=words)
    reals = [name for name, column in core.columns.items() if is_real(column)]
    for name, own in core_numbers(source, schema, reals).items():
        j, column = core.names.index(name), core.columns[name]
        assert isinstance(column, Numeric)
        drawn = doubles(table.column(j), column)
        kept = np.where(gaps[:, j], drawn, np.clip(own, column.low, column.high))
        table = table.set_column(j, name, pa.array(kept, mask=np.isnan(kept)))
    return full_table(table, schema)
