"""The model: rows that follow it, marginals that are those of the rows."""

import jax
import numpy as np
import pytest

from veilflow.releases.marginals.graph import Bag
from veilflow.releases.marginals.inference import Tree
from veilflow.releases.marginals.model import MarginalModel, Spread

MERGED = (3, 2, 4, 2)


def made(seed: int = 0) -> MarginalModel:
    """Four columns, the third with codes within merged ones, one of which never occurs."""
    rng = np.random.default_rng(seed)
    bags = (Bag(0, (2, 1)), Bag(2, (1, 3)), Bag(1, (3,)), Bag(3, ()))
    conditionals = tuple(
        rng.dirichlet(np.ones(MERGED[bag.column]), size=[MERGED[p] for p in bag.parents])
        for bag in bags
    )
    plain = [Spread.of(np.arange(size), np.ones(size)) for size in MERGED]
    groups = np.array([2, 0, 1, 3, 2, 2, 0])
    plain[2] = Spread.of(groups, np.array([5.0, 0, 1, 1, 3, 2, 4]))
    sizes = (3, 2, 7, 2)
    return MarginalModel(sizes, 100.0, ((0, 1, 2),), Tree(bags, conditionals), tuple(plain))


def test_codes_of_a_group_share_it_by_their_mass_or_equally_if_there_is_none():
    spread = Spread.of(np.array([0, 1, 0, 1]), np.array([0.1, 0.0, 0.3, 0.0]))
    np.testing.assert_allclose(spread.within, [0.25, 0.5, 0.75, 0.5])


def joint(model: MarginalModel) -> np.ndarray:
    return model.marginal((0, 1, 2, 3))


def test_marginals_are_sums_of_the_whole():
    model = made()
    whole = joint(model)
    assert whole.shape == (3, 2, 7, 2)
    assert whole.sum() == pytest.approx(1.0)
    for columns in [(0,), (2,), (3, 0), (2, 0, 3), (1, 2)]:
        away = tuple(i for i in range(4) if i not in columns)
        order = np.argsort(np.argsort(columns))
        np.testing.assert_allclose(
            model.marginal(columns), whole.sum(axis=away).transpose(order), atol=1e-12
        )


def test_rows_follow_the_model(key):
    model, num_rows = made(), 200_000
    rows = model.sample(num_rows, key)
    assert rows.dtype == np.int32
    counts = np.zeros(model.sizes)
    np.add.at(counts, tuple(rows.T), 1)
    expected = num_rows * joint(model)
    assert (counts[expected == 0] == 0).all()
    seen = expected > 0
    chi2 = (np.square(counts - expected)[seen] / expected[seen]).sum()
    assert abs(chi2 - seen.sum()) < 6 * np.sqrt(2 * seen.sum())  # one false alarm in 10^6 or so


def test_chunks_are_different_and_the_same_key_gives_the_same_rows(key, monkeypatch):
    monkeypatch.setattr("veilflow.releases.marginals.model._CHUNK", 500)
    one, two = (made().sample(1200, jax.random.clone(key)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert (one[:500] != one[500:1000]).any()


def test_no_rows_are_no_rows(key):
    assert made().sample(0, key).shape == (0, 4)


def test_uniform_numbers_next_to_one_stay_within_their_group():
    spread = Spread.of(np.array([0, 0, 1]), np.array([0.1, 0.2, 0.7]))
    just_below = np.full(2, np.nextafter(np.float32(1), np.float32(0)), np.float64)
    assert spread.draw(np.array([0, 1]), just_below).tolist() == [1, 2]
    assert spread.draw(np.array([0, 1]), np.zeros(2)).tolist() == [0, 2]


@pytest.mark.parametrize("columns", [(0, 0), (4,), (-1, 2)])
def test_columns_that_are_not_there_or_repeat_are_refused(columns):
    with pytest.raises(ValueError, match="different numbers from 0 to 3"):
        made().marginal(columns)


def test_a_table_too_large_to_build_is_refused():
    sizes = (5000, 5000)
    tree = Tree((Bag(0, ()), Bag(1, ())), (np.ones(1), np.ones(1)))
    spread = Spread.of(np.zeros(5000, np.int64), np.ones(5000))
    model = MarginalModel(sizes, 10.0, (), tree, (spread, spread))
    with pytest.raises(ValueError, match="fewer columns"):
        model.marginal((0, 1))
    assert model.marginal((0,)).shape == (5000,)
