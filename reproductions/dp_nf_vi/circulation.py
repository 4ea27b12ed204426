"""Two parameters of the circulation, from what a clinic measures of hypertensive patients."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reproductions.dp_nf_vi import simulator
from reproductions.dp_nf_vi.data import KEPT, pressure

NAMES = ("r_ri", "c_a")
_CENTER, _HALF = np.array([0.05, 1.6]), np.array([0.03, 1.0])
"""Bounds of the parameters as the authors' code has them."""
_VARIANCES = (444.84, 145.60, 2.21, 45034.41, 475.59, 24.77, 84.06, 15.48)
"""Of the eight attributes, as printed; the authors read them from the patients."""
_PLACES = [KEPT.index(name) for name in simulator.EIGHT]


def parameters(theta: Any) -> Any:
    """The two parameters of a vector without bounds."""
    return _CENTER + jnp.tanh(3 / 7 * theta) * _HALF


def log_prior(theta: Any) -> Any:
    """Even on the scale of the parameters."""
    reach = 3 / 7 * jnp.abs(theta)
    return jnp.sum(-2 * reach - 2 * jnp.log1p(jnp.exp(-2 * reach)))  # log(1 - tanh^2), far out, too


def simulated(pair: Any) -> Any:
    """The eight attributes of a patient with these two parameters."""
    patient = simulator.Circulation(r_ri=pair[0], c_a=pair[1])
    return simulator.eight(simulator.simulate(patient, cycles=8, steps=300))


@lru_cache(maxsize=1)
def emulator() -> simulator.Emulator:
    """A network in the place of the simulator, as in the paper."""
    return simulator.emulate(simulated, _CENTER - _HALF, _CENTER + _HALF)


def log_likelihood(theta: Any, record: Any) -> Any:
    """Of one patient, by the emulator; cells that are missing, and healthy patients, say nothing."""
    return _of(emulator()(parameters(theta)), record)


def log_likelihood_by_simulation(theta: Any, record: Any) -> Any:
    """The same, through the differential equations.

    What they give does not depend on the record. So value, slope and curvature are taken once, forward
    and for all records, and a record sees their quadratic, which has the same derivatives here.
    """

    def outputs(at: Any) -> Any:
        return simulated(parameters(at))

    here = jax.lax.stop_gradient(theta)
    away = theta - here
    slope = jax.jacfwd(outputs)
    bend = jnp.einsum("oij,i,j->o", jax.jacfwd(slope)(here), away, away)
    return _of(outputs(here) + slope(here) @ away + 0.5 * bend, record)


def _of(expected: Any, record: Any) -> Any:
    values, counts = record
    missing = jnp.isnan(values)
    off = (jnp.where(missing, 0.0, values) - expected) ** 2 / jnp.asarray(_VARIANCES)
    return -0.5 * counts * jnp.sum(jnp.where(missing, 0.0, off))


def records(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The eight attributes of each patient, and 1 where the recorded pressures make hypertension."""
    hypertensive = np.nan_to_num(pressure(rows), nan=0.0) > 20.0
    return rows[:, _PLACES].astype(np.float32), hypertensive.astype(np.float32)
