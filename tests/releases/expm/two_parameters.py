"""Logistic regression on one feature: two parameters, so that a grid knows the target by heart."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from veilflow._core.keys import Secret
from veilflow.engine.optimizer import Optimizer
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.expm.flow_sampler import FlowSampler
from veilflow.releases.expm.loss import BoundedLoss
from veilflow.releases.expm.network import Logistic
from veilflow.releases.expm.prior import GaussianPrior
from veilflow.releases.expm.target import Target

NUM = 300
SCALE = 3.0
TARGET = Target(
    network=Logistic(num_features=1),
    loss=BoundedLoss("l2"),
    prior=GaussianPrior(SCALE),
    epsilon=1.0,
)


def _records():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (NUM, 1)).astype(np.float32)
    y = rng.random(NUM) < 1 / (1 + np.exp(1 - 3 * x[:, 0]))
    return x, y.astype(np.int32)


RECORDS = _records()
SENSITIVE = Sensitive(RECORDS)

_SIDE = np.linspace(-12, 12, 241)
_STEP = _SIDE[1] - _SIDE[0]


class Grid(NamedTuple):
    """The target on a grid, by numpy alone."""

    shares: np.ndarray
    log_z: float

    @property
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        return self.shares.sum(axis=1), self.shares.sum(axis=0)

    def draws(self, num: int, *, seed: int) -> np.ndarray:
        """A cell each, and a place in it."""
        rng = np.random.default_rng(seed)
        cells = rng.choice(self.shares.size, num, p=self.shares.ravel())
        places = np.stack(np.unravel_index(cells, self.shares.shape), axis=1)
        return _SIDE[places] + rng.uniform(-_STEP / 2, _STEP / 2, places.shape)

    def distance(self, thetas: np.ndarray) -> float:
        """The larger total variation of the two marginals, in cells of twice the grid's step."""
        edges = np.concatenate([[-np.inf], _SIDE[1::2] + _STEP / 2, [np.inf]])
        found = []
        for draws, marginal in zip(thetas.T, self.marginals, strict=True):
            counts = np.bincount(np.searchsorted(edges, draws) - 1, minlength=len(edges) - 1)
            cells = np.append(marginal, 0).reshape(-1, 2).sum(axis=1)
            found.append(0.5 * np.abs(counts / len(draws) - cells).sum())
        return max(found)


@lru_cache(maxsize=1)
def grid() -> Grid:
    x, y = RECORDS
    weight, intercept = np.meshgrid(_SIDE, _SIDE, indexing="ij")
    p = 1 / (1 + np.exp(-(weight[..., None] * x[:, 0] + intercept[..., None])))
    log_prior = -(weight**2 + intercept**2) / (2 * SCALE**2) - np.log(2 * np.pi * SCALE**2)
    log_density = log_prior - TARGET.epsilon * np.square(p - y).sum(axis=-1)
    density = np.exp(log_density - log_density.max())
    log_z = float(np.log(density.sum() * _STEP**2) + log_density.max())
    return Grid(density / density.sum(), log_z)


SAMPLERS = {
    "realnvp": FlowSampler(
        flow="realnvp",
        blocks=3,
        hidden=(16,),
        steps=600,
        optimizer=Optimizer(learning_rate=0.02),
    ),
    "planar": FlowSampler(
        flow="planar",
        blocks=16,  # eight leave a total variation of .08, sixteen of .02
        steps=2_000,
        optimizer=Optimizer(learning_rate=0.05),
    ),
    "sylvester": FlowSampler(
        flow="sylvester", blocks=4, rank=2, steps=1_000, optimizer=Optimizer(learning_rate=0.05)
    ),
}


@lru_cache(maxsize=3)
def trained(name: str) -> Sensitive:
    """A flow with enough steps."""
    return SAMPLERS[name].fit(TARGET, SENSITIVE, secret=Secret.from_seed(1))
