"""A mixture whose components all have one shape, given by a flow."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow.flows.bases.mixtures import GaussianMixture
from veilflow.flows.bases.simple import AbstractBase
from veilflow.flows.flow import Flow
from veilflow.nn.outer import contract


class ShapedMixture(AbstractBase):
    """The mixture of `means[k] + factors[k] u` for `u` drawn from `shape`, one flow for all components.

    With a standard normal as shape it is the mixture of normals itself. A flow learns what all
    components have in common and normals lack (tails, skew, bends), from the records of all of them.

    Attributes:
        mixture: Weights, means and factors. They are released values and never trained.
        shape: The density of a component in its own standard coordinates.
    """

    dim: int = eqx.field(static=True)
    mixture: GaussianMixture
    shape: Flow

    def __init__(self, mixture: GaussianMixture, shape: Flow):
        if mixture.dim != shape.dim:
            raise ValueError(
                f"the mixture has {mixture.dim} dimensions and the shape {shape.dim}. "
                "Use the same for both."
            )
        self.dim, self.mixture, self.shape = mixture.dim, mixture, shape

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example: a pass of the flow for each component."""
        local, log_scales = self.mixture.local(z)
        # one component after another: all at once, a batch of rows would take many times the memory
        return jax.nn.logsumexp(log_scales + jax.lax.map(self.shape.log_prob, local))

    def private_log_prob_of_one(
        self, z: Float[Array, " dim"], key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """The log-density of a randomly drawn component's shape at one example, to be trained on.

        The component is drawn by the responsibilities of the mixture of normals. The mean over the
        draws is, up to a constant, a lower bound of `log_prob`, as in expectation-maximization, and
        takes one pass of the flow where the density takes one for each component. All terms depend
        on the record.
        """
        local, log_scales = self.mixture.local(z)
        log_joint = log_scales - 0.5 * jnp.sum(jnp.square(local), axis=-1)
        # where no component has a density, any will do: categorical needs one finite number
        drawn = jax.random.categorical(key, jnp.nan_to_num(log_joint, nan=0.0))
        return self.shape.private_log_prob(local[drawn])

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        component_key, shape_key = jax.random.split(key)
        k = jax.random.categorical(component_key, self.mixture.log_weights)
        u = self.shape.sample(shape_key)
        return self.mixture.means[k] + contract("ij,j->i", self.mixture.factors[k], u)
