"""How near private posteriors come to true ones that are bent, that have two modes, or are normal.

Three generated likelihoods of two parameters with standard normal priors; 10,000 records, epsilon 5.
The distance is the root of the mean over directions of the squared distance of quantiles (sliced
Wasserstein), each parameter in units of its own standard deviation, between 8,192 draws of the private
posterior and as many of the true one, which is summed on a grid. The seeds of the package's choices
were others (0 to 5).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import veilflow as vf
from benchmarks.records import Record, record

_BUDGET = vf.Budget(epsilon=5.0, delta=1e-6)
_DRAWS, _DIRECTIONS, _FIRST_SEED = 8192, 64, 100
VALUES = vf.Guide(kind="nsf", blocks=3, hidden=(32,), target="values")


@dataclass(frozen=True)
class Shape:
    """Normal observations y of a bent function of two parameters and of x, which is -1 or 1."""

    name: str
    mean: Callable[[Any, Any, Any, Any], Any]
    """mean(a, b, x, numpy), for NumPy or JAX."""
    truth: tuple[float, float]
    error: float

    def log_likelihood(self, theta: Any, record: Any) -> Any:
        """Of one record."""
        x, y = record
        return -0.5 * ((y - self.mean(theta[0], theta[1], x, jnp)) / self.error) ** 2

    def records(self, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Generated records."""
        rng = np.random.default_rng(seed)
        x = rng.choice([-1.0, 1.0], number)
        y = self.mean(*self.truth, x, np) + self.error * rng.standard_normal(number)
        return x.astype(np.float32), y.astype(np.float32)

    def draws(self, records: tuple[np.ndarray, np.ndarray], seed: int) -> np.ndarray:
        """Draws of the true posterior, from a grid of 801 x 801 cells."""
        grid = np.linspace(-5, 5, 801)
        a, b = np.meshgrid(grid, grid, indexing="ij")
        log_density = -0.5 * (a**2 + b**2)
        for x in (-1.0, 1.0):
            y = records[1][records[0] == x].astype(np.float64)
            mean = self.mean(a, b, x, np)
            log_density -= 0.5 * (len(y) * mean**2 - 2 * y.sum() * mean) / self.error**2
        weights = np.exp(log_density - log_density.max()).ravel()
        rng = np.random.default_rng(seed)
        chosen = rng.choice(weights.size, _DRAWS, p=weights / weights.sum())
        inside = (grid[1] - grid[0]) * rng.uniform(-0.5, 0.5, (_DRAWS, 2))
        return np.stack([a.ravel()[chosen], b.ravel()[chosen]], axis=1) + inside


SHAPES = (
    Shape("banana", lambda a, b, x, np: a * np.exp(b) + 0 * x, (1.0, 0.0), 30.0),
    Shape("two humps", lambda a, b, x, np: a**2 + 0.1 * a + b * x, (1.0, 0.3), 40.0),
    Shape("normal", lambda a, b, x, np: a + b * x, (0.5, -0.3), 30.0),
)


def distance(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The sliced Wasserstein distance in units of each parameter's true deviation."""
    rng, levels = np.random.default_rng(0), (np.arange(500) + 0.5) / 500
    directions = rng.standard_normal((_DIRECTIONS, theirs.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    sd = theirs.std(axis=0)
    quantiles = [np.quantile(x / sd @ directions.T, levels, axis=0) for x in (ours, theirs)]
    return float(np.mean((quantiles[0] - quantiles[1]) ** 2) ** 0.5)


def run(*, quick: bool = False) -> list[Record]:
    number, seeds = (2_000, 1) if quick else (10_000, 10)
    found = []
    for shape in SHAPES:
        distances = []
        for seed in range(_FIRST_SEED, _FIRST_SEED + seeds):
            records = shape.records(number, seed)
            true = shape.draws(records, seed)
            guides = (vf.Guide(kind="maf"), VALUES)
            fits = [_draws(shape, guide, records, seed) for guide in guides]
            distances.append([distance(fit, true) for fit in fits])
        quadratic, values = np.mean(distances, axis=0)
        error = np.std(np.diff(distances, axis=1)) / max(1, seeds - 1) ** 0.5
        # within noise: two standard errors of the mean difference
        must = quadratic + 2 * error if shape.name == "normal" else 0.5 * quadratic
        found += [
            record(f"{shape.name}: distance of the quadratic", quadratic, "SDs"),
            record(f"{shape.name}: distance with values", values, "SDs", must=must),
        ]
    return found


def _draws(shape: Shape, guide: vf.Guide, records: Any, seed: int) -> np.ndarray:
    estimator = vf.FlowPosterior(
        log_likelihood=shape.log_likelihood,
        log_prior=_log_prior,
        parameters=2,
        budget=_BUDGET,
        flow=guide,
        seed=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(records, progress=False).sample(_DRAWS, seed=seed)


def _log_prior(theta: Any) -> Any:
    return -0.5 * jnp.sum(theta**2)
