"""Synthetic rows in pieces: the same rows however they are asked for, and whole files or none."""

import tracemalloc
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyarrow import parquet
from scipy import stats

from veilflow._core.keys import Secret
from veilflow.flows import AbstractBase, maf
from veilflow.models import sampling
from veilflow.models.assembly import Assembly
from veilflow.models.density_plan import DensityPlan
from veilflow.models.domain import Ball, Box
from veilflow.models.fitted_density import FittedDensityFlow
from veilflow.privacy.budget import Budget
from veilflow.tabular import read_rows

NUM_ROWS = 9000  # more than two blocks, and no multiple of one
COLUMNS = ("east", "north")
PLAN = DensityPlan(
    model="DensityFlow",
    budget=Budget(1.0, 1e-5),
    releases=(),
    declared=("bounds",),
    dim=2,
    start="none",
    flow=None,
    domain=Box.declared(((-2, 0), (2, 10))),
)


@cache
def model() -> FittedDensityFlow:
    return FittedDensityFlow(
        flow=maf(2, key=jax.random.key(0), blocks=2, hidden=(8,)),
        columns=COLUMNS,
        plan=PLAN,
        guarantee=PLAN.guarantee,
        facts={},
        assembly=Assembly(dim=2, border=3**0.5),
    )


@cache
def all_rows() -> np.ndarray:
    return model().sample(NUM_ROWS, seed=1)


@pytest.mark.parametrize("size", [7, 1000, 1024, 4096, 5000, 8192, 65_536, 10**12])
def test_chunks_of_any_size_put_together_are_the_sample(size):
    chunks = list(model().sample_chunks(NUM_ROWS, seed=1, chunk_size=size))
    np.testing.assert_array_equal(np.concatenate(chunks), all_rows())
    *full, last = map(len, chunks)
    assert set(full) <= {size}
    assert 0 < last <= size


@pytest.mark.parametrize("num_rows", [1, 4096, 4097, 8999])
def test_the_first_of_many_rows_are_those_of_few(num_rows):
    np.testing.assert_array_equal(model().sample(num_rows, seed=1), all_rows()[:num_rows])


def test_a_chunk_is_an_array_of_its_own():
    chunks = model().sample_chunks(3000, seed=1, chunk_size=1000)
    first = next(chunks)
    kept = first.copy()
    next(chunks)[:] = 0
    np.testing.assert_array_equal(first, kept)


def test_rows_are_drawn_when_they_are_asked_for():
    chunks = model().sample_chunks(10**15, seed=1, chunk_size=10)
    np.testing.assert_array_equal(next(chunks), all_rows()[:10])


def test_no_rows_are_no_chunks():
    assert list(model().sample_chunks(0)) == []
    assert model().sample(0).shape == (0, 2)


BAD = {
    "negative": ({"num_rows": -1}, ValueError, "num_rows must be at least 0"),
    "half": ({"num_rows": 1.5}, TypeError, "num_rows must be a whole number"),
    "empty chunks": ({"chunk_size": 0}, ValueError, "chunk_size must be at least 1"),
    "a word for a seed": ({"seed": "x"}, TypeError, "seed must be a whole number"),
}


@pytest.mark.parametrize(("changes", "kind", "message"), BAD.values(), ids=BAD.keys())
def test_bad_settings_are_refused_before_the_first_chunk_is_asked_for(changes, kind, message):
    with pytest.raises(kind, match=message):
        model().sample_chunks(**{"num_rows": 10, **changes})


class Narrow(AbstractBase):
    """Normal, and far from every border."""

    dim: int = 2

    def log_prob(self, z):
        return jnp.zeros(())

    def sample(self, key):
        return 0.1 * jax.random.normal(key, (self.dim,))


@cache
def normal_rows() -> np.ndarray:
    """More than share a key."""
    domain = Ball(1.0)
    rows = sampling.blocks(Narrow(), domain, 140_000, Secret.from_seed(3))
    return 10 * domain.encode(np.concatenate(list(rows)))


def test_no_row_comes_twice():
    assert len(np.unique(normal_rows(), axis=0)) > 139_990  # in single precision some may meet


def test_rows_follow_the_density():
    rows = normal_rows()
    for column in rows.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3
    assert abs(stats.pearsonr(*rows.T).statistic) < 0.01  # 3.7 standard errors
    neighbors = stats.pearsonr(rows[:-1, 0], rows[1:, 0]).statistic
    assert abs(neighbors) < 0.01


def test_other_seeds_give_other_rows_and_none_gives_fresh_ones():
    # rows at the border may meet
    assert (all_rows()[:1000] != model().sample(1000, seed=2)).mean() > 0.95
    assert np.abs(model().sample(3) - model().sample(3)).max() > 0
    first, second = (np.concatenate(list(model().sample_chunks(3))) for _ in range(2))
    assert np.abs(first - second).max() > 0


def test_an_accelerator_draws_the_same_rows_in_larger_blocks(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = list(model()._blocks(NUM_ROWS, Secret.from_seed(1)))
    assert [len(block) for block in found] == [NUM_ROWS]
    np.testing.assert_allclose(found[0], all_rows(), rtol=1e-4, atol=1e-4)


class Wild(AbstractBase):
    """Draws what no row may be."""

    dim: int = 2

    def log_prob(self, z):
        return jnp.zeros(())

    def sample(self, key):
        wild = jnp.array([jnp.nan, jnp.inf, -jnp.inf, 3e38, -3e38])
        return jax.random.choice(key, wild, (self.dim,))


@pytest.mark.parametrize("domain", [Box.declared(((-2, 0), (2, 10))), Ball(2.0)], ids=str)
def test_whatever_a_density_draws_ends_within_the_bounds(domain):
    (rows,) = sampling.blocks(Wild(), domain, 200, Secret.from_seed(4))
    assert rows.shape == (200, 2)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(domain.clamp(rows), rows, rtol=1e-12)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow", ".npz"])
def test_a_file_holds_the_rows_of_the_sample(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    model().sample_to(path, NUM_ROWS, seed=1)
    rows = read_rows(path)
    np.testing.assert_array_equal(rows.values, all_rows())
    assert rows.columns == COLUMNS
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_no_rows_has_its_columns(tmp_path):
    model().sample_to(tmp_path / "rows.parquet", 0)
    assert read_rows(tmp_path / "rows.parquet").values.shape == (0, 2)


@pytest.mark.parametrize(("rows", "numbers"), [(1000, 10**6), (10**6, 2000)])
def test_a_file_is_written_in_pieces_of_bounded_size_and_the_monitor_sees_each(
    rows, numbers, monkeypatch, tmp_path
):
    monkeypatch.setattr(sampling, "_FILE_CHUNK", rows)
    monkeypatch.setattr(sampling, "_FILE_NUMBERS", numbers)
    seen = []
    model().sample_to(tmp_path / "rows.parquet", 2500, monitor=seen.append)
    assert seen == [1000, 2000, 2500]
    with parquet.ParquetFile(tmp_path / "rows.parquet") as file:
        assert file.num_row_groups == 3


def interrupt(_):
    raise KeyboardInterrupt  # what the signal becomes, also where a shell has it ignored


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_an_interrupt_leaves_no_file_and_an_old_one_whole(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    with pytest.raises(KeyboardInterrupt):
        model().sample_to(path, 100, monitor=interrupt)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"precious")
    with pytest.raises(KeyboardInterrupt):
        model().sample_to(path, 100, monitor=interrupt)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"precious"


def test_memory_on_the_host_does_not_grow_with_the_rows(tmp_path):
    def peak(num_rows):
        tracemalloc.start()
        model().sample_to(tmp_path / "rows.npy", num_rows, seed=1)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "_FILE_CHUNK", 4096)
        peak(10)  # what is imported and compiled once
        small, large = peak(10_000), peak(100_000)
    assert large < 1.2 * small
    assert large < 100_000 * 2 * 8  # all rows at once
