"""Parts by a keyed hash: one record, one part."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from veilflow._core.keys import Secret
from veilflow.releases.partition import split

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
