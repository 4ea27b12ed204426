"""What every dequantizer promises: noise that spreads a code over an interval of length 1.

A flow has a density over numbers; codes have probabilities. The probability of a code is the density
summed over its interval, p(x) = integral of p(x + u) over u in [0, 1), and for noise u drawn from any
density q on there, the mean of log p(x + u) - log q(u | x) is a lower bound of log p(x). It is the
tighter, the closer q comes to the shape that the flow has in the interval.
"""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float, Int, Key


class AbstractDequantizer(eqx.Module):
    """A distribution of noise for the codes of one record's listed variables.

    Whatever it has of trained numbers lives in layers of `veilflow.nn`, each called once.
    """

    @abstractmethod
    def noise_and_log_prob(
        self, codes: Int[Array, " listed"], key: Key[Array, ""]
    ) -> tuple[Float[Array, " listed"], Float[Array, ""]]:
        """Numbers in [0, 1), and the natural log of their density given the codes.

        The key is spent.
        """
