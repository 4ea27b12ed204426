"""Rows that no number fits: each start counts one as zero, and keeps its promise about it."""

import jax
import numpy as np
import pytest

from tests.models.start.releases import tape
from veilflow._core.keys import Secret
from veilflow.flows import maf
from veilflow.models.start import actnorm, grid, marginals, mixture, whitening
from veilflow.models.start.rows import finite, seen_through
from veilflow.privacy.guarantees import Sensitive

DIM = 3
BORDER = 3**0.5
HOSTILE = {
    "missing": [0.5, np.nan, -0.5],
    "infinite": [np.inf, 0.5, 0.5],
    "both ways": [np.inf, -np.inf, np.nan],
    "largest": [3.4e38, -3.4e38, 3.4e38],
}
STARTS = {
    "whitening": (whitening, 2.0**0.5),
    "marginals": (marginals, DIM**0.5),
    "actnorm": (actnorm, (2 * DIM) ** 0.5),
    "mixture": (mixture, 1.0),
}


def usual() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, size=(200, DIM)).astype(np.float32)


def start(name: str, rows: np.ndarray) -> None:
    sensitive, secret = Sensitive(rows), Secret.from_seed(0)
    if name == "whitening":
        whitening.private_whitening(
            sensitive,
            radius=3.0,
            num_records=200,
            noise_multipliers=(4.0, 3.0, 2.0),
            secret=secret,
        )
    elif name == "marginals":
        marginals.private_marginals(
            sensitive, border=BORDER, bits=4, noise_multiplier=3.0, secret=secret
        )
    elif name == "actnorm":
        flow = maf(DIM, key=jax.random.key(0), blocks=2, hidden=(4,), actnorm=True)
        actnorm.private_actnorm(
            flow, sensitive, num_records=200, noise_multipliers=(4.0, 3.0), secret=secret
        )
    else:
        mixture.private_mixture(
            sensitive,
            spread=1.0,
            num_components=2,
            noise_multipliers=(4.0,) * 8,
            secret=secret,
        )


@pytest.mark.parametrize("name", STARTS)
def test_a_row_that_is_no_number_moves_no_sum_by_more_than_promised(name, monkeypatch):
    module, bound = STARTS[name]
    seen = tape(monkeypatch, module)
    start(name, usual())
    for hostile in HOSTILE.values():
        seen.replayed = []
        start(name, np.concatenate([usual(), np.float32([hostile])]))
        assert all(query.clip_norm == pytest.approx(bound) for query in seen.replayed)
        assert max(seen.moves()) <= bound * (1 + 1e-9)
        for query, usual_query in zip(seen.replayed, seen.queries, strict=True):
            assert np.isfinite(query.total).all()
            # the other rows are still in the sum
            assert np.linalg.norm(usual_query.total) > 3 * bound or name == "actnorm"


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_row_that_is_no_number_is_in_one_cell_of_a_grid(hostile, monkeypatch):
    monkeypatch.setattr(grid, "_density", lambda counts, *_: counts)

    def counts(rows: np.ndarray) -> np.ndarray:
        return grid.private_grid(
            Sensitive(np.float32(rows)), border=BORDER, bits=2, epsilon=np.inf
        ).value

    moved = counts([*usual(), hostile]) - counts(usual())
    assert sorted(moved) == [0] * (4**DIM - 1) + [1]


def test_only_rows_that_are_no_numbers_are_changed_and_all_of_such_a_row():
    rows = np.float32([*usual()[:3], *list(HOSTILE.values())[:3]])
    found = finite(rows)
    np.testing.assert_array_equal(found[:3], usual()[:3])
    np.testing.assert_array_equal(found[3:], 0)
    assert found.dtype == np.float32
    assert finite(np.empty((0, 2))).shape == (0, 2)


def test_rows_in_pieces_are_seen_as_rows_at_once():
    bijection = maf(2, key=jax.random.key(0), blocks=1, hidden=(4,)).bijection
    rows = np.random.default_rng(1).normal(size=(20_000, 2)).astype(np.float32)
    at_once = jax.vmap(lambda x: bijection.inverse_and_log_det(x)[0])(rows)
    np.testing.assert_allclose(seen_through(bijection, rows), at_once, atol=1e-5)
    assert seen_through(bijection, rows[:0]).shape == (0, 2)
