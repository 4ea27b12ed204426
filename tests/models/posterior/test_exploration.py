"""Questions and draws follow from released numbers, whatever these are."""

import jax.numpy as jnp
import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow.models.posterior.exploration import Explored, num_points
from veilflow.releases.rounds.surrogate import Surrogate
from veilflow.releases.rounds.values import Values

DIM = 2
RNG = np.random.default_rng(0)


def log_prior(theta):
    return -0.5 * jnp.sum(theta**2)


def explored(*values):
    precision = 4.0 * np.eye(DIM)
    surrogate = Surrogate(
        mean=np.zeros(DIM),
        gradient=np.zeros(DIM),
        precision=precision,
        noise=0.1 * precision,
        num_records=1_000.0,
        length=1.0,
    )
    settings = {"surrogate": surrogate, "log_prior": log_prior, "values": values}
    return Explored(start=np.zeros(DIM), scale=np.ones(DIM), secret=Secret.from_seed(1), **settings)


def quadratic(points):
    return -2.0 * (points**2).sum(axis=1)


ANSWERS = {
    "without noise": lambda points: (quadratic(points), np.zeros(len(points))),
    "only noise": lambda points: (
        1e8 * RNG.standard_normal(len(points)),
        np.full(len(points), 1e8),
    ),
    "nothing": lambda points: (np.zeros(len(points)), np.ones(len(points))),
    "wild": lambda points: (1e12 * RNG.standard_normal(len(points)), np.full(len(points), 1e-6)),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_every_answer_leads_to_a_question_and_to_draws(answer):
    asked = explored().next_question()
    assert asked["points"].shape == (num_points(DIM)[0], DIM)
    values, deviations = answer(asked["points"])
    after = explored(Values(asked["points"], values, deviations, significant=True))
    again = after.next_question()
    assert again["points"].shape == (num_points(DIM)[1], DIM)
    for question in (asked, again):
        assert np.isfinite(question["points"]).all()
        assert np.isfinite(question["limit"])
        assert (question["weights"] > 0).all()
    np.testing.assert_array_equal(
        after.next_question()["points"], again["points"]
    )  # by a resumed fit
    draws = after.draws()
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() < 25.0  # the reach is 25 deviations of .45


def test_a_round_of_noise_is_left_out():
    asked = explored().next_question()
    values, deviations = ANSWERS["only noise"](asked["points"])
    after = explored(Values(asked["points"], values, deviations, significant=False))
    assert after.informative == []
    assert after.next_question()["points"].shape == (num_points(DIM)[1], DIM)
