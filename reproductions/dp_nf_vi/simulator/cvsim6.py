"""CVSim-6: two ventricles and four vessels as a circuit, integrated by a scanned Runge-Kutta method.

State are volumes above the unstressed ones: what flows out of a compartment flows into the next, so
whatever the step, no blood is lost. Pressures follow from volumes and compliances, which in the
ventricles change over a beat. All numbers in mL, s and mmHg. Everything is differentiable, and one
patient: `jax.vmap` makes it a cohort.

References:
    Heldt, Mukkamala, Moody, Mark, "CVSim: an open-source cardiovascular simulator for teaching and
    research", 2010; Su et al., 2023, for the equations and defaults.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

CYCLES, STEPS = 10, 500
"""Beats, and steps of a beat: the fastest valve needs steps below 5 ms."""
SAVED = 100
"""Times of a beat that are kept."""
_SYSTOLE = 0.3
"""Systole takes this times the root of the beat, in seconds: about a third of a beat at rest."""


class Circulation(NamedTuple):
    """The parameters of one patient, or arrays of them; the defaults are a healthy adult.

    Resistances in mmHg s / mL, compliances in mL / mmHg, volumes in mL, pressures in mmHg.
    """

    heart_rate: Array | float = 72.0
    r_li: Array | float = 0.01
    """Into the left ventricle."""
    r_lo: Array | float = 0.006
    """Out of it."""
    r_a: Array | float = 1.0
    """Through the body."""
    r_ri: Array | float = 0.05
    r_ro: Array | float = 0.003
    r_pv: Array | float = 0.08
    """Through the lungs."""
    c_l_sys: Array | float = 0.4
    c_l_dia: Array | float = 10.0
    c_a: Array | float = 1.6
    c_v: Array | float = 100.0
    c_r_sys: Array | float = 1.2
    c_r_dia: Array | float = 20.0
    c_pa: Array | float = 4.3
    c_pv: Array | float = 8.4
    v0_l: Array | float = 15.0
    v0_a: Array | float = 715.0
    v0_v: Array | float = 2500.0
    v0_r: Array | float = 15.0
    v0_pa: Array | float = 90.0
    v0_pv: Array | float = 490.0
    v_total: Array | float = 5000.0
    p_th: Array | float = -4.0
    """In the chest, around heart and lungs."""


class History(NamedTuple):
    """The last beats of a simulation, a row for each time."""

    time: Float[Array, " times"]
    pressure: Float[Array, "times 6"]
    """Left ventricle, arteries, veins, right ventricle, pulmonary arteries, pulmonary veins."""
    flow: Float[Array, "times 6"]
    """Into and out of the left ventricle, through the body, into and out of the right ventricle,
    through the lungs."""
    volume: Float[Array, "times 6"]
    """Whole volumes, in the order of pressures."""


def simulate(
    patient: Circulation, *, cycles: int = CYCLES, steps: int = STEPS, kept: int = 2
) -> History:
    """The last `kept` of `cycles` beats of one patient.

    Args:
        patient: Its parameters.
        cycles: Beats to simulate; after about ten the start is forgotten.
        steps: Steps of a beat, a multiple of 100.
        kept: Beats at the end of which the history is returned.
    """
    patient = Circulation(*(jnp.asarray(value, jnp.float32) for value in patient))
    beat = 60.0 / patient.heart_rate
    step = beat / steps
    every = steps // SAVED

    def rate(volume: Array, part: Array) -> Array:
        return _rates(patient, volume, part * beat)

    def advance(volume: Array, index: Array) -> Array:
        part = index / steps
        half = 0.5 / steps
        k1 = rate(volume, part)
        k2 = rate(volume + 0.5 * step * k1, part + half)
        k3 = rate(volume + 0.5 * step * k2, part + half)
        k4 = rate(volume + step * k3, part + 2 * half)
        return volume + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def few_steps(volume: Array, first: Array) -> tuple[Array, tuple[Array, ...]]:
        part = first / steps
        seen = (volume, *_pressures_and_flows(patient, volume, part * beat))
        # a loop, not five copies: compiled once
        volume = jax.lax.fori_loop(0, every, lambda i, v: advance(v, first + i), volume)
        return volume, seen

    def one_beat(volume: Array, _: Array) -> tuple[Array, tuple[Array, ...]]:
        return jax.lax.scan(few_steps, volume, jnp.arange(SAVED) * every)

    warm, last = cycles - kept, jnp.zeros(kept)
    start = steady_volumes(patient)
    start = jax.lax.scan(lambda v, i: (one_beat(v, i)[0], None), start, jnp.zeros(warm))[0]
    volume, pressure, flow = jax.lax.scan(one_beat, start, last)[1]
    times = (jnp.arange(kept * SAVED) / SAVED) * beat
    unstressed = _unstressed(patient)
    flat = [x.reshape(kept * SAVED, 6) for x in (pressure, flow, volume)]
    return History(times, flat[0], flat[1], flat[2] + unstressed[None])


def steady_volumes(patient: Circulation) -> Float[Array, "6"]:
    """Volumes above the unstressed ones at the end of diastole, if every flow were steady.

    A linear system: each stroke of the left ventricle equals one of the right, and what passes
    everywhere else in a beat, and all volumes sum to the patient's.
    """
    p = patient
    total = 60.0 / p.heart_rate
    systole = _SYSTOLE * jnp.sqrt(total)
    diastole = total - systole
    zero = jnp.zeros(())
    # unknown: P_l dia, P_l sys, P_a, P_v, P_r dia, P_r sys, P_pa, P_pv
    left = jnp.stack([p.c_l_dia, -p.c_l_sys, zero, zero, zero, zero, zero, zero])
    left_at_rest = (p.c_l_dia - p.c_l_sys) * p.p_th

    def through(first: int, second: int, conductance: Any) -> tuple[Array, Any]:
        row = jnp.zeros(8).at[first].set(conductance).at[second].set(-conductance)
        return left - row, left_at_rest

    right = jnp.stack([zero, zero, zero, zero, p.c_r_dia, -p.c_r_sys, zero, zero])
    equations = [
        (left - right, left_at_rest - (p.c_r_dia - p.c_r_sys) * p.p_th),
        through(1, 2, systole / p.r_lo),
        through(2, 3, total / p.r_a),
        through(3, 4, diastole / p.r_ri),
        through(5, 6, systole / p.r_ro),
        through(6, 7, total / p.r_pv),
        through(7, 0, diastole / p.r_li),
    ]
    filled = jnp.stack([p.c_l_dia, zero, p.c_a, p.c_v, p.c_r_dia, zero, p.c_pa, p.c_pv])
    outside = (p.c_l_dia + p.c_a / 3 + p.c_r_dia + p.c_pa + p.c_pv) * p.p_th
    stressed = p.v_total - jnp.sum(_unstressed(p))
    matrix = jnp.stack([*(row for row, _ in equations), filled])
    right_side = jnp.stack([*(value for _, value in equations), stressed + outside])
    scale = jnp.abs(matrix).max(axis=1)
    found = jnp.linalg.solve(matrix / scale[:, None], right_side / scale)
    pressure = found[jnp.array([0, 2, 3, 4, 6, 7])]
    compliance = jnp.stack([p.c_l_dia, p.c_a, p.c_v, p.c_r_dia, p.c_pa, p.c_pv])
    return compliance * (pressure - _around(p))


def elastance(patient: Circulation, time: Array) -> tuple[Array, Array]:
    """Pressure over volume of the left and the right ventricle, at a time within a beat."""
    systole = _SYSTOLE * jnp.sqrt(60.0 / patient.heart_rate)
    rising = 0.5 * (1 - jnp.cos(jnp.pi * time / systole))
    falling = 0.5 * (1 + jnp.cos(2 * jnp.pi * (time - systole) / systole))
    active = jnp.where(time <= systole, rising, jnp.where(time <= 1.5 * systole, falling, 0.0))
    p = patient
    left = 1 / p.c_l_dia + (1 / p.c_l_sys - 1 / p.c_l_dia) * active
    return left, 1 / p.c_r_dia + (1 / p.c_r_sys - 1 / p.c_r_dia) * active


def _pressures_and_flows(p: Circulation, volume: Array, time: Array) -> tuple[Array, Array]:
    left, right = elastance(p, time)
    stiffness = jnp.stack([left, 1 / p.c_a, 1 / p.c_v, right, 1 / p.c_pa, 1 / p.c_pv])
    pressure = volume * stiffness + _around(p)
    lv, a, v, rv, pa, pv = pressure
    flow = jnp.stack(
        [
            jax.nn.relu(pv - lv) / p.r_li,  # valves let blood pass one way
            jax.nn.relu(lv - a) / p.r_lo,
            (a - v) / p.r_a,
            jax.nn.relu(v - rv) / p.r_ri,
            jax.nn.relu(rv - pa) / p.r_ro,
            (pa - pv) / p.r_pv,
        ]
    )
    return pressure, flow


def _rates(p: Circulation, volume: Array, time: Array) -> Float[Array, "6"]:
    li, lo, a, ri, ro, pv = _pressures_and_flows(p, volume, time)[1]
    return jnp.stack([li - lo, lo - a, a - ri, ri - ro, ro - pv, pv - li])


def _around(p: Circulation) -> Float[Array, "6"]:
    """The pressure outside each compartment; a third of the arteries lies in the chest."""
    return jnp.stack([p.p_th, p.p_th / 3, jnp.zeros(()), p.p_th, p.p_th, p.p_th])


def _unstressed(p: Circulation) -> Float[Array, "6"]:
    return jnp.stack([p.v0_l, p.v0_a, p.v0_v, p.v0_r, p.v0_pa, p.v0_pv])
