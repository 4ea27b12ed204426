"""Rows that fulfill constraints have gaps as often as rows that were drawn."""

import numpy as np
import pytest

import veilflow as vf
from veilflow.models.table.conditional import constrained
from veilflow.tabular.codec import EncodedRows
from veilflow.tabular.satisfaction import satisfied

SCHEMA = vf.Schema(
    low=vf.Numeric(0, 1, nullable=True),
    high=vf.Numeric(0, 1, nullable=True),
    free=vf.Numeric(0, 1, nullable=True),
    constraints=[vf.AtMost("low", "high")],
)


def drawn(num_rows: int, gaps: float, *, above: float = 0.0) -> EncodedRows:
    """Rows with gaps in `low`; the larger `above`, the fewer of the others fulfill the constraint."""
    rng = np.random.default_rng(0)
    positions = rng.uniform(size=(num_rows, 3))
    positions[:, 0] = above + (1 - above) * positions[:, 0]
    codes = np.zeros((num_rows, 3), np.int32)
    codes[:, 0] = rng.uniform(size=num_rows) < gaps
    return EncodedRows(codes, positions)


@pytest.mark.parametrize("above", [0.0, 0.8])
def test_gaps_keep_their_share(above):
    rows = drawn(100_000, 0.2, above=above)
    kept = constrained(rows, np.zeros(len(rows)), SCHEMA)
    assert satisfied(kept.rows, SCHEMA).all()
    assert kept.rows.codes[:, 0].mean() > 0.3  # whoever only drops rows has too many
    thinned = kept.rows.take(np.random.default_rng(1).uniform(size=len(kept.rows)) < kept.shares)
    assert thinned.codes[:, 0].mean() == pytest.approx(0.2, abs=0.02)
    assert kept.shares.max() == 1


def test_rows_with_weights_keep_the_share_that_their_weights_say():
    rows = drawn(100_000, 0.5)
    log_weights = np.where(rows.codes[:, 0] == 1, -2.0, 0.0)
    kept = constrained(rows, log_weights, SCHEMA)
    weights = np.exp(kept.log_weights) * kept.shares
    share = weights[kept.rows.codes[:, 0] == 1].sum() / weights.sum()
    assert share == pytest.approx(np.exp(-2) / (1 + np.exp(-2)), abs=0.01)


def test_a_pattern_that_hardly_ever_occurs_does_not_thin_the_others():
    rows = drawn(10_000, 0.999, above=0.95)  # of ten rows without a gap hardly one is kept
    assert constrained(rows, np.zeros(len(rows)), SCHEMA).shares.min() == 1


def test_where_hardly_a_row_is_kept_the_others_are_not_thinned_to_nothing():
    rows = drawn(20_000, 0.5, above=0.9999)
    kept = constrained(rows, np.zeros(len(rows)), SCHEMA)
    assert kept.shares.min() >= 1 / 64


def test_all_rows_stay_where_none_breaks_a_constraint():
    rows = drawn(100, 1.0)
    kept = constrained(rows, np.zeros(100), SCHEMA)
    assert len(kept.rows) == 100
    assert (kept.shares == 1).all()
