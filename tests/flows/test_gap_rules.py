"""Rules on missing cells: what follows from them, and a flow that cannot break them."""

from dataclasses import replace
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import quick
from tests.flows.test_code_flow import (
    CASES,
    NUM_DRAWS,
    ROWS,
    SIZES,
    draw,
    everything,
    flow_of,
    log_prob_of_rows,
)
from veilflow.flows.code_flow import FREE
from veilflow.flows.gap_rules import Gap, GapRule, consequences, hold, made_to_hold
from veilflow.nn.frozen import trainable_part

TOGETHER = (GapRule(Gap(1), Gap(3)), GapRule(Gap(3), Gap(1)))
CHAIN = (GapRule(Gap(0), Gap(1)), GapRule(Gap(1), Gap(3)))
APART = (GapRule(Gap(0), Gap(1, missing=False)), GapRule(Gap(2, missing=False), Gap(3)))
RULES = {"together": TOGETHER, "a chain": CHAIN, "apart": APART}
MISSING = np.array(SIZES) - 1 == ROWS

every = pytest.mark.parametrize("case", CASES)
each_set = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


@every
@each_set
def test_shares_of_the_rows_that_keep_the_rules_add_up_to_one(case, rules):
    flow = replace(flow_of(case), rules=rules)
    log_probs = np.float64(log_prob_of_rows(flow, np.ones(4, np.float32)))
    kept = hold(rules, MISSING)
    assert 0 < kept.sum() < len(kept)
    np.testing.assert_allclose(np.exp(log_probs[kept]).sum(), 1, rtol=1e-5)
    assert (log_probs[~kept] < -1e4).all()


@every
@each_set
def test_rows_are_drawn_as_often_as_their_share_says(case, rules):
    flow = replace(flow_of(case), rules=rules)
    rows, log_weights = draw(
        flow, jax.random.key(5), jnp.full(4, FREE), everything(flow), NUM_DRAWS
    )
    np.testing.assert_allclose(log_weights, 0, atol=1e-5)
    assert hold(rules, np.asarray(rows) == np.array(SIZES) - 1).all()
    found = np.bincount(np.ravel_multi_index(tuple(np.asarray(rows).T), SIZES), minlength=len(ROWS))
    expected = NUM_DRAWS * np.exp(np.float64(log_prob_of_rows(flow, np.ones(4, np.float32))))
    common = expected > 5
    chi2 = np.sum((found - expected)[common] ** 2 / expected[common])
    assert chi2 < common.sum() + 6 * np.sqrt(2 * common.sum())


@every
def test_weights_of_given_codes_average_to_their_probability(case):
    flow = replace(flow_of(case), rules=CHAIN)
    probability = np.exp(np.float64(log_prob_of_rows(flow, np.ones(4, np.float32))))
    for asked in ([FREE, 4, FREE, FREE], [FREE, 0, 1, FREE], [FREE, FREE, FREE, 3]):
        fixed = [j for j, code in enumerate(asked) if code != FREE]
        matching = (ROWS[:, fixed] == np.array(asked)[fixed]).all(axis=1)
        _, log_weights = draw(
            flow, jax.random.key(3), jnp.array(asked), everything(flow), NUM_DRAWS
        )
        weights = np.exp(np.float64(log_weights))
        error = weights.std() / np.sqrt(len(weights))
        assert abs(weights.mean() - probability[matching].sum()) <= 5 * error + 1e-5


@each_set
def test_no_row_makes_a_gradient_infinite(rules):
    flow = replace(flow_of("two, mixed"), rules=rules)
    trained, rest = trainable_part(flow)
    of_one = jax.grad(lambda t, row: eqx.combine(t, rest).log_prob(row))
    gradients = quick.jit(jax.vmap(of_one, in_axes=(None, 0)))(trained, ROWS)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_no_rules_are_no_change():
    flow = flow_of("two, mixed")
    same = replace(flow, rules=())
    program = [str(jax.make_jaxpr(one.log_prob)(jnp.zeros(4, int))) for one in (flow, same)]
    assert program[0] == program[1]
    assert "30000" not in program[0]


@given(
    pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8),
    order=st.permutations(range(5)),
)
def test_column_by_column_every_row_there_is_can_be_reached_and_no_other(pairs, order):
    """What columns so far require leaves just the ways on that end in a row that keeps the rules."""
    rules = [GapRule(Gap(a), Gap(b)) for a, b in pairs]
    required = consequences(rules, order=order)
    rows = np.array(list(product([False, True], repeat=5)))
    kept = {tuple(row) for row in rows[hold(rules, rows)]}
    for row in rows:
        done: list[int] = []
        for k in order:
            musts = {(state) for j in done for state in np.flatnonzero(required[j, int(row[j]), k])}
            possible = {other[k] for other in kept if all(other[j] == row[j] for j in done)}
            assert len(musts) < 2
            assert possible == ({bool(next(iter(musts)))} if musts else {False, True})
            if row[k] not in possible:
                break
            done.append(k)


def test_rules_that_leave_no_choice_are_refused():
    rules = (GapRule(Gap(0), Gap(1)), GapRule(Gap(1), Gap(0, missing=False)))
    with pytest.raises(ValueError, match="contradict each other"):
        consequences(rules, order=(0, 1, 2))


@every
@each_set
def test_rows_are_made_to_follow_the_first_column(case, rules):
    order = CASES[case][1]
    made = made_to_hold(
        ROWS, rules, sizes=SIZES, order=order, present=lambda j, num: np.zeros(num, int)
    )
    missing = made == np.array(SIZES) - 1
    assert hold(rules, missing).all()
    kept = hold(rules, MISSING)
    np.testing.assert_array_equal(made[kept], ROWS[kept])
    np.testing.assert_array_equal(made[:, order[0]], ROWS[:, order[0]])
    changed = made != ROWS
    assert ((made[changed] == 0) | missing[changed]).all()
