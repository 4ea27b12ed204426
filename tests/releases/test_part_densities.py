"""Models of parts: each is a function of its own records, whatever the others are."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

import veilflow as vf
from veilflow._core.keys import Secret
from veilflow.releases.part_densities import PartDensities, split
from veilflow.releases.part_flows import PartFlows
from veilflow.releases.part_mixtures import PartMixtures

RNG = np.random.default_rng(0)
BLOB = RNG.normal(0.5, 0.1, size=(300, 2))
RING = RNG.normal(-0.5, 0.3, size=(200, 2))
HUGE = RNG.normal(0, 1, size=(3000, 2))
NOTHING = np.empty((0, 2))
GRID = np.stack(np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-3, 3, 61)), axis=-1).reshape(-1, 2)


def flows(parts: list[np.ndarray]) -> PartDensities:
    settings = PartFlows(steps=70, batch_size=32, learning_rate=1e-2)
    return settings.train(parts, flow=vf.maf(blocks=2, hidden=(8,)), secret=Secret.from_seed(3))


def mixtures(parts: list[np.ndarray]) -> PartDensities:
    return PartMixtures(num_components=3, iterations=5).train(parts, secret=Secret.from_seed(3))


TRAINERS = {"flow": flows, "mixture": mixtures}


@pytest.mark.parametrize("train", TRAINERS.values(), ids=TRAINERS)
def test_a_part_does_not_depend_on_the_records_of_others_or_on_their_number(train):
    votes = [train([BLOB, other]).log_prob(GRID) for other in (RING, HUGE, NOTHING, RING[:-1])]
    for later in votes[1:]:
        np.testing.assert_array_equal(votes[0][0], later[0])  # to the last bit
    assert not np.array_equal(votes[0][1], votes[1][1])
    assert not np.array_equal(votes[0][1], votes[3][1])  # one record less in the part itself


@pytest.mark.parametrize("train", TRAINERS.values(), ids=TRAINERS)
def test_parts_have_densities_that_fit_their_records(train):
    parts = train([BLOB, RING])
    assert np.exp(parts.log_prob(GRID)).sum(axis=1) * 0.01 == pytest.approx([1, 1], abs=0.05)
    of_blob, of_ring = parts.log_prob(BLOB).mean(axis=1)
    assert of_blob > 1.0 > of_ring  # a normal of deviation 0.1 has 1.77 on average


@pytest.mark.parametrize("train", TRAINERS.values(), ids=TRAINERS)
def test_parts_with_no_one_or_equal_records_still_have_densities(train):
    for records in (BLOB[:1], np.tile(BLOB[:1], (9, 1))):
        found = train([NOTHING, records]).log_prob(GRID)
        assert not np.isnan(found).any()
        assert np.isfinite(found[0]).all()


def test_a_row_far_out_has_no_density_and_no_nan():
    parts = mixtures([BLOB, RING])
    assert (parts.log_prob(np.full((1, 2), 1e30)) == -np.inf).all()


@pytest.mark.parametrize(
    ("settings", "flow"),
    [
        (PartFlows(steps=1, batch_size=2, learning_rate=0.1), vf.nsf(blocks=2, hidden=(4,))),
        (PartMixtures(num_components=3, iterations=1), None),
    ],
    ids=["flow", "mixture"],
)
def test_untrained_parts_have_the_shapes_and_numbers_of_trained_ones(settings, flow):
    secret = Secret.from_seed(3)
    trained = jax.tree.leaves(settings.train([BLOB, RING], flow=flow, secret=secret))
    empty = jax.tree.leaves(settings.untrained(2, 2, flow=flow))
    assert [(x.shape, x.dtype) for x in trained] == [(x.shape, x.dtype) for x in empty]
    assert 2 * settings.num_numbers(2, flow=flow) <= sum(x.size for x in trained)


# -- parts by a keyed hash -------------------------------------------------------------------------

SECRET = Secret.from_seed(1)
numbers = st.floats(-1e6, 1e6)
tables = hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=numbers)


def as_multiset(rows: np.ndarray) -> list[tuple[float, ...]]:
    return sorted(map(tuple, rows.tolist()))


@given(rows=tables, place=st.integers(0, 11))
def test_a_record_more_or_less_changes_one_part_by_that_record(rows, place):
    place %= len(rows)
    whole = split(rows, parts=3, secret=SECRET)
    without = split(np.delete(rows, place, axis=0), parts=3, secret=SECRET)
    changed = [j for j in range(3) if not np.array_equal(whole[j], without[j])]
    assert len(changed) == 1
    (part,) = changed
    assert as_multiset(whole[part]) == as_multiset(np.vstack([without[part], rows[place]]))


@given(rows=tables)
def test_parts_hold_all_records_in_an_order_that_is_not_that_of_the_table(rows):
    parts = split(rows, parts=4, secret=SECRET)
    assert as_multiset(np.vstack(parts)) == as_multiset(rows)
    for one, other in zip(parts, split(rows[::-1], parts=4, secret=SECRET), strict=True):
        np.testing.assert_array_equal(one, other)


def test_equal_records_share_a_part_and_both_zeros_are_equal():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0]])
    for seed in range(20):
        sizes = [len(part) for part in split(rows, parts=5, secret=Secret.from_seed(seed))]
        assert sorted(sizes) == [0, 0, 0, 0, 3]


def test_the_key_decides_and_parts_are_about_equal():
    rows = np.random.default_rng(0).normal(size=(2000, 3))
    one, other = (split(rows, parts=10, secret=Secret.from_seed(s)) for s in (1, 2))
    assert any(
        len(a) != len(b) or not np.array_equal(a, b) for a, b in zip(one, other, strict=True)
    )
    # 5.5 standard deviations of a binomial: a false alarm once in a million
    assert all(abs(len(part) - 200) < 74 for part in one)
