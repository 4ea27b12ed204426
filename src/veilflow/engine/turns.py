"""What a run with correlated noise keeps beside its state: earlier noise, and the groups of records.

Both are secret. The noise of earlier steps gives away the sums to which it was added, and a group tells
in which steps a record can have been. So neither is in a state, a checkpoint or anything that a run
returns: a resumed run draws them again from its secret, which takes no gradients.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8, UInt32

from veilflow._core.keys import Secret
from veilflow._core.threefry import KEY_WORDS
from veilflow.engine import sampling
from veilflow.privacy.banded_noise import BandedNoise, Past

NOISE = "noise"
"""The purpose of the keys of noise, of which every step has one."""

_BLOCK = 1024
"""The number of steps whose keys are sent to the device together."""


class Hidden(eqx.Module):
    """What a run with correlated noise carries from step to step, and nobody may see."""

    past: Past
    groups: UInt8[Array, " records"]

    @classmethod
    def after(cls, steps: int, *, noise: BandedNoise, num_records: int, secret: Secret) -> "Hidden":
        """What a run of this secret carries after some steps."""
        key = jnp.asarray(secret.words("groups", 0, 1, size=KEY_WORDS)[0])
        past = noise.init()
        for first in range(0, steps, _BLOCK):
            count = min(_BLOCK, steps - first)
            words = np.zeros((_BLOCK, KEY_WORDS), np.uint32)
            words[:count] = secret.words(NOISE, first, count, size=KEY_WORDS)
            keys, numbers = jnp.asarray(words), (jnp.int32(first), jnp.int32(count))
            past = _replayed((noise, keys, *numbers), past)
        return cls(past, sampling.groups(key, num_records, noise.bands))

    def in_turn(
        self, places: Int[Array, " places"] | None, step: Int[Array, ""], bands: int
    ) -> Bool[Array, " places"]:
        """Whether the record at each place has a turn in this step: each has one in any `bands` steps.

        Args:
            places: Which records; None for all of them.
            step: The number of the step.
            bands: Over how many steps noise is correlated.
        """
        groups = self.groups if places is None else self.groups[places]
        return groups == (step % bands).astype(groups.dtype)


@eqx.filter_jit(donate="all-except-first")
def _replayed(
    inputs: tuple[BandedNoise, UInt32[Array, "block 4"], Array, Array], past: Past
) -> Past:
    """The past after `count` more steps, from step `first` on."""
    noise, words, first, count = inputs
    return jax.lax.fori_loop(
        0, count, lambda i, past: noise.next(past, first + i, words[i])[1], past
    )
