"""The rehearsal of a mixture: what noise did to it, learned from mixtures to which the same was done.

Rows are drawn from the released mixture, and private EM finds a mixture in them anew, with the noise of
the plan. What it got wrong is known then, since the truth is. A correction learns what can be said of
all components (`models/mixture_correction.py`), and the shape of the components the rest. Both are
applied to the mixture of the records, from which the private training goes on.

All of it is post-processing of the released mixture: it reads no record and costs no budget.
"""

# JAX leaves types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core.chunks import apply_in_chunks
from veilflow._core.keys import Secret
from veilflow.flows import Flow, GaussianMixture
from veilflow.models.mixture_correction import corrected, learned
from veilflow.models.pretraining import pretrain
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.em import Mixture
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.release import Derived, Monitor, Tools
from veilflow.releases.training import arrays_of

REHEARSAL = "rehearsal"
"""The purpose of a rehearsal in a plan."""

_MOST_ROWS = 100_000
"""More rows than these tell nothing more, if noise grows less with them."""
_COMPONENTS = 60
"""A rehearsal has at least so many components in all, and for that several mixtures."""
_STEPS, _BATCH, _RATE = 1500, 128, 2e-3
"""Of the training of a shape."""
_CHUNK = 4096

Rows = Float[np.ndarray, "rows dim"]


def rehearsal() -> Derived:
    """The rehearsal as an entry of a plan: mixtures, a correction and a shape."""
    return Derived(purpose=REHEARSAL, steps=3)


@dataclass(frozen=True)
class _Twin:
    """Rows of the released mixture, and what EM found in them."""

    rows: Rows
    found: Mixture


def rehearsed(
    mixture: Mixture,
    shape: Flow | None,
    release: ExpectationMaximization,
    num_records: int,
    secret: Secret,
    monitor: Monitor,
) -> dict[str, Any]:
    """The corrected mixture, and the arrays of a shape that belongs to it.

    Args:
        mixture: The released mixture.
        shape: The shape before its first step, if there will be one.
        release: How the mixture was released.
        num_records: Declared or released.
        secret: The source of all randomness, which here has keys of its own.
        monitor: Called with the number of entries that are done.
    """
    secret = secret.child(REHEARSAL)
    twins = _twins(mixture, release, num_records, secret)
    monitor(1)
    correction = learned([(twin.found, twin.rows) for twin in twins], secret.key("correction"))
    value: dict[str, Any] = {"mixture": corrected(correction, mixture)._asdict()}
    monitor(2)
    if shape is not None:
        rng = _generator(secret, "components")
        known = [_local(corrected(correction, t.found), t.rows, rng) for t in twins]
        trained = pretrain(
            shape,
            np.concatenate(known),
            loss=_loss,
            steps=_STEPS,
            batch_size=_BATCH,
            learning_rate=_RATE,
            key=secret.key("shape"),
            monitor=lambda done: None,
        )
        value["shape"] = [np.asarray(x) for x in arrays_of(trained)]
    monitor(3)
    return value


def _twins(
    mixture: Mixture, release: ExpectationMaximization, num_records: int, secret: Secret
) -> list[_Twin]:
    """Several known mixtures, whose components are those of the released one."""
    records = max(num_records, 1)
    size = min(records, _MOST_ROWS)
    again = replace(
        release,
        num_components=len(mixture.weights),
        records_per_component=None,
        # relative to the rows it is that of the records
        noise_multiplier=release.noise_multiplier * size / records,
    )
    found: list[_Twin] = []
    for i in range(-(-_COMPONENTS // len(mixture.weights))):
        rng = _generator(secret, "rows", i)
        which = rng.choice(len(mixture.weights), size, p=mixture.weights / mixture.weights.sum())
        standard = rng.normal(size=(size, mixture.means.shape[1]))
        rows = mixture.means[which] + np.einsum("nij,nj->ni", mixture.factors[which], standard)
        released = again.run(Sensitive(rows), Tools(secret.child(f"twin {i}")))
        found.append(_Twin(rows.astype(np.float32), again.result(released.value)[0]))
    return found


def _generator(secret: Secret, purpose: str, index: int = 0) -> np.random.Generator:
    return np.random.default_rng(secret.words(purpose, index, 1)[0])


def _local(mixture: Mixture, rows: Rows, rng: np.random.Generator) -> Rows:
    """Each row in the coordinates of a component that is drawn by its responsibilities.

    What a shape is trained on is this alone, so it can be drawn once and from several mixtures.
    """
    chance = rng.uniform(size=(len(rows), 1)).astype(np.float32)
    both = np.hstack([rows, chance])
    base = GaussianMixture.create(mixture.weights, mixture.means, mixture.covariances)
    return apply_in_chunks(lambda part: _locals(base, part), both, size=_CHUNK)


@eqx.filter_jit
def _locals(mixture: GaussianMixture, rows: Float[Array, "rows dim+1"]) -> Float[Array, "rows dim"]:
    def of_one(row: Float[Array, " dim+1"]) -> Float[Array, " dim"]:
        local, log_scales = mixture.local(row[:-1])
        shares = jax.nn.softmax(log_scales - 0.5 * jnp.square(local).sum(axis=-1))
        drawn = jnp.sum(jnp.cumsum(shares) < row[-1])
        return local[jnp.minimum(drawn, len(shares) - 1)]

    return jax.vmap(of_one)(jnp.asarray(rows))


def _loss(shape: Flow, row: Float[Array, " dim"], key: Key[Array, ""]) -> Float[Array, ""]:
    return -shape.private_log_prob(row)
