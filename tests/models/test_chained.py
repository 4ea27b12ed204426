"""Missing cells: never filled unpaid, and filled as the columns depend on each other."""

import math

import numpy as np
import pytest

import veilflow as vf
from veilflow.releases.products import products

OPEN = vf.Budget(math.inf, 0)
BOUNDS = ([-4.0, -4.0, -4.0], [4.0, 4.0, 4.0])


def table(number=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(number)
    rows = np.stack(
        [x, 0.9 * x + 0.3 * rng.standard_normal(number), rng.standard_normal(number)], 1
    )
    gappy = rows.copy()
    gappy[rng.uniform(size=rows.shape) < 0.3] = np.nan
    return rows, gappy


def test_rows_are_not_read_without_a_budget():
    with pytest.raises(TypeError, match="budget"):
        vf.ChainedImputer(bounds=BOUNDS)
    with pytest.warns(vf.NotPrivateWarning):
        fitted = vf.ChainedImputer(bounds=BOUNDS, budget=OPEN).fit(table(30)[1])
    assert not fitted.guarantee.private


@pytest.mark.parametrize("row", [[1e9, -1e9, 1e9], [np.nan] * 3, [np.inf, 4.0, -4.0], [4.0] * 3])
def test_no_row_moves_the_products_by_more_than_their_sensitivity(row):
    gappy = table(30)[1] / 4.0
    before, after = products(gappy), products(np.vstack([gappy, row]))
    assert np.linalg.norm(after.total - before.total) <= after.clip_norm * (1 + 1e-12)


@pytest.mark.filterwarnings("ignore::veilflow.NotPrivateWarning")
@pytest.mark.parametrize("budget", [OPEN, vf.Budget(epsilon=2.0, delta=1e-6)])
def test_filled_cells_depend_on_the_row_as_the_columns_do(budget):
    rows, gappy = table()
    fitted = vf.ChainedImputer(bounds=BOUNDS, budget=budget, seed=1).fit(gappy)
    filled = fitted.fill(gappy, seed=2)
    there = ~np.isnan(gappy)
    np.testing.assert_allclose(filled[there], gappy[there], atol=1e-9)
    only = np.isnan(gappy[:, 1]) & there[:, 0]
    assert np.corrcoef(filled[only, 1], rows[only, 1])[0, 1] > 0.8
    np.testing.assert_allclose(np.corrcoef(filled.T), np.corrcoef(rows.T), atol=0.08)
    if budget.private:
        assert fitted.guarantee.epsilon == pytest.approx(2.0, rel=1e-2)
        assert budget.admits(fitted.ledger)
