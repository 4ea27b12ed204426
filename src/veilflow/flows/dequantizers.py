"""Dequantizers: noise that spreads a code over an interval of length 1.

A flow has a density over numbers; codes have probabilities. The probability of a code is the integral
of the density over its interval, p(x) = integral of p(x + u) over u in [0, 1). For noise u drawn from
any density q on that interval, the mean of log p(x + u) - log q(u | x) is a lower bound of log p(x),
and the bound is tighter the closer q is to the shape of the flow's density there.

References:
    Ho, Chen, Srinivas, Duan, Abbeel, "Flow++: Improving flow-based generative models with
    variational dequantization and architecture design", 2019.
"""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from veilflow._core import check
from veilflow.flows.bases.simple import StandardNormal
from veilflow.flows.network import MLP
from veilflow.flows.scalar_maps.logistic_mixture import LogisticMixtureMap
from veilflow.flows.variables import BELOW_ONE


class AbstractDequantizer(eqx.Module):
    """A distribution of noise for the codes of one record's listed variables.

    Trained numbers are in layers of `veilflow.nn`, each called once.
    """

    @abstractmethod
    def noise_and_log_prob(
        self, codes: Int[Array, " listed"], key: Key[Array, ""]
    ) -> tuple[Float[Array, " listed"], Float[Array, ""]]:
        """Numbers in [0, 1), and the natural log of their density given the codes; spends the key."""


class UniformDequantizer(AbstractDequantizer):
    """Independent uniform noise, whatever the codes: nothing to train and nothing to clip."""

    def noise_and_log_prob(
        self, codes: Int[Array, " listed"], key: Key[Array, ""]
    ) -> tuple[Float[Array, " listed"], Float[Array, ""]]:
        """Numbers in [0, 1), and a log-density of zero; the key is spent."""
        return jax.random.uniform(key, codes.shape), jnp.zeros(())


_SPREAD = 1.702
"""Factor on normal numbers before the sigmoid, with which the noise starts within 0.01 of uniform.
With 1, as in the paper, the ends of an interval are ten times rarer than its middle, for the first part
of the noise permanently, and importance weights there are larger by the same factor."""


class VariationalDequantizer(AbstractDequantizer):
    """Noise of a trained shape: a small flow conditioned on the codes.

    Normal numbers are split in two. The first part is kept; with the output of a network of the codes,
    it sets a mixture of logistics for each number of the second part. A sigmoid maps all to (0, 1).

    The paper's formula applies the sigmoid to the mixture's distribution function, which is already in
    (0, 1), so noise would fill (0.5, 0.731) only. Flow++, which the paper follows, applies a logit
    first, and so does `LogisticMixtureMap`.
    """

    of_codes: MLP
    of_noise: MLP
    mixture: LogisticMixtureMap
    sizes: tuple[int, ...] = eqx.field(static=True)
    """Number of codes of each listed variable."""
    spread: float = eqx.field(static=True, default=_SPREAD)

    @classmethod
    def create(
        cls,
        sizes: tuple[int, ...],
        *,
        key: Key[Array, ""],
        hidden: tuple[int, ...] = (64,),
        context: int = 16,
        num_components: int = 4,
        spread: float = _SPREAD,
    ) -> "VariationalDequantizer":
        """Noise that starts nearly uniform.

        Args:
            sizes: Number of codes of each listed variable; two variables or more.
            key: Spent here, for the weights.
            hidden: Sizes of the hidden layers of both networks.
            context: Size of the summary of the codes.
            num_components: Number of logistics in each mixture.
            spread: Factor before the sigmoid; 1 in the paper.

        Returns:
            The dequantizer.

        Raises:
            ValueError: If there are fewer than two variables or a size is out of range.
        """
        check.count(context=context)
        for size in sizes:
            check.count(sizes=size)
        check.positive(spread=spread)
        if len(sizes) < 2:
            raise ValueError(
                f"sizes must be of two listed variables or more, got {len(sizes)}: one half of the "
                "noise sets the other. Use UniformDequantizer."
            )
        codes_key, noise_key = jax.random.split(key)
        mixture, kept = LogisticMixtureMap(num_components), len(sizes) // 2
        of_codes = MLP.create(
            len(sizes), context, key=codes_key, hidden=hidden, last_layer_scale=1.0
        )
        of_noise = MLP.create(
            kept,
            mixture.num_params * (len(sizes) - kept),
            key=noise_key,
            hidden=hidden,
            last_layer_scale=0.1,
            condition_dim=context,
        )
        return cls(of_codes, of_noise, mixture, tuple(sizes), spread)

    def noise_and_log_prob(
        self, codes: Int[Array, " listed"], key: Key[Array, ""]
    ) -> tuple[Float[Array, " listed"], Float[Array, ""]]:
        """Numbers in [0, 1), and the log of their density given the codes; the key is spent."""
        base = StandardNormal(len(self.sizes))
        normal = base.sample(key)
        noise, log_det = self.noise_and_log_det(codes, normal)
        return noise, base.log_prob(normal) - log_det

    def noise_and_log_det(
        self, codes: Int[Array, " listed"], normal: Float[Array, " listed"]
    ) -> tuple[Float[Array, " listed"], Float[Array, ""]]:
        """The noise made of normal numbers, with the log absolute determinant of this map."""
        kept, moved = normal[: self.of_noise.in_size], normal[self.of_noise.in_size :]
        # middles of the codes' intervals, on a scale from -1 to 1
        scaled = (2 * codes + 1) / np.asarray(self.sizes, np.float32) - 1
        params = self.of_noise(kept, self.of_codes(scaled))
        moved, log_slopes = self.mixture.inverse_and_log_det(
            moved, params.reshape(self.mixture.num_params, -1)
        )
        logits = self.spread * jnp.concatenate([kept, moved])
        # log u + log(1 - u) from the logits: u itself may round to 1
        squash = jax.nn.log_sigmoid(logits) + jax.nn.log_sigmoid(-logits)
        log_det = jnp.sum(log_slopes) + jnp.sum(squash + math.log(self.spread))
        return jnp.minimum(jax.nn.sigmoid(logits), BELOW_ONE), log_det
