"""A simulated hospital cohort: patients of CVSim-6, measured as the clinic of DP-NF-VI measures.

The original patients' data is not used. Names, units, errors of measurement, ranges and how often an
attribute is there are those that the paper prints in its Table 1; what stands in the cells comes from a
model of the circulation and from distributions of its parameters that were made up.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from reproductions.dp_nf_vi.simulator.cvsim6 import Circulation, simulate
from reproductions.dp_nf_vi.simulator.outputs import measured


class Attribute(NamedTuple):
    """One line of the paper's Table 1."""

    unit: str
    error: float
    """Standard deviation of a measurement."""
    observed: int
    """Of 84 patients, how many have it."""
    low: float
    high: float


PATIENTS = 84
MMHG, RESISTANCE = "mmHg", "dyn s / cm^5"
ATTRIBUTES = {
    "heart_rate2": Attribute("1 / min", 3.0, 81, 69, 105),
    "systolic_bp_2": Attribute(MMHG, 1.5, 81, 83, 180),
    "diastolic_bp_2": Attribute(MMHG, 1.5, 81, 49, 102),
    "cardiac_output": Attribute("L / min", 0.2, 65, 3.3, 10.9),
    "systemic_vascular_resistan": Attribute(RESISTANCE, 50, 64, 668.6, 2046.8),
    "pulmonary_vascular_resista": Attribute(RESISTANCE, 5, 50, 5.0, 245.8),
    "cvp": Attribute(MMHG, 0.5, 30, 2, 28),
    "right_ventricle_diastole": Attribute(MMHG, 1, 11, 2, 10),
    "right_ventricle_systole": Attribute(MMHG, 1, 46, 12, 45),
    "rvedp": Attribute(MMHG, 1, 46, 1, 20),
    "aov_mean_pg": Attribute(MMHG, 0.5, 2, 5, 10),
    "aov_peak_pg": Attribute(MMHG, 0.5, 37, 3, 18),
    "mv_decel_time": Attribute("ms", 6, 41, 88, 289),
    "mv_e_a_ratio": Attribute("1", 0.2, 39, 0.7, 20.9),
    "pv_at": Attribute("ms", 6, 18, 53, 190),
    "pv_max_pg": Attribute(MMHG, 0.5, 31, 1, 18),
    "ra_pressure": Attribute(MMHG, 0.5, 50, 3, 15),
    "ra_vol_a4c": Attribute("mL", 3, 4, 57, 173),
    "la_vol_a4c": Attribute("mL", 3, 7, 69, 179),
    "lv_esv": Attribute("mL", 10, 1, 32, 250),  # the paper has a single patient, of 32
    "lv_vol_a4c": Attribute("mL", 20, 5, 59, 642),
    "lvef": Attribute("%", 2, 53, 12.5, 75),
    "lvot_max_flow": Attribute("mL / s", 20, 0, 100, 3000),  # nobody has it there
    "pap_diastolic": Attribute(MMHG, 1, 65, 5, 36),
    "pap_systolic": Attribute(MMHG, 1, 65, 10, 60),
    "wedge_pressure": Attribute(MMHG, 1, 50, 2, 26),
}
"""The 26 attributes, in the paper's order."""

DROPPED = (
    "cvp",
    "aov_mean_pg",
    "ra_vol_a4c",
    "la_vol_a4c",
    "lv_esv",
    "lv_vol_a4c",
    "lvot_max_flow",
)
"""Those that the paper leaves out, because few patients have them."""
KEPT = tuple(name for name in ATTRIBUTES if name not in DROPPED)
"""The 19 that are left."""

_FACTORS = {
    "r_a": (0.85, 0.2),
    "r_pv": (0.1, 0.4),
    "r_ri": (0.05, 0.2),
    "r_lo": (0.007, 0.25),
    "r_ro": (0.004, 0.3),
    "c_l_sys": (0.42, 0.32),
    "c_l_dia": (9.5, 0.22),
    "c_r_sys": (1.2, 0.2),
    "c_a": (1.3, 0.2),
    "c_pa": (4.0, 0.2),
    "c_pv": (8.4, 0.15),
}
"""Median and deviation of the logarithm, of what varies between patients."""
_CHUNK = 512


def hospital(n: int = PATIENTS, *, seed: int | None = None, missing: bool = True) -> pd.DataFrame:
    """Simulated patients, a row each.

    Args:
        n: How many.
        seed: For the same patients again; None draws new ones.
        missing: Whether cells are missing as often as in the paper's table.

    Returns:
        A frame of the 26 attributes in the paper's units, missing cells NaN.
    """
    rng = np.random.default_rng(seed)
    found = _measured(_parameters(n, rng))
    names = list(ATTRIBUTES)
    values = np.stack([found[name] for name in names], axis=1)
    values += rng.standard_normal(values.shape) * [a.error for a in ATTRIBUTES.values()]
    low, high = (
        np.array([getattr(a, end) for a in ATTRIBUTES.values()]) for end in ("low", "high")
    )
    values = np.round(np.clip(values, low, high), 2)
    if missing:
        shares = np.array([a.observed for a in ATTRIBUTES.values()]) / PATIENTS
        values[rng.uniform(size=values.shape) >= shares] = np.nan
    return pd.DataFrame(values, columns=names)


def _parameters(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    drawn = {
        name: median * np.exp(spread * rng.standard_normal(n))
        for name, (median, spread) in _FACTORS.items()
    }
    drawn["heart_rate"] = np.clip(rng.normal(82, 8, n), 69, 105)
    drawn["v_total"] = np.clip(rng.normal(5250, 280, n), 4500, 6400)
    return drawn


def _measured(parameters: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The attributes of simulated patients, without errors of measurement."""
    run = _simulator()
    n = len(parameters["heart_rate"])
    parts = []
    for start in range(0, n, _CHUNK):
        chunk = {name: x[start : start + _CHUNK] for name, x in parameters.items()}
        room = [0, _CHUNK - len(chunk["heart_rate"])]
        padded = {name: jnp.float32(np.pad(x, room, mode="edge")) for name, x in chunk.items()}
        parts.append({name: np.asarray(x, np.float64) for name, x in run(padded).items()})
    found = {name: np.concatenate([part[name] for part in parts])[:n] for name in parts[0]}
    return {"heart_rate2": parameters["heart_rate"], **found}


@cache
def _simulator() -> Any:
    """From parameters of a chunk of patients to their attributes; compiled once."""
    return jax.jit(jax.vmap(lambda one: measured(simulate(Circulation(**one)))))
