"""Missing cells: never filled unpaid, and filled as the columns depend on each other."""

import numpy as np
import pytest

import veilflow as vf
from veilflow.models.chained import products
from veilflow.models.domain import Box
from veilflow.privacy.guarantees import Sensitive

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


def test_private_rows_are_not_read_silently():
    with pytest.raises(vf.PrivacyError, match="budget"):
        vf.ChainedImputer(bounds=BOUNDS)
    with pytest.raises(vf.PrivacyError, match="not both"):
        vf.ChainedImputer(bounds=BOUNDS, public=True, budget=vf.Budget(epsilon=1.0, delta=1e-6))


@pytest.mark.parametrize("row", [[1e9, -1e9, 1e9], [np.nan] * 3, [np.inf, 4.0, -4.0], [4.0] * 3])
def test_no_row_moves_the_products_by_more_than_their_sensitivity(row):
    _, gappy = table(30)
    box = Box.declared(BOUNDS)
    before = products(Sensitive(gappy), box)
    after = products(Sensitive(np.vstack([gappy, row])), box)
    assert np.linalg.norm(after.total - before.total) <= after.clip_norm * (1 + 1e-12)


@pytest.mark.parametrize("budget", [None, vf.Budget(epsilon=2.0, delta=1e-6)])
def test_filled_cells_depend_on_the_row_as_the_columns_do(budget):
    rows, gappy = table()
    imputer = vf.ChainedImputer(bounds=BOUNDS, budget=budget, public=budget is None, seed=1)
    fitted = imputer.fit(gappy)
    filled = fitted.fill(gappy, seed=2)
    there = ~np.isnan(gappy)
    np.testing.assert_allclose(filled[there], gappy[there], atol=1e-9)
    only = np.isnan(gappy[:, 1]) & there[:, 0]
    assert np.corrcoef(filled[only, 1], rows[only, 1])[0, 1] > 0.8
    np.testing.assert_allclose(np.corrcoef(filled.T), np.corrcoef(rows.T), atol=0.08)
    if budget is None:
        assert fitted.guarantee is None
    else:
        assert fitted.guarantee.epsilon == pytest.approx(2.0, rel=1e-2)
        assert budget.admits(fitted.ledger)
