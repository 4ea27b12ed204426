"""Tails of columns: where they start, how they fall off, and what wide bounds do to them."""

import numpy as np
import pytest

from veilflow.releases.table.details import ColumnDetails, tail_group
from veilflow.releases.table.estimate import estimate
from veilflow.releases.table.histograms import weighted_counts
from veilflow.releases.table.tails import Nodes

NUMBER, NOISE = 50_000, 40.0
EDGES = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 1500)])
"""Cells that grow with the distance from zero."""


def found(values: np.ndarray, seed: int, *, closer: float | None = None):
    rng = np.random.default_rng(seed)
    at = np.clip(np.searchsorted(EDGES, values, side="right") - 1, 0, len(EDGES) - 2)
    counts = weighted_counts(at, len(EDGES) - 1)
    noisy = counts + NOISE * rng.normal(size=counts.shape)
    known = {"deviation": NOISE, "total": len(values)}
    first = estimate(noisy, EDGES, **known)
    if closer is None:
        return first
    groups = first.tails.groups
    own = tail_group(groups, at)
    counted = np.bincount(own[own >= 0], minlength=groups.shape[1])
    nodes = Nodes(*groups, counted + closer * rng.normal(size=counted.shape), closer**2)
    return estimate(noisy, EDGES, **known, closer=nodes)


def drawn(found, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    cells = rng.choice(len(EDGES) - 1, NUMBER, p=found.counts / found.counts.sum())
    return EDGES[cells] + rng.uniform(size=NUMBER) * np.diff(EDGES)[cells]


TAILS = {
    "exponential": lambda rng: rng.exponential(0.01, NUMBER),
    "lognormal": lambda rng: 0.005 * np.exp(0.8 * rng.normal(size=NUMBER)),
    "uniform": lambda rng: rng.uniform(0, 0.1, NUMBER),
}


@pytest.mark.parametrize("name", TAILS)
def test_a_range_far_wider_than_the_records_adds_no_tail(name):
    values = TAILS[name](np.random.default_rng(7))
    for seed in range(4):
        new = drawn(found(values, seed, closer=26.0))
        assert new.std() == pytest.approx(values.std(), rel=0.25)
        ratio = np.quantile(new, 0.999) / np.quantile(values, 0.999)
        assert 1 / 1.5 < ratio < 1.5


def test_a_heap_in_the_tail_stays_a_heap():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.exponential(0.01, NUMBER - 1500), np.full(1500, 0.5)])
    cell = np.searchsorted(EDGES, 0.5, side="right") - 1
    assert found(values, 2).counts[cell] == pytest.approx(1500, abs=400)


def test_groups_cover_both_tails_once_and_nothing_else():
    values = 0.3 + 0.02 * np.random.default_rng(3).normal(size=NUMBER)
    tails = found(values, 4).tails
    starts, ends = tails.groups
    assert (starts < ends).all()
    assert (starts[1:] >= ends[:-1]).all()
    inside = np.zeros(len(EDGES) - 1, int)
    for start, end in zip(starts, ends, strict=True):
        inside[start:end] += 1
    np.testing.assert_array_equal(inside, tails.inside)
    assert inside[[0, -1]].all()
    cells = np.arange(len(inside))
    np.testing.assert_array_equal(tail_group(tails.groups, cells) >= 0, tails.inside)


def test_rows_in_many_tails_count_less_but_never_more_than_promised():
    release = ColumnDetails(num_columns=12, num_units=3, most_levels=99, noise_multiplier=1.0)
    for num in (1, 2, 3, 8, 12):
        at = np.where(np.arange(12) < num, 0, -1)[None]
        tails = np.concatenate(release._tail_counts(at, [1] * 12))
        units = np.full(3, release._unit_weight)
        assert np.linalg.norm(np.concatenate([tails, units])) <= 1 + 1e-12
        assert (tails > 0).sum() == num
