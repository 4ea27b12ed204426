"""The circulation: no blood is lost, beats look like a healthy adult's, and gradients are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reproductions.dp_nf_vi.simulator import EIGHT, Circulation, eight, emulate, measured, simulate

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


@pytest.fixture(scope="module")
def history():
    return jax.jit(simulate)(Circulation())


def test_no_blood_is_lost(history):
    np.testing.assert_allclose(history.volume.sum(axis=1), 5000.0, rtol=2e-6)


def test_both_ventricles_put_out_the_same_and_it_passes_the_body_and_the_lungs(history):
    volume = np.asarray(history.volume)
    left, right = (np.ptp(volume[:, place]) for place in (0, 3))
    assert left == pytest.approx(right, rel=0.02)
    body, lungs = np.asarray(history.flow)[:, [2, 5]].mean(axis=0)
    assert body == pytest.approx(lungs, rel=0.005)
    # what one beat brings in, it puts out
    np.testing.assert_allclose(volume[:100], volume[100:], rtol=5e-3)


def test_the_defaults_are_a_healthy_adult(history):
    found = {name: float(value) for name, value in measured(history).items()}
    ranges = {
        "systolic_bp_2": (100, 130),
        "diastolic_bp_2": (65, 85),
        "cardiac_output": (4.5, 6.0),
        "lvef": (50, 70),
        "pap_systolic": (18, 28),
        "pap_diastolic": (8, 14),
        "wedge_pressure": (6, 12),
        "cvp": (2, 8),
        "systemic_vascular_resistan": (900, 1500),
    }
    out = {
        name: found[name] for name, (low, high) in ranges.items() if not low < found[name] < high
    }
    assert out == {}


def test_steps_are_small_enough():
    coarse, fine = (
        np.asarray(jax.jit(lambda s=steps: eight(simulate(Circulation(), steps=s)))())
        for steps in (500, 1000)
    )
    np.testing.assert_allclose(coarse, fine, rtol=2e-3)


def test_the_gradient_is_that_of_finite_differences():
    @jax.jit
    def of(pair):
        return eight(simulate(Circulation(r_ri=pair[0], c_a=pair[1])))

    here = jnp.array([0.05, 1.6])
    slopes = np.asarray(jax.jit(jax.jacfwd(of))(here))
    for place, step in ((0, 0.003), (1, 0.1)):
        move = jnp.zeros(2).at[place].set(step)
        rise = (np.asarray(of(here + move)) - np.asarray(of(here - move))) / (2 * step)
        np.testing.assert_allclose(
            slopes[:, place], rise, rtol=0.05, atol=0.02 * np.ptp(rise) + 0.1
        )
    # resistance of the body is no matter of these two
    np.testing.assert_allclose(slopes[EIGHT.index("systemic_vascular_resistan")], 0.0, atol=0.5)


def test_a_network_stands_in_for_a_simulator():
    def simulator(pair):
        return jnp.stack([pair[0] * 100, jnp.sin(pair[1]), jnp.float32(3.0)])

    network = emulate(simulator, np.array([0.0, 0.0]), np.array([1.0, 2.0]), points=64, steps=1500)
    for pair in (jnp.array([0.3, 0.5]), jnp.array([0.8, 1.6])):
        np.testing.assert_allclose(network(pair), simulator(pair), rtol=0.05, atol=0.05)
