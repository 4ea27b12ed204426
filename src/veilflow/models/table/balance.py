"""Marginals of the flow brought back to the released ones.

Noisy steps move the shares of single codes about, and those were released once, precisely. Rows are
drawn from the flow, their shares compared with the released ones, and the difference goes into the
biases of the last layer; a few rounds are enough. Only released numbers are read: it costs nothing.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow.flows.code_flow import CodeFlow
from veilflow.flows.codebook import span
from veilflow.models.table.conditional import draw

_ROUNDS = 4
_STEP = 0.9
_MOST = 3.0
"""Most that one round moves a log-share."""


def balanced(
    flow: CodeFlow,
    masses: list[Float[np.ndarray, " codes"]],
    *,
    num_rows: int,
    key: Key[Array, ""],
) -> CodeFlow:
    """`flow` with biases at which drawn rows have about these shares."""
    book = flow.codebook
    shift = np.asarray(book.log_mass, np.float64).copy()
    for one in range(_ROUNDS):
        moved = eqx.tree_at(lambda f: f.codebook.log_mass, flow, jnp.asarray(shift, jnp.float32))
        codes = np.asarray(draw(moved, jax.random.fold_in(key, one), num_rows))
        for j, mass in enumerate(masses):
            # as if every code had been seen half a time more: none is lost for good
            drawn = np.bincount(codes[:, j], minlength=len(mass)) + 0.5
            wanted = np.maximum(mass, 1e-9) / np.maximum(mass, 1e-9).sum()
            wanted = (wanted * num_rows + 0.5) / (num_rows + 0.5 * len(mass))
            change = np.log(wanted) - np.log(drawn / drawn.sum())
            shift[span(book.slot_columns, j)] += np.clip(_STEP * change, -_MOST, _MOST)
    return eqx.tree_at(lambda f: f.codebook.log_mass, flow, jnp.asarray(shift, jnp.float32))
