"""A start from noisy marginals: rows drawn by a private model of them, on which a flow is trained.

All of it is post-processing. It takes minutes on wide tables, so it is a step of the plan, whose
arrays a checkpoint keeps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.engine.observed import num_parameters
from veilflow.models.table.coder import Coder
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.pretraining import pretrain
from veilflow.releases.marginals import MarginalModel
from veilflow.releases.release import Derived, Monitor
from veilflow.releases.training import arrays_of

_ROWS = 2**19
_STEPS, _BATCH, _RATE = 4000, 1024, 4e-3
_WORK = 2**30
"""Rows of a batch times numbers that are trained, at most: wide tables take smaller batches."""
_OWN_PART = 0.3
"""Weight of the histograms of columns in shares of codes, beside the marginals."""

WARM = "warm start"
"""The purpose of the step."""


def warm_start() -> Derived:
    """The step of a plan."""
    return Derived(purpose=WARM, steps=_STEPS)


def started_warm(
    model: MarginalModel,
    coder: Coder,
    fresh: Callable[[Coder], AbstractTableDensity],
    secret: Secret,
    *,
    steps: int,
    monitor: Monitor,
) -> dict[str, Any]:
    """Shares of codes by all that was released of them, and the arrays of a flow trained on marginals.

    Args:
        model: Of the marginals.
        coder: By the histograms of columns.
        fresh: A density over a coder, before any training.
        secret: Source of all randomness.
        steps: Of the training.
        monitor: Called with how many of them are done.
    """
    drawn = model.sample(_ROWS, secret.key("warm rows")).astype(np.int32)
    masses = _masses(model, coder)
    density = fresh(coder.with_masses(masses))
    rng = np.random.default_rng(secret.words("warm cells", 0, 1)[0])
    flow = pretrain(
        density.flow,
        density.records_of_codes(drawn, rng),
        loss=density.loss,
        steps=steps,
        batch_size=max(1, min(_BATCH, _WORK // num_parameters(density.flow))),
        learning_rate=_RATE,
        key=secret.key("warm start"),
        monitor=monitor,
    )
    return {"masses": masses, "flow": [np.asarray(array) for array in arrays_of(flow)]}


def _masses(model: MarginalModel, coder: Coder) -> list[Float[np.ndarray, " codes"]]:
    """Two releases say how large a code's share is: together they are better than either."""
    return [
        _OWN_PART * column.mass + (1 - _OWN_PART) * model.marginal((j,))
        for j, column in enumerate(coder.columns)
    ]
