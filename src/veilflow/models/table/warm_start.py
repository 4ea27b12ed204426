"""A start from noisy marginals: a flow is trained on rows drawn from a private model of them.

All of it is post-processing. It takes minutes on wide tables, so it is a step of the plan, whose
arrays a checkpoint keeps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.engine.observed import num_parameters
from veilflow.models.pretraining import pretrain
from veilflow.models.table.coder import Coder
from veilflow.models.table.density import AbstractTableDensity
from veilflow.releases.marginals import MarginalModel
from veilflow.releases.release import Derived, Monitor
from veilflow.releases.training import arrays_of

_ROWS = 2**19
_STEPS, _BATCH, _RATE = 4000, 1024, 4e-3
_WORK = 2**30
"""Largest number of rows in a batch times trained numbers: wide tables take smaller batches."""
_OWN_PART = 0.3
"""Weight of the histograms of columns in the shares of codes; the marginals have the rest."""

WARM = "warm start"
"""The purpose of the warm start in a plan."""


def warm_start() -> Derived:
    """The warm start as an entry of a plan."""
    return Derived(purpose=WARM, steps=_STEPS)


def started_warm(
    model: MarginalModel,
    coder: Coder,
    fresh: Callable[[Coder], AbstractTableDensity],
    secret: Secret,
    *,
    resolution: int,
    steps: int,
    monitor: Monitor,
) -> dict[str, Any]:
    """Shares of codes from everything that was released, and the arrays of a flow trained on marginals.

    Args:
        model: The model of the marginals.
        coder: The coder that follows from the histograms of columns.
        fresh: Makes an untrained density over a coder.
        secret: The source of all randomness.
        resolution: About how many groups of codes of a column the marginals tell apart.
        steps: The number of training steps.
        monitor: Called with the number of steps that are done.
    """
    codes = model.sample(_ROWS, secret.key("warm rows")).astype(np.int32)
    masses = _masses(model, coder)
    density = fresh(coder.with_masses(masses))
    rng = np.random.default_rng(secret.words("warm cells", 0, 1)[0])
    codes = density.coder.sharpened(codes, resolution, rng)
    flow = pretrain(
        density.flow,
        density.records_of_codes(codes, rng),
        loss=density.loss,
        steps=steps,
        batch_size=max(1, min(_BATCH, _WORK // num_parameters(density.flow))),
        learning_rate=_RATE,
        key=secret.key("warm start"),
        monitor=monitor,
    )
    return {"masses": masses, "flow": [np.asarray(array) for array in arrays_of(flow)]}


def _masses(model: MarginalModel, coder: Coder) -> list[Float[np.ndarray, " codes"]]:
    """Shares of codes from two releases, which are better together than either alone."""
    return [
        _OWN_PART * column.mass + (1 - _OWN_PART) * model.marginal((j,))
        for j, column in enumerate(coder.columns)
    ]
