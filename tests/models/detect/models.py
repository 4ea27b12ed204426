"""Released models with known numbers, made without a fit."""

from dataclasses import replace

import numpy as np

import veilflow as vf
from veilflow.models.domain import Ball, Box, Domain
from veilflow.models.rows import RowPlan
from veilflow.releases.em import Mixture
from veilflow.releases.mixture import ExpectationMaximization

BOX = Box.declared((-5.0, 5.0))
BALL = Ball(5.0)
PLAN = RowPlan(
    model="MixtureDensity",
    domain=BOX,
    budget=vf.Budget(2.0, 1e-6),
    releases=(
        ExpectationMaximization(dim=2, num_components=2, steps=1, spread=1.0, noise_multiplier=4.0),
    ),
    declared=("bounds",),
)
LEDGER = PLAN.ledger


def mixture(
    domain: Domain = BOX, *, correlation: float = 0.8, columns: tuple[str, ...] | None = None
) -> vf.FittedMixtureDensity:
    """Two normals of two columns, in units of the data around (1, 0) and (-2, 1)."""
    covariance = np.array([[1.0, correlation], [correlation, 1.0]]) * 0.3
    scale = np.broadcast_to(domain.scale, (2,))
    factors = np.linalg.cholesky(covariance) / scale[:, None]
    return vf.FittedMixtureDensity(
        mixture=Mixture(
            weights=np.array([0.7, 0.3]),
            means=domain.encode(np.array([[1.0, 0.0], [-2.0, 1.0]])),
            factors=np.stack([factors, 0.5 * factors]),
        ),
        columns=columns,
        plan=replace(PLAN, domain=domain),
        guarantee=PLAN.guarantee,
        facts={},
    )
