"""The simulated regression of the paper, its reference posterior, and the simulated cohort."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reproductions.dp_nf_vi.simulator import ATTRIBUTES, KEPT, hospital

NUM_RECORDS, REPEATS = 6_000, 5
BETA = (0.2, 1.0, 0.8, -1.2, 0.6)
NAMES = tuple(f"beta{i}" for i in range(5))
_TOPS = (1.0, 3.0, 0.5, 2.0)
_SD = 0.2
BOUNDS = ([0.0] * 4 + [-1.0] * 5, [*_TOPS, *[6.0] * 5])
"""Declared bounds of (w, x): what the model can produce, with a margin."""
MEAN_BOUNDS = tuple(ends[:5] for ends in BOUNDS)
"""Bounds of w and the mean of x."""
_HMC = {"draws": 20_000, "warm": 500, "step": 0.35, "leaps": 5}

TITLES = {
    "regression": "simulated regression",
    "cohort64": "cohort of 64",
    "cohort5000": "cohort of 5,000",
}


@dataclass(frozen=True)
class Posterior:
    """The moments of a posterior."""

    mean: np.ndarray
    sd: np.ndarray
    correlation: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> "Posterior":
        """The moments of draws."""
        return cls(draws.mean(axis=0), draws.std(axis=0), np.corrcoef(draws.T))

    @classmethod
    def of_moments(cls, mean: np.ndarray, covariance: np.ndarray) -> "Posterior":
        """From a mean and a covariance."""
        sd = np.sqrt(np.diag(covariance))
        return cls(mean, sd, covariance / np.outer(sd, sd))

    def normal_draws(self, number: int, *, seed: int) -> np.ndarray:
        """Draws of a normal of these moments."""
        covariance = self.correlation * np.outer(self.sd, self.sd)
        return np.random.default_rng(seed).multivariate_normal(self.mean, covariance, size=number)

    def told(self) -> dict[str, Any]:
        """As plain JSON."""
        return {name: np.nan_to_num(value).tolist() for name, value in vars(self).items()}


def predictor(w: Any, beta: Any) -> Any:
    """The function of the authors' code; the paper prints another one."""
    known = beta[0] + jnp.exp(beta[1] * w[0]) + jnp.log(w[1] + jnp.exp(beta[2]))
    return known + beta[3] * jnp.exp(w[2]) + jnp.log(w[3] + jnp.exp(beta[4]))


def log_likelihood(beta: Any, record: Any) -> Any:
    """Of one subject: five measures with a common error and one of their own each."""
    w, x = record
    off = x - predictor(w, beta)
    common = jnp.sum(off) ** 2 / (1 + REPEATS)
    return -0.5 * (jnp.sum(off**2) - common) / _SD**2


@lru_cache(maxsize=1)
def regression() -> tuple[np.ndarray, np.ndarray]:
    """The records, always the same."""
    rng = np.random.default_rng(20_230)
    w = rng.uniform(size=(NUM_RECORDS, 4)) * _TOPS
    mean = np.asarray(jax.vmap(predictor, (0, None))(jnp.asarray(w), jnp.asarray(BETA)))
    shared = rng.standard_normal((NUM_RECORDS, 1))
    x = mean[:, None] + _SD * (shared + rng.standard_normal((NUM_RECORDS, REPEATS)))
    return w.astype(np.float32), x.astype(np.float32)


def with_means(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Rows of w and the mean of x: by the declared model, all that x says of beta."""
    return np.concatenate([w, x.mean(axis=1, keepdims=True)], axis=1)


def with_measures(rows: np.ndarray, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Subjects of such rows: measures around their mean, by the declared error."""
    errors = _SD * np.random.default_rng(seed).standard_normal((len(rows), REPEATS))
    x = rows[:, 4:] + errors - errors.mean(axis=1, keepdims=True)
    return rows[:, :4].astype(np.float32), x.astype(np.float32)


@lru_cache(maxsize=1)
def reference_draws() -> np.ndarray:
    """Draws of the posterior by a long Hamiltonian chain, started at its mode."""
    w, x = regression()

    def total(beta: Any) -> Any:
        return jnp.sum(jax.vmap(lambda *record: log_likelihood(beta, record))(w, x))

    slope, bend = jax.jit(jax.grad(total)), jax.jit(jax.hessian(total))
    beta = jnp.asarray(BETA)
    for _ in range(8):
        beta = beta - jnp.linalg.solve(bend(beta), slope(beta))
    curvature = -np.asarray(bend(beta), np.float64)
    factor = jnp.asarray(np.linalg.cholesky(np.linalg.inv(curvature)))
    factor, top = factor.astype(jnp.float32), total(beta)

    def log_density(u: Any) -> Any:
        return total(beta + factor @ u) - top

    chain = jax.jit(_hmc, static_argnums=0)(log_density, jax.random.key(1))
    u = np.asarray(chain, np.float64)[_HMC["warm"] :]
    return np.asarray(beta, np.float64) + u @ np.asarray(factor, np.float64).T


def _hmc(log_density: Any, key: Any) -> Any:
    step, leaps = _HMC["step"], _HMC["leaps"]
    slope = jax.grad(log_density)

    def one(u: Any, key: Any) -> Any:
        push_key, accept_key = jax.random.split(key)
        push = jax.random.normal(push_key, (len(BETA),))
        new, momentum = u, push + 0.5 * step * slope(u)
        for leap in range(leaps):
            new = new + step * momentum
            momentum = momentum + (step if leap < leaps - 1 else 0.5 * step) * slope(new)
        energy = log_density(new) - log_density(u) + 0.5 * (push @ push - momentum @ momentum)
        new = jnp.where(jnp.log(jax.random.uniform(accept_key)) < energy, new, u)
        return new, new

    return jax.lax.scan(one, jnp.zeros(len(BETA)), jax.random.split(key, _HMC["draws"]))[1]


PRESSURES = (KEPT.index("pap_diastolic"), KEPT.index("pap_systolic"))
TEST_PATIENTS = 400
_COHORT_SEED = {"cohort64": 64, "cohort5000": 5_000}


def cohort_bounds() -> tuple[np.ndarray, np.ndarray]:
    """The ranges of the 19 attributes, as the paper prints them."""
    kept = [ATTRIBUTES[name] for name in KEPT]
    return np.array([a.low for a in kept]), np.array([a.high for a in kept])


@lru_cache(maxsize=2)
def cohort(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Training patients with gaps, and test patients without."""
    number = _COHORT_SEED[name]
    train = hospital(number, seed=number)[[*KEPT]].to_numpy()
    test = hospital(TEST_PATIENTS, seed=number + 1, missing=False)
    return train, test[[*KEPT]].to_numpy()


def pressure(rows: np.ndarray) -> np.ndarray:
    """The mean pulmonary arterial pressure of patients, by the paper's rule."""
    return 2 / 3 * rows[:, PRESSURES[0]] + 1 / 3 * rows[:, PRESSURES[1]]
