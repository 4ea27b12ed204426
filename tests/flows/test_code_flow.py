"""The flow of rows of codes: shares add up, draws follow them, and gradients of records are known."""

from functools import lru_cache, partial
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import quick
from tests.flows.clipped import check_bounds
from tests.flows.test_bijections import shaken
from veilflow.engine.observed import measured, observe_gradients
from veilflow.flows.code_flow import FREE, CodeFlow
from veilflow.flows.codebook import Codebook, span
from veilflow.nn.frozen import trainable_part
from veilflow.nn.tap import is_layer

MASSES = ([0.7, 0.2, 0.1], [0.5, 0.1, 0.1, 0.2, 0.1], [0.4, 0.6], [0.3, 0.3, 0.2, 0.2])
ORDERED = (False, True, False, True)
GAPS = (False, True, False, False)
SIZES = tuple(len(mass) for mass in MASSES)
ROWS = np.array(list(product(*map(range, SIZES))), np.int32)
CASES = {
    "no hidden layer": ((), (0, 1, 2, 3)),
    "one, backwards": ((7,), (3, 2, 1, 0)),
    "two, mixed": ((6, 5), (2, 0, 3, 1)),
}
NUM_DRAWS = 20_000


def book(**options) -> Codebook:
    return Codebook.create(
        [np.array(m) for m in MASSES], ordered=ORDERED, gaps=GAPS, num_waves=2, **options
    )


@lru_cache
def flow_of(case: str) -> CodeFlow:
    hidden, order = CASES[case]
    with quick.weights():
        fresh = CodeFlow.create(book(), key=jax.random.key(1), order=order, hidden=hidden)
    return shaken(fresh, 0.6)


@lru_cache
def log_probs_of(case: str) -> np.ndarray:
    """For every row there is, the log-share of each code given those before it."""
    columns = [log_prob_of_rows(flow_of(case), one) for one in np.eye(4, dtype=np.float32)]
    return np.stack(columns, axis=1).astype(np.float64)


@quick.jit
def log_prob_of_rows(flow: CodeFlow, weights: jax.Array) -> jax.Array:
    return jax.vmap(partial(flow.log_prob, weights=weights))(ROWS)


@quick.jit
def draw(flow, key, given, allowed, num_rows):
    keys = jax.random.split(key, num_rows)
    return jax.vmap(lambda key: flow.sample_given(key, given, allowed))(keys)


def everything(flow: CodeFlow):
    return jnp.ones(flow.codebook.log_mass.shape, bool)


@pytest.mark.parametrize("case", CASES)
def test_shares_of_all_rows_add_up_to_one(case: str):
    each = log_probs_of(case)
    np.testing.assert_allclose(np.exp(each.sum(axis=1)).sum(), 1, rtol=1e-5)
    # and rows are far from independent: or the other tests would show nothing
    assert np.ptp(each, axis=0).max() > 2


def test_a_fresh_flow_has_independent_columns_with_the_shares_of_the_codebook():
    flow = CodeFlow.create(book(), key=jax.random.key(0), hidden=(4,))
    expected = sum(np.log(mass)[ROWS[:, j]] for j, mass in enumerate(MASSES))
    found = log_prob_of_rows(flow, np.ones(4, np.float32))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("case", CASES)
def test_a_share_does_not_depend_on_later_columns(case: str):
    order, each = CASES[case][1], log_probs_of(case).reshape(*SIZES, len(SIZES))
    for place, j in enumerate(order):
        for later in order[place + 1 :]:
            assert np.ptp(each[..., j], axis=later).max() < 1e-5
        for earlier in order[:place]:  # the network is not blind either
            assert np.ptp(each[..., j], axis=earlier).max() > 1e-3


@pytest.mark.parametrize("case", CASES)
def test_rows_are_drawn_as_often_as_their_share_says(case: str):
    flow, num_rows = flow_of(case), NUM_DRAWS
    given = jnp.full(flow.dim, FREE)
    rows, log_weights = draw(flow, jax.random.key(5), given, everything(flow), num_rows)
    np.testing.assert_allclose(log_weights, 0, atol=1e-5)
    places = np.ravel_multi_index(tuple(np.asarray(rows).T), SIZES)
    found = np.bincount(places, minlength=len(ROWS))
    expected = num_rows * np.exp(log_probs_of(case).sum(axis=1))
    common = expected > 5
    chi2 = np.sum((found - expected)[common] ** 2 / expected[common])
    # six deviations: a fair draw fails less than once in a million keys
    assert chi2 < common.sum() + 6 * np.sqrt(2 * common.sum())
    assert found[~common].sum() < 2 * expected[~common].sum() + 20


@pytest.mark.parametrize("case", CASES)
def test_weights_of_given_codes_average_to_their_probability(case: str):
    flow = flow_of(case)
    probability = np.exp(log_probs_of(case).sum(axis=1))
    for asked in ([FREE, 1, FREE, FREE], [FREE, FREE, 1, 2], [2, FREE, 0, FREE], [0, 4, 1, 3]):
        fixed = [j for j, code in enumerate(asked) if code != FREE]
        matching = (ROWS[:, fixed] == np.array(asked)[fixed]).all(axis=1)
        rows, log_weights = draw(
            flow, jax.random.key(3), jnp.array(asked), everything(flow), NUM_DRAWS
        )
        assert (np.asarray(rows)[:, fixed] == np.array(asked)[fixed]).all()
        weights = np.exp(np.float64(log_weights))
        error = weights.std() / np.sqrt(len(weights))
        total = probability[matching].sum()
        assert abs(weights.mean() - total) <= 5 * error + 1e-5 * total
        # weighted rows are rows of the flow, given these codes
        for j in range(flow.dim):
            shares = np.bincount(np.asarray(rows)[:, j], weights, SIZES[j]) / weights.sum()
            true = np.bincount(ROWS[matching, j], probability[matching], SIZES[j]) / total
            np.testing.assert_allclose(shares, true, atol=0.03)


@pytest.mark.parametrize("case", CASES)
def test_given_codes_that_come_first_leave_all_weights_the_same(case: str):
    flow, order = flow_of(case), CASES[case][1]
    given = np.full(4, FREE)
    given[list(order[:2])] = 1
    _, log_weights = draw(flow, jax.random.key(3), jnp.array(given), everything(flow), NUM_DRAWS)
    assert np.ptp(log_weights) < 1e-5
    assert np.asarray(log_weights).max() < -0.01


def test_what_is_not_allowed_is_not_drawn_and_weights_know_it():
    flow = flow_of("two, mixed")
    allowed = np.ones(flow.codebook.log_mass.shape, bool)
    for j, code in ((1, 4), (0, 0), (2, 1)):
        allowed[span(flow.codebook.slot_columns, j).start + code] = False
    rows, log_weights = draw(
        flow, jax.random.key(2), jnp.array([FREE, FREE, 1, FREE]), jnp.asarray(allowed), NUM_DRAWS
    )
    rows, weights = np.asarray(rows), np.exp(np.float64(log_weights))
    assert (rows[:, 2] == 1).all()  # what is given is not asked
    assert 4 not in rows[:, 1]
    assert 0 not in rows[:, 0]
    kept = (ROWS[:, 0] != 0) & (ROWS[:, 1] != 4) & (ROWS[:, 2] == 1)
    total = np.exp(log_probs_of("two, mixed")[kept].sum(axis=1)).sum()
    assert abs(weights.mean() - total) <= 5 * weights.std() / np.sqrt(len(weights)) + 1e-5 * total


def huge(flow: CodeFlow, size: float) -> CodeFlow:
    trained, rest = trainable_part(flow)
    signs = jax.tree.map(lambda a: np.sign(np.asarray(a) + np.float32(1e-3)), trained)
    return eqx.combine(jax.tree.map(lambda a: jnp.asarray(np.float32(size) * a), signs), rest)


@pytest.mark.parametrize("size", [1e2, 1e6, -1e30])
def test_no_parameters_make_a_share_or_a_gradient_infinite(size: float):
    masses = [np.ones(3), np.ones(40), np.ones(25)]
    many = Codebook.create(masses, ordered=[False, True, True], gaps=[False, False, True])
    flow = huge(CodeFlow.create(many, key=jax.random.key(0), hidden=(5,)), size)
    rows = jnp.array([[0, 0, 0], [1, 20, 24], [2, 39, 12]])
    trained, rest = trainable_part(flow)
    of_one = jax.value_and_grad(lambda t, row: eqx.combine(t, rest).log_prob(row))
    value, gradient = jax.jit(jax.vmap(of_one, in_axes=(None, 0)))(trained, rows)
    assert np.isfinite(value).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    careful = eqx.filter_jit(draw)  # as models draw: what overflows may be the compiler's choice
    drawn, _ = careful(flow, jax.random.key(1), jnp.full(3, FREE), everything(flow), 16)
    assert (np.asarray(drawn) < np.array([3, 40, 25])).all()


def loss_fn(flow, codes, key):
    return -flow.log_prob(codes)


@pytest.mark.parametrize("case", CASES)
def test_closed_forms_are_those_of_each_records_gradient(case: str):
    flow, rows = flow_of(case), ROWS[::20][:6]
    trained, rest = trainable_part(flow)
    assert all(is_layer(n) for n in jax.tree.leaves(trained, is_leaf=is_layer))

    @quick.jit
    def run(rows):
        captured = observe_gradients(loss_fn, flow, rows, jnp.ones(6, bool), jax.random.key(0))
        of_one = jax.grad(lambda t, row: loss_fn(eqx.combine(t, rest), row, None))
        return measured(captured).squared_norm(), jax.vmap(of_one, in_axes=(None, 0))(trained, rows)

    norms, gradients = run(rows)
    leaves = [np.float64(leaf).reshape(6, -1) for leaf in jax.tree.leaves(gradients)]
    np.testing.assert_allclose(norms, sum(np.sum(leaf**2, axis=1) for leaf in leaves), rtol=1e-4)
    assert norms.min() > 0.1


def test_every_clipping_keeps_its_bound():
    flow = shaken(flow_of("two, mixed"), 3.0)
    top = np.iinfo(np.int32).max
    rows = np.array([*ROWS[::30][:4], [top, -top, top, 9], [-1, 5, 3, -7]], np.int32)
    check_bounds(flow, loss_fn, [rows])


def test_codes_outside_of_a_column_are_codes_of_nobody():
    flow = flow_of("one, backwards")
    row = jnp.array([99, 0, 0, 0])
    log_prob = quick.jit(flow.log_prob)
    each = np.array([log_prob(row, one) for one in np.eye(4, dtype=np.float32)])
    assert float(each.sum()) == pytest.approx(float(log_prob(row)), rel=1e-5)
    assert np.isfinite(each).all()


@quick.jit
def walked(flow: CodeFlow, codes: jax.Array) -> tuple:
    return *flow.sample_given(jax.random.key(0), codes), flow.log_prob(codes)


@settings(max_examples=8)  # each has shapes of its own to compile
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    seed=st.integers(0, 99),
    ordered=st.integers(0, 15),
)
def test_walking_along_a_row_finds_its_log_prob(sizes, seed, ordered):
    rng = np.random.default_rng(seed)
    kinds = [bool(ordered >> j & 1) for j in range(len(sizes))]
    gaps = [kind and size > 1 for kind, size in zip(kinds, sizes, strict=True)]
    masses = [rng.gamma(0.5, size=size) for size in sizes]
    book = Codebook.create(masses, ordered=kinds, gaps=gaps, num_waves=3)
    hidden = ((), (5,), (7, 4))[seed % 3]
    order = rng.permutation(len(sizes)).tolist()
    with quick.weights(seed):
        flow = CodeFlow.create(book, key=jax.random.key(seed), order=order, hidden=hidden)
    noise = rng.normal(size=flow.layers[-1].weight.shape).astype(np.float32)
    flow = eqx.tree_at(lambda f: f.layers[-1].weight, flow, jnp.asarray(noise))
    codes = jnp.array([rng.integers(size) for size in sizes])
    drawn, log_weight, log_prob = walked(flow, codes)
    assert drawn.tolist() == codes.tolist()
    assert float(log_weight) == pytest.approx(float(log_prob), rel=1e-4, abs=1e-4)
    for j in range(len(sizes)):
        slots = span(book.slot_columns, j)
        assert np.exp(np.asarray(book.log_mass)[slots]).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("direct", [True, False])
def test_many_columns_are_walked_like_few(direct):
    """More columns than are in one product of blocks, of either kind."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 5, size=40)
    masses = [rng.gamma(0.5, size=size) for size in sizes]
    kinds = [j % 5 > 1 for j in range(40)]
    wide = Codebook.create(masses, ordered=kinds, num_waves=3)
    order = rng.permutation(40).tolist()
    size = {"hidden": (6,), "direct": direct}
    with quick.weights():
        flow = shaken(CodeFlow.create(wide, key=jax.random.key(0), order=order, **size), 0.6)
    assert flow.direct == direct
    codes = jnp.array([rng.integers(size) for size in sizes])
    drawn, log_weight, log_prob = walked(flow, codes)
    assert drawn.tolist() == codes.tolist()
    assert float(log_weight) == pytest.approx(float(log_prob), rel=1e-4)
    # the sums and products of blocks are those of the whole
    slots = jnp.asarray(rng.normal(size=wide.slot_columns.size), jnp.float32)
    sums = [float(slots[span(wide.slot_columns, j)].sum()) for j in range(40)]
    np.testing.assert_allclose(wide.column_sums(slots), sums, atol=1e-5)
    whole = jnp.concatenate([slots[: wide.num_listed], slots[wide.num_listed :] @ wide.waves])
    np.testing.assert_allclose(wide.features(slots), whole, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": (0, 1, 2)}, "order must name each of the 4 columns once"),
        ({"order": (0, 0, 1, 2)}, "order must name"),
        ({"hidden": (0,)}, "hidden must be at least 1"),
    ],
    ids=str,
)
def test_a_flow_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        CodeFlow.create(book(), key=jax.random.key(0), **change)
