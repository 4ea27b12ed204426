"""A start from noisy marginals: rows drawn by a private model of them, on which a flow is trained."""

import numpy as np
from jaxtyping import Int32

from veilflow._core.keys import Secret
from veilflow.engine import counting_bar
from veilflow.engine.observed import num_parameters
from veilflow.models.marginals import MarginalPlan, private_marginal_model
from veilflow.models.table.coder import Coder
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.pretraining import pretrain
from veilflow.privacy.guarantees import Sensitive

_ROWS = 2**19
_STEPS, _BATCH, _RATE = 4000, 1024, 4e-3
_WORK = 2**30
"""Rows of a batch times numbers that are trained, at most: wide tables take smaller batches."""
_OWN_PART = 0.3
"""Weight of the histograms of columns in shares of codes, beside the marginals."""

Codes = Int32[np.ndarray, "rows columns"]


def rows_of_marginals(
    codes: Sensitive[Codes],
    coder: Coder,
    *,
    mu: float,
    label: int | None,
    num_records: int,
    secret: Secret,
    hardened: bool,
    progress: bool,
) -> tuple[Coder, Codes]:
    """The coder with the shares of a private marginal model, and rows drawn by that model.

    Guarantee:
        `MarginalPlan.of(...).event`, which depends on `mu`, the number of columns and the label.

    Args:
        codes: Of the records.
        coder: That made them.
        mu: Gaussian privacy parameter of all marginals.
        label: The place of the label, if there is one.
        num_records: Declared or released.
        secret: Source of all noise, but for choices of tables.
        hardened: Noise from the operating system, on a grid.
        progress: Show a progress bar.
    """
    plan = MarginalPlan.of(
        [column.num_codes for column in coder.columns],
        mu=mu,
        ordered=[column.ordered for column in coder.columns],
        label=label,
        num_records=num_records,
    )
    with counting_bar("marginals", len(plan.rounds), show=progress) as monitor:
        model = private_marginal_model(
            codes, plan=plan, secret=secret, hardened=hardened, monitor=monitor
        ).value
    drawn = model.sample(_ROWS, secret.key("warm rows")).astype(np.int32)
    # two releases say how large a code's share is: together they are better than either
    masses = [
        _OWN_PART * column.mass + (1 - _OWN_PART) * model.marginal((j,))
        for j, column in enumerate(coder.columns)
    ]
    return coder.with_masses(masses), drawn


def trained_on(
    density: AbstractTableDensity, drawn: Codes, secret: Secret, *, progress: bool
) -> AbstractTableDensity:
    """`density` trained on released rows of codes: post-processing."""
    rng = np.random.default_rng(secret.words("warm cells", 0, 1)[0])
    with counting_bar("warm start", _STEPS, show=progress) as monitor:
        flow = pretrain(
            density.flow,
            density.records_of_codes(drawn, rng),
            loss=density.loss,
            steps=_STEPS,
            batch_size=max(1, min(_BATCH, _WORK // num_parameters(density.flow))),
            learning_rate=_RATE,
            key=secret.key("warm start"),
            monitor=monitor,
        )
    return density.with_flow(flow)
