"""What an image model is trained on: how well codes tell their image, and how likely they are."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from veilflow.images import to_unit
from veilflow.models.image.latent_model import LatentModel

RECONSTRUCTIONS = ("bce", "mse")


@dataclass(frozen=True)
class ImageLoss:
    """`temperature`^2 times the mean error of a pixel, less the log density of the code.

    A frozen record and not a closure: equal losses share one compiled program.
    """

    reconstruction: str
    """"bce", the cross-entropy of a pixel, or "mse", its squared error."""
    temperature: float
    num_classes: int = 0
    """How many classes the flow is conditioned on; records are then (image, place of its class)."""

    def __call__(self, model: LatentModel, record: Any, key: Key[Array, ""]) -> Float[Array, ""]:
        """The loss of one image."""
        image, place = record if self.num_classes else (record, None)
        condition = None if place is None else jax.nn.one_hot(place, self.num_classes)
        pixels = to_unit(image)  # here, so that only a batch is ever larger than bytes
        code = model.encoder(pixels)
        logits = model.decoder(code)
        if self.reconstruction == "bce":
            errors = optax.sigmoid_binary_cross_entropy(logits, pixels)
        else:
            errors = jnp.square(jax.nn.sigmoid(logits) - pixels)
        # the flow has no terms without the code: all of its log density is the record's
        return self.temperature**2 * jnp.mean(errors) - model.flow.private_log_prob(code, condition)
