"""An image model: an autoencoder and a flow over its codes, for one image at a time."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from veilflow.flows import Flow
from veilflow.flows.bijection import Condition
from veilflow.images import to_unit
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.networks import Decoder, Encoder

Pixels = Float[Array, "colors height width"]


class LatentModel(eqx.Module):
    """Three networks that are trained together. Every method is about one image, bytes or [0, 1]."""

    encoder: Encoder
    decoder: Decoder
    flow: Flow

    @classmethod
    def create(
        cls, architecture: ImageArchitecture, *, key: Key[Array, ""], condition_dim: int = 0
    ) -> "LatentModel":
        """Fresh networks; `condition_dim` is how many numbers the flow is conditioned on."""
        return cls(*architecture.build(key=key, condition_dim=condition_dim))

    def log_prob(self, image: Array, condition: Condition = None) -> Float[Array, ""]:
        """The natural log of the density of the image's code."""
        return self.flow.log_prob(self.encoder(to_unit(image)), condition)

    def reconstruct(self, image: Array) -> Pixels:
        """The image as its code tells it, in [0, 1]."""
        return jax.nn.sigmoid(self.decoder(self.encoder(to_unit(image))))

    def sample(self, key: Key[Array, ""], condition: Condition = None) -> Pixels:
        """One image in [0, 1]; the key is spent."""
        return jax.nn.sigmoid(self.decoder(self.flow.sample(key, condition)))


def groups(model: LatentModel) -> tuple[Any, Any]:
    """The parts whose gradients differ by orders of magnitude: the autoencoder and the flow."""
    return (model.encoder, model.decoder), model.flow
