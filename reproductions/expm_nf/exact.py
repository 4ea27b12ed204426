"""A problem of two parameters, where a grid knows the target: what exact samplers and flows draw.

Logistic regression on one generated feature. For rejection epsilon times records is 12: that regime is
the one in which the exponential mechanism can be drawn from exactly, whatever the model.
"""

import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

import veilflow as vf
from reproductions.expm_nf.diagnostics import diagnose
from reproductions.expm_nf.fits import auc
from veilflow.engine import Optimizer, Secret
from veilflow.privacy.guarantees import Sensitive

RECORDS, FRESH, SCALE = 300, 4_000, 3.0
DRAWS, REJECTED, _JUDGED = 50_000, 5_000, 1_000
_PER_AXIS = 401
_CELLS = 40
"""Of equal shares of the grid's marginal, for total variation; for the test of fit, a fifth of them."""
SAMPLERS = {
    "planar": vf.expm.FlowSampler(
        flow="planar", blocks=16, steps=3_000, optimizer=Optimizer(learning_rate=0.05)
    ),
    "sylvester": vf.expm.FlowSampler(
        flow="sylvester", blocks=4, rank=2, steps=1_500, optimizer=Optimizer(learning_rate=0.05)
    ),
    "realnvp": vf.expm.FlowSampler(
        flow="realnvp",
        blocks=3,
        hidden=(16,),
        steps=1_000,
        optimizer=Optimizer(learning_rate=0.02),
    ),
    "spline": vf.expm.FlowSampler(
        flow="spline",
        blocks=3,
        hidden=(16,),
        steps=1_000,
        optimizer=Optimizer(learning_rate=0.02),
    ),
    "narrow": vf.expm.FlowSampler(
        flow="sylvester",
        blocks=3,
        rank=2,
        base_scale=0.01,
        steps=250,
        samples=16,
        optimizer=Optimizer(name="rmsprop", learning_rate=5e-3, schedule="constant"),
    ),
}
"""The last as the paper's search spaces have it: badly trained, by intent."""


@dataclass(frozen=True)
class Grid:
    """The target as shares of the points of a grid."""

    points: Float[np.ndarray, "points 2"]
    shares: Float[np.ndarray, " points"]
    log_z: float

    def distances(self, thetas: Float[np.ndarray, "draws 2"]) -> list[float]:
        """Total variation of each marginal, in cells that are equally likely."""
        found = []
        for axis in range(2):
            counts, expected = self._cells(thetas[:, axis], axis, _CELLS)
            found.append(float(0.5 * np.abs(counts / counts.sum() - expected).sum()))
        return found

    def p_value(self, thetas: Float[np.ndarray, "draws 2"]) -> float:
        """Of a chi-squared test of both marginals, the smaller one times two."""
        from scipy.stats import chisquare

        values = []
        for axis in range(2):
            counts, expected = self._cells(thetas[:, axis], axis, _CELLS // 5)
            values.append(float(chisquare(counts, expected * counts.sum()).pvalue))
        return min(1.0, 2 * min(values))

    def draw(self, num: int, *, seed: int) -> Float[np.ndarray, "draws 2"]:
        """Draws: a cell each, and a place in it."""
        rng = np.random.default_rng(seed)
        step = 10 * SCALE / (_PER_AXIS - 1)
        inside = rng.uniform(-step / 2, step / 2, (num, 2))
        return self.points[rng.choice(len(self.points), num, p=self.shares)] + inside

    def _cells(self, values: np.ndarray, axis: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
        """Counts of draws in cells of the marginal, and the shares these cells have."""
        side, places = np.unique(self.points[:, axis], return_inverse=True)
        marginal = np.bincount(places, weights=self.shares)
        # borders between two points of the grid, the nearest to equal shares
        ends = np.searchsorted(np.cumsum(marginal), np.arange(1, cells) / cells)
        ends = np.unique(np.minimum(ends, len(side) - 2))
        borders = (side[ends] + side[ends + 1]) / 2
        expected = np.add.reduceat(marginal, [0, *(ends + 1)])
        counts = np.bincount(np.searchsorted(borders, values), minlength=len(expected))
        return counts, expected


def records(num: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One feature in [-1, 1], and labels."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (num, 1)).astype(np.float32)
    return rows, (rng.random(num) < 1 / (1 + np.exp(1 - 3 * rows[:, 0]))).astype(np.int32)


def target(epsilon: float) -> Any:
    """Logistic regression with the squared loss."""
    return vf.expm.Target(
        network=vf.expm.Logistic(num_features=1),
        loss=vf.expm.BoundedLoss("l2"),
        prior=vf.GaussianPrior(SCALE),
        epsilon=epsilon,
    )


def grid_of(epsilon: float, data: tuple[np.ndarray, np.ndarray]) -> Grid:
    """The target by sums over an even grid, five deviations of the prior wide."""
    side = np.linspace(-5 * SCALE, 5 * SCALE, _PER_AXIS)
    points = np.stack([axis.ravel() for axis in np.meshgrid(side, side, indexing="ij")], axis=1)
    losses = target(epsilon).losses(points, data)
    logs = -epsilon * losses - np.square(points).sum(axis=1) / (2 * SCALE**2)
    weights = np.exp(logs - logs.max())
    cell = (side[1] - side[0]) ** 2 / (2 * np.pi * SCALE**2)
    return Grid(points, weights / weights.sum(), float(np.log(weights.sum() * cell) + logs.max()))


def perform(method: str, *, epsilon: float, shift: int = 0) -> dict[str, Any]:
    """Draws of a sampler beside the grid; `shift` is added to the seeds of all draws."""
    data, started = records(RECORDS, seed=1), time.perf_counter()
    grid, aim = grid_of(epsilon, data), target(epsilon)
    result: dict[str, Any] = {}
    if method == "grid":
        thetas, event, assumption = grid.draw(REJECTED, seed=2 + shift), vf.expm.GridSampler(), None
    elif method == "rejection":
        event = vf.expm.RejectionSampler(num_records=RECORDS)
        sensitive, assumption = Sensitive(data), None
        secret = Secret.fresh()
        thetas = np.array(
            [event.draw(aim, sensitive, secret=secret).value for _ in range(REJECTED)]
        )
        result["p_value"] = grid.p_value(thetas)
    else:
        event = SAMPLERS[method]
        assumption = event.assumption
        flow = event.fit(aim, Sensitive(data), secret=Secret.from_seed(1 + shift))
        keys = jax.random.split(jax.random.key(2 + shift), DRAWS)
        thetas = np.asarray(jax.jit(jax.vmap(flow.open().sample))(keys), np.float64)
        found = diagnose(
            flow.open(),
            aim,
            data,
            secret=Secret.from_seed(3 + shift),
            log_z=grid.log_z,
            exact=grid.draw(2_000, seed=4 + shift),
        )
        weights = found.diagnosis.importance
        result["objections"] = len(found.objections)
        result["estimate"] = weights.total_variation
        result["effective_share"] = weights.effective_share
        result["pareto_k"] = weights.pareto_k
        result["divergence"] = found.gap
    result["distance"] = max(grid.distances(np.asarray(thetas)))
    fresh, labels = records(FRESH, seed=5)
    scores = 1 / (1 + np.exp(-(thetas[:_JUDGED, :1] * fresh[:, 0] + thetas[:_JUDGED, 1:])))
    aucs = [auc(labels, each) for each in scores]
    ledger = vf.Ledger().spend(event.event(epsilon), purpose="model")
    if assumption is not None:
        ledger = ledger.assuming(assumption)
    return result | {
        "auc": float(np.mean(aucs)),
        "lowest": float(np.quantile(aucs, 0.05)),
        "aucs": aucs[:1],
        "seconds_a_fit": time.perf_counter() - started,
        "guarantee": ledger.guarantee(delta=0).to_json(),
        "ledger": ledger.to_json(),
    }
