"""Inference: against sums over all rows, and noise that is believed no further than it should be."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from veilflow.releases.marginals.graph import Layout, bags_of, joined, num_cells, together_in
from veilflow.releases.marginals.inference import Table, _Propagation, fitted, minimized, ridges

SIZES = (3, 2, 4, 2, 3)
CLIQUES = [(0, 1), (1, 2), (2, 0, 3), (4,), (3, 1)]
"""A loop, a set in another order than its columns, and a column by itself."""


def full(columns, counts, *, ridge=0.0, sizes=SIZES):
    groups = tuple(np.arange(sizes[c]) for c in columns)
    return Table(tuple(columns), groups, counts, np.full(counts.shape, ridge))


def shape_of(columns):
    return tuple(SIZES[c] for c in columns)


def brute_force(tables, weights):
    """log Z and the probability of every row, by adding up all of them."""
    log = np.zeros(SIZES)
    for row in itertools.product(*map(range, SIZES)):
        for table, weight in zip(tables, weights, strict=True):
            cell = tuple(g[row[c]] for c, g in zip(table.columns, table.groups, strict=True))
            log[row] += weight[cell]
    return logsumexp(log), np.exp(log - logsumexp(log))


def merged_tables():
    """Tables whose codes are merged, two of them of one column."""
    tables = [full(c, np.zeros(shape_of(c))) for c in CLIQUES]
    first, last = np.array([0, 1, 0]), np.array([0, 0, 1, 1])
    coarse = Table((0, 2), (first, last), *np.zeros((2, 2, 2)))
    return [*tables, coarse]


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_propagation_is_the_sum_over_all_rows(scale):
    rng, tables = np.random.default_rng(0), merged_tables()
    weights = [scale * rng.normal(size=table.counts.shape) for table in tables]
    propagation = _Propagation(SIZES, tables)
    log_z, probabilities = propagation.run(np.concatenate([w.ravel() for w in weights]))
    expected_log_z, joint = brute_force(tables, weights)
    np.testing.assert_allclose(log_z, expected_log_z, rtol=1e-10)
    for table, given in zip(tables, propagation.split(probabilities), strict=True):
        away = tuple(i for i in range(len(SIZES)) if i not in table.columns)
        marginal = joint.sum(axis=away).transpose(np.argsort(np.argsort(table.columns)))
        summed = np.zeros(table.counts.shape)
        for cell in itertools.product(*map(range, marginal.shape)):
            at = tuple(g[i] for g, i in zip(table.groups, cell, strict=True))
            summed[at] += marginal[cell]
        np.testing.assert_allclose(given, summed, atol=1e-10)


def test_without_noise_the_tables_are_matched_and_nothing_else_is_assumed():
    rng = np.random.default_rng(1)
    joint = rng.dirichlet(np.ones(int(np.prod(SIZES)))).reshape(SIZES)
    counts = [joint.sum(axis=(2, 3, 4)), joint.sum(axis=(0, 3, 4)), joint.sum(axis=(0, 1, 2))]
    sets = [(0, 1), (1, 2), (3, 4)]
    tables = [full(c, 1e4 * table, ridge=1e-6) for c, table in zip(sets, counts, strict=True)]
    tree, weights = fitted(SIZES, tables, num_records=1e4)
    _, model = brute_force(tables, weights)
    for columns, table in zip(sets, counts, strict=True):
        away = tuple(i for i in range(5) if i not in columns)
        np.testing.assert_allclose(model.sum(axis=away), table, atol=2e-4)
    # the columns of tables that have none in common are independent
    expected = np.multiply.outer(model.sum(axis=(3, 4)), model.sum(axis=(0, 1, 2)))
    np.testing.assert_allclose(model, expected, atol=1e-10)
    assert len(tree.bags) == len(tree.conditionals) == 5
    for conditional in tree.conditionals:
        np.testing.assert_allclose(conditional.sum(axis=-1), 1.0)


def test_a_table_of_noise_leaves_the_model_almost_where_it_was():
    rng, expected = np.random.default_rng(2), np.full((20, 20), 25.0)
    noise = 40.0
    noisy = rng.normal(expected, noise)
    one = [full((i,), np.full(20, 500.0), ridge=1e-3, sizes=(20, 20)) for i in range(2)]
    groups = (np.arange(20), np.arange(20))
    table = Table((0, 1), groups, noisy, ridges(noisy, expected, noise))
    model, _ = fitted((20, 20), [*one, table], num_records=1e4)
    joint = np.exp(sum(_log_parts(model)))
    assert np.abs(joint - 1 / 400).sum() / 2 < 0.05  # the noise itself is 0.6 away
    assert np.abs(noisy / 1e4 - 1 / 400).sum() / 2 > 0.5


def test_a_table_that_says_something_is_believed():
    rng = np.random.default_rng(3)
    expected, noise = np.full((6, 6), 300.0), 10.0
    truth = expected + 200 * np.where(np.eye(6) > 0, 5, -1) / 5 * 1.0
    noisy = rng.normal(truth, noise)
    assert (ridges(noisy, expected, noise) < 0.1 * expected).all()


def _log_parts(tree):
    for bag, conditional in zip(tree.bags, tree.conditionals, strict=True):
        order = np.argsort(bag.axes)
        shape = [20 if i in bag.axes else 1 for i in range(2)]
        yield np.log(conditional).transpose(order).reshape(shape)


def test_a_start_from_an_earlier_fit_ends_at_the_same_model():
    rng = np.random.default_rng(4)
    counts = [rng.uniform(50, 200, size=shape_of(c)) for c in CLIQUES]
    tables = [full(c, table, ridge=1.0) for c, table in zip(CLIQUES, counts, strict=True)]
    _, early = fitted(SIZES, tables[:2] + tables[3:4], num_records=1e3)
    reordered = tables[:2] + tables[3:4] + [tables[2], tables[4]]
    cold, _ = fitted(SIZES, reordered, num_records=1e3)
    warm, _ = fitted(SIZES, reordered, num_records=1e3, start=early)
    for one, two in zip(cold.conditionals, warm.conditionals, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-3)


# -- elimination -----------------------------------------------------------------------------------


def test_every_clique_is_within_a_bag_and_parents_come_later():
    rng = np.random.default_rng(5)
    for _ in range(20):
        sizes = rng.integers(2, 9, size=8).tolist()
        sets = [tuple(rng.choice(8, size=rng.integers(2, 4), replace=False)) for _ in range(7)]
        together = together_in(8, sets)
        bags = bags_of(sizes, together)
        assert sorted(bag.column for bag in bags) == list(range(8))
        assert all(any(set(clique) <= set(bag.axes) for bag in bags) for clique in sets)
        place = {bag.column: i for i, bag in enumerate(bags)}
        assert all(place[p] > place[bag.column] for bag in bags for p in bag.parents)
        cells = sum(np.prod([sizes[c] for c in bag.axes]) for bag in bags)
        assert num_cells(sizes, together) == pytest.approx(float(cells))


def test_the_smallest_bag_is_eliminated_first():
    rng = np.random.default_rng(7)
    for _ in range(20):
        sizes = rng.integers(2, 9, size=9).tolist()
        left = together_in(9, [tuple(rng.choice(9, size=3, replace=False)) for _ in range(6)])
        for bag in bags_of(sizes, left):
            remaining = np.flatnonzero(left.diagonal())
            cells = {c: np.prod(np.take(sizes, np.flatnonzero(left[c]))) for c in remaining}
            assert cells[bag.column] == min(cells.values())
            around = np.flatnonzero(left[bag.column])
            left[np.ix_(around, around)] = True
            left[bag.column] = left[:, bag.column] = False


def test_a_layout_tells_what_a_clique_would_add_in_the_order_there_is():
    rng = np.random.default_rng(6)
    for _ in range(40):
        sizes = rng.integers(1, 9, size=9).tolist()
        sets = [tuple(rng.choice(9, size=rng.integers(2, 4), replace=False)) for _ in range(6)]
        clique = tuple(rng.choice(9, size=rng.integers(1, 4), replace=False).tolist())
        together, layout = together_in(9, sets), Layout(sizes, together_in(9, sets))
        assert layout.num_cells == pytest.approx(num_cells(sizes, together))
        left, cells = joined(together, clique), 0.0
        for column in (bag.column for bag in bags_of(sizes, together)):
            bag = np.flatnonzero(left[column])
            cells += np.prod(np.take(sizes, bag))
            left[np.ix_(bag, bag)] = True
            left[:, column] = left[column] = False
        assert layout.num_cells_with(clique) == pytest.approx(cells)


def test_cells_beyond_all_numbers_are_still_compared():
    together = together_in(400, [tuple(range(400))])
    assert num_cells([50] * 400, together) > 1e300
    assert Layout([50] * 400, together).num_cells_with((0, 1)) > 1e300
    assert (
        Layout([50] * 400, together_in(400, [tuple(range(399))])).num_cells_with((0, 399)) > 1e300
    )
    assert not together_in(3, [(0, 1)])[1, 2]
    assert joined(together_in(3, [(0, 1)]), (1, 2))[1, 2]


# -- descent ---------------------------------------------------------------------------------------


def bowl(seed: int, size: int, condition: float):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    curvature = (basis * np.geomspace(1, condition, size)) @ basis.T
    lowest = rng.normal(size=size)

    def function(x):
        off = x - lowest
        return 0.5 * off @ curvature @ off, curvature @ off

    return function, lowest


@pytest.mark.parametrize("condition", [1.0, 100.0, 1e4])
def test_the_lowest_point_of_a_bowl(condition):
    function, lowest = bowl(0, 12, condition)
    found = minimized(function, np.zeros(12), iterations=200, tolerance=1e-14)
    np.testing.assert_allclose(found, lowest, atol=1e-4)


def test_a_function_that_is_not_quadratic_and_steep():
    def function(x):
        return float(np.exp(3 * x).sum() - 5 * x.sum()), 3 * np.exp(3 * x) - 5

    found = minimized(function, np.array([6.0, -4.0]), iterations=300, tolerance=1e-14)
    np.testing.assert_allclose(found, np.log(5 / 3) / 3, atol=1e-4)


def test_no_step_goes_up():
    function, _ = bowl(1, 30, 1e5)
    values = [
        function(minimized(function, np.zeros(30), iterations=n, tolerance=0.0))[0]
        for n in range(12)
    ]
    assert (np.diff(values) <= 0).all()
    assert values[-1] < values[0]


def test_at_the_lowest_point_it_stays():
    function, lowest = bowl(2, 4, 10.0)
    found = minimized(function, lowest, iterations=50, tolerance=0.0)
    np.testing.assert_array_equal(found, lowest)
