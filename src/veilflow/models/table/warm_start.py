"""A start from noisy marginals: a flow is trained on rows drawn from a private model of them.

All of it is post-processing. It takes minutes on wide tables, so it is a step of the plan, whose
arrays a checkpoint keeps.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.models.pretraining import pretrain
from veilflow.models.table.coder import Coder
from veilflow.models.table.density import AbstractTableDensity
from veilflow.releases.marginals import MarginalModel
from veilflow.releases.release import Derived, Monitor
from veilflow.releases.training import arrays_of

_ROWS, _CODES = 2**19, 2**25
"""The rows that are drawn, and their codes: wide tables take fewer rows."""
_HELD_OUT = 1 / 64
"""The part of them that decides when the flow has learned what there is to learn."""
_STEPS, _RATE = 2000, 4e-3
_BATCH, _LEAST_BATCH, _ROWS_OF_COLUMN = 1024, 512, 32
"""The most and the least rows in a step, and how many of them each column asks for."""
_WORK = 2**21
"""The most codes that are scored in a step: those of hundreds of columns take smaller batches."""
_OWN_PART = 0.3
"""Weight of the histograms of columns in the shares of codes; the marginals have the rest."""

WARM = "warm start"
"""The purpose of the warm start in a plan."""


def warm_start() -> Derived:
    """The warm start as an entry of a plan."""
    return Derived(purpose=WARM, steps=_STEPS)


def batch_size(num_codes: Sequence[int]) -> int:
    """Rows of a step: more with more columns, and fewer with many codes, for equally long steps."""
    wanted = max(_LEAST_BATCH, _ROWS_OF_COLUMN * len(num_codes))
    return max(1, min(_BATCH, wanted, _WORK // sum(num_codes)))


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
        steps: The largest number of training steps.
        monitor: Called with the number of steps that are done.
    """
    columns = len(coder.columns)
    codes = model.sample(min(_ROWS, _CODES // columns), secret.key("warm rows"))
    masses = _masses(model, coder)
    density = fresh(coder.with_masses(masses))
    rng = np.random.default_rng(secret.words("warm cells", 0, 1)[0])
    codes = density.coder.sharpened(codes, resolution, rng)
    parts = np.split(codes, [int(_HELD_OUT * len(codes))])
    held_out, rows = (density.records_of_codes(part, rng) for part in parts)
    flow = pretrain(
        density.flow,
        rows,
        loss=density.loss,
        steps=steps,
        batch_size=batch_size([column.num_codes for column in coder.columns]),
        learning_rate=_RATE,
        key=secret.key("warm start"),
        monitor=monitor,
        held_out=held_out,
    )
    return {"masses": masses, "flow": [np.asarray(array) for array in arrays_of(flow)]}


def _masses(model: MarginalModel, coder: Coder) -> list[Float[np.ndarray, " codes"]]:
    """Shares of codes from two releases, which are better together than either alone."""
    return [
        _OWN_PART * column.mass + (1 - _OWN_PART) * model.marginal((j,))
        for j, column in enumerate(coder.columns)
    ]
