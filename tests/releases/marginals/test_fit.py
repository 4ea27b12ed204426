"""The whole fit: what it pays, what one row can move, and tables that are hard to bear."""

import jax
import numpy as np
import pytest

from tests.releases.marginals.chained import chained
from tests.releases.tape import tape
from veilflow._core.keys import Secret
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.marginals import MarginalPlan, private_marginal_model

SIZES = (3, 12, 2, 5, 2)


def facts(**rest):
    return {
        "sizes": SIZES,
        "mu": 1.0,
        "ordered": (False, True, False, False, False),
        "label": 4,
    } | rest


def small(num_rows: int = 400, seed: int = 0) -> np.ndarray:
    """Columns that depend on each other; the label is an exclusive or."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, num_rows)
    second = np.clip(4 * first + rng.integers(0, 5, num_rows), 0, 11)
    third = (rng.uniform(size=num_rows) < 0.3).astype(int)
    fourth = np.where(rng.uniform(size=num_rows) < 0.8, second % 5, 0)
    label = third ^ (second > 5)
    return np.stack([first, second, third, fourth, label], axis=1).astype(np.int32)


def made(codes, *, plan=None, seed=0, **rest):
    return private_marginal_model(
        Sensitive(codes),
        plan=plan or MarginalPlan.of(**facts()),
        secret=Secret.from_seed(seed),
        **rest,
    )


def test_what_is_paid_does_not_depend_on_the_rows():
    plan = MarginalPlan.of(**facts())
    assert made(small(50), plan=plan).event == made(np.zeros((3, 5), np.int32), plan=plan).event


def test_without_privacy_the_tables_come_back(key):
    codes = small(20_000)
    released = made(codes, plan=MarginalPlan.of(**facts(mu=np.inf)))
    assert released.event == NonPrivate()
    model = released.value
    counts = np.zeros(SIZES)
    np.add.at(counts, tuple(codes.T), 1 / len(codes))
    for columns in [(0, 1), (1, 2, 4), (1, 3)]:
        away = tuple(i for i in range(5) if i not in columns)
        assert np.abs(model.marginal(columns) - counts.sum(axis=away)).sum() / 2 < 0.02
    rows = model.sample(20_000, key)
    assert ((rows[:, 2] ^ (rows[:, 1] > 5)) == rows[:, 4]).mean() > 0.95


def test_with_noise_dependence_is_found():
    model = made(small(20_000)).value
    assert model.num_records == pytest.approx(20_000, rel=0.01)
    assert (1, 2, 4) in model.cliques
    three = model.marginal((1, 2, 4))
    right = sum(three[i, j, j ^ int(i > 5)] for i in range(12) for j in range(2))
    assert right > 0.9


def test_a_declared_number_of_records_is_used():
    assert made(small(), plan=MarginalPlan.of(**facts(num_records=777))).value.num_records == 777


def test_the_same_seed_gives_the_same_histograms():
    one, two = (made(small(), plan=MarginalPlan.of(**facts(mu=0.3))).value for _ in range(2))
    assert one.num_records == two.num_records


@pytest.mark.parametrize("num_rows", [0, 1])
@pytest.mark.parametrize("label", [None, 4])
def test_hardly_any_rows_make_a_model_all_the_same(num_rows, label, key):
    model = made(small(num_rows), plan=MarginalPlan.of(**facts(mu=0.2, label=label))).value
    rows = model.sample(50, key)
    assert ((rows >= 0) & (rows < np.array(SIZES))).all()
    assert model.marginal((0, 3)).sum() == pytest.approx(1.0)


def test_one_column(key):
    codes = np.repeat([[0], [2]], [300, 700], axis=0).astype(np.int32)
    model = made(codes, plan=MarginalPlan.of((4,), mu=1.0)).value
    assert model.cliques == ()
    np.testing.assert_allclose(model.marginal((0,)), [0.3, 0, 0.7, 0], atol=0.03)
    assert model.sample(10, key).shape == (10, 1)


def test_constant_columns_get_noise_like_all_others(monkeypatch):
    seen = tape(monkeypatch)
    codes = small(2000)
    codes[:, 1] = 3
    model = made(codes, plan=MarginalPlan.of(**facts(mu=0.5))).value
    one_way = seen.calls[0].answer.value - seen.queries[0].total
    assert (one_way != 0).all()
    assert model.marginal((1,))[3] > 0.9


def test_thousands_of_codes_never_make_a_large_table(key, monkeypatch):
    rng, seen = np.random.default_rng(0), tape(monkeypatch)
    wide = np.minimum(rng.zipf(1.3, size=(3000, 2)) - 1, 4999)
    codes = np.concatenate([wide, wide[:, :1] % 2], axis=1).astype(np.int32)
    plan = MarginalPlan.of((5000, 5000, 2), mu=5.0, label=2)
    model = made(codes, plan=plan).value
    assert max(query.total.size for query in seen.queries) <= 2**15
    assert sum(table.size for table in model.tree.conditionals) <= plan.max_cells
    assert model.sample(100, key).max() < 5000


def test_a_generated_table_is_learned(key):
    made_up = chained(20_000, seed=1)
    plan = MarginalPlan.of(
        made_up.sizes, mu=0.5, ordered=made_up.ordered, label=made_up.label, num_records=20_000
    )
    rows = made(made_up.train, plan=plan).value.sample(20_000, key)
    rng = np.random.default_rng(0)
    shuffled = np.stack([rng.permutation(column) for column in made_up.train.T], axis=1)
    far, near = (_misfit(some, made_up) for some in (shuffled, rows))
    assert near < 0.7 * far


def _misfit(rows, made_up):
    """Mean total variation of tables of the label with two other columns."""
    distances = []
    for i in range(len(made_up.sizes) - 2):
        columns = (i, i + 1, made_up.label)
        sizes = [made_up.sizes[c] for c in columns]
        one, two = (
            np.bincount(
                np.ravel_multi_index(some[:, columns].T, sizes), minlength=int(np.prod(sizes))
            )
            for some in (rows, made_up.test)
        )
        distances.append(np.abs(one / len(rows) - two / len(made_up.test)).sum() / 2)
    return np.mean(distances)


@pytest.mark.parametrize("bad", [-1, 12, 2**31 - 1])
def test_codes_beyond_the_plan_are_refused_without_showing_them(bad):
    codes = small()
    codes[5, 1] = bad
    with pytest.raises(ValueError, match="Clamp them") as error:
        made(codes)
    assert str(bad) not in str(error.value)


def test_other_tables_are_refused():
    with pytest.raises(TypeError, match="must be integers"):
        made(small().astype(np.float32))
    with pytest.raises(ValueError, match="5 columns"):
        made(small()[:, :4])


def test_progress_is_told():
    rounds = []
    made(small(50), monitor=rounds.append)
    assert rounds == list(range(1, len(MarginalPlan.of(**facts()).rounds) + 1))


def test_sampling_differs_by_key():
    model = made(small()).value
    one, two = (model.sample(200, jax.random.key(seed)) for seed in range(2))
    assert (one != two).any()
