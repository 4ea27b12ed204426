"""What a clinic measures, read from the last beats of a simulation."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from reproductions.dp_nf_vi.simulator.cvsim6 import SAVED, History

DYNE = 1333.22
"""dyn / cm^2 in a mmHg: resistances are told in dyn s / cm^5."""

EIGHT = (
    "systolic_bp_2",
    "diastolic_bp_2",
    "cardiac_output",
    "systemic_vascular_resistan",
    "lvef",
    "pap_diastolic",
    "pap_systolic",
    "wedge_pressure",
)
"""What the paper infers parameters from, with the names of its table."""


def measured(history: History, *, chest: Array | float = -4.0) -> dict[str, Array]:
    """The attributes of the paper's table that follow from a simulation, but for heart rate.

    CVSim-6 has no atria: their volumes are taken from the veins that fill them, and the late wave of
    the mitral valve from what still flows late in diastole. Its valves have no inertia: the time in
    which blood gathers speed is taken from the pressure in the pulmonary arteries.

    Args:
        history: The history of one patient.
        chest: Pressure in the chest, against which filling pressures of the right heart are told.
    """
    lv, artery, vein, rv, pulmonary, lung = history.pressure.T
    into, out, body, filling, _, _ = history.flow.T
    volume = history.volume[:, 0]
    # in a steady beat what the heart puts out passes the body, and flows there without jumps
    output = jnp.mean(body)
    stroke = jnp.max(volume) - jnp.min(volume)
    gap, gap_right = jnp.maximum(lv - artery, 0.0), jnp.maximum(rv - pulmonary, 0.0)
    step = history.time[1] - history.time[0]
    beat = slice(-SAVED, None)
    top, opened = jnp.max(into[beat]), filling > 0
    systemic = (jnp.mean(artery) - jnp.mean(vein)) / jnp.maximum(output, 1e-3)
    through_lungs = (jnp.mean(pulmonary) - jnp.mean(lung)) / jnp.maximum(output, 1e-3)
    return {
        "systolic_bp_2": jnp.max(artery),
        "diastolic_bp_2": jnp.min(artery),
        "cardiac_output": output * 60 / 1000,
        "systemic_vascular_resistan": systemic * DYNE,
        "pulmonary_vascular_resista": through_lungs * DYNE,
        "cvp": jnp.mean(vein),
        "right_ventricle_diastole": jnp.min(rv) - chest,
        "right_ventricle_systole": jnp.max(rv),
        "rvedp": rv[-SAVED] - chest,
        "aov_mean_pg": jnp.sum(gap) / jnp.maximum(jnp.sum(gap > 0), 1),
        "aov_peak_pg": jnp.max(gap),
        "mv_decel_time": 1000 * _falling(into[beat], step),
        "mv_e_a_ratio": top / jnp.maximum(into[-SAVED // 3], 0.05 * top),
        "pv_at": 1000 * _rising(pulmonary[beat], step),
        "pv_max_pg": jnp.max(gap_right),
        "ra_pressure": jnp.sum(rv * opened) / jnp.maximum(jnp.sum(opened), 1) - chest,
        "ra_vol_a4c": 0.04 * jnp.mean(history.volume[:, 2]) - 40.0,
        "la_vol_a4c": 0.2 * jnp.mean(history.volume[:, 5]),
        "lv_esv": jnp.min(volume),
        "lv_vol_a4c": jnp.max(volume),
        "lvef": 100 * stroke / jnp.max(volume),
        "lvot_max_flow": jnp.max(out),
        "pap_diastolic": jnp.min(pulmonary),
        "pap_systolic": jnp.max(pulmonary),
        "wedge_pressure": jnp.mean(lung),
    }


def eight(history: History) -> Float[Array, "8"]:
    """The eight attributes that parameters are inferred from."""
    found = measured(history)
    return jnp.stack([found[name] for name in EIGHT])


def _falling(wave: Array, step: Array) -> Array:
    """Seconds from the top of a wave until it has fallen to a tenth."""
    top = jnp.argmax(wave)
    after = jnp.arange(len(wave)) >= top
    high = after & (wave > 0.1 * wave[top])
    return jnp.sum(jnp.cumprod(jnp.where(after, high, True)) * after) * step


def _rising(wave: Array, step: Array) -> Array:
    """Seconds from the foot of a wave to its top; a beat begins close to the foot."""
    top = jnp.argmax(wave)
    before = jnp.where(jnp.arange(len(wave)) <= top, wave, jnp.inf)
    return (top - jnp.argmin(before)) * step
