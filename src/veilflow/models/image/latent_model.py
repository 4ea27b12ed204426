"""An image model for one image at a time: networks, loss, and the models of all classes.

What each class has of its own is a public choice. With a common autoencoder and a flow for each class,
the networks that draw learn from all images, and the flows, which need few, from those of their class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from veilflow.flows import Flow
from veilflow.flows.bijection import Condition
from veilflow.images import to_unit
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.networks import Decoder, Encoder

RECONSTRUCTIONS = ("bce", "mse")
"""Errors of a pixel: its cross-entropy, or its squared error."""
PARTITIONS = ("flows", "models", "none")
"""What each class has of its own: a flow, a whole model, or only a condition of the flow."""

Pixels = Float[Array, "colors height width"]


class LatentModel(eqx.Module):
    """Three networks that are trained together. Methods take one image, in bytes or in [0, 1].

    Their `condition` is the one-hot class, or None where there are no classes. Networks that are not
    told the class do without it.
    """

    encoder: Encoder
    decoder: Decoder
    flow: Flow
    flow_sees_class: bool = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        architecture: ImageArchitecture,
        *,
        key: Key[Array, ""],
        condition_dim: int = 0,
        num_classes: int = 0,
    ) -> "LatentModel":
        """Fresh networks; see `ImageArchitecture.build`."""
        built = architecture.build(key=key, condition_dim=condition_dim, num_classes=num_classes)
        return cls(*built, condition_dim > 0)

    def log_prob(self, image: Array, condition: Condition = None) -> Float[Array, ""]:
        """The natural logarithm of the density of the image's code."""
        return self.flow.log_prob(self.encoder(to_unit(image)), self._of_flow(condition))

    def reconstruct(self, image: Array, condition: Condition = None) -> Pixels:
        """The reconstruction of the image from its code, in [0, 1]."""
        return jax.nn.sigmoid(self.decoder(self.encoder(to_unit(image)), condition))

    def sample(self, key: Key[Array, ""], condition: Condition = None) -> Pixels:
        """Draw one image in [0, 1]."""
        code = self.flow.sample(key, self._of_flow(condition))
        return jax.nn.sigmoid(self.decoder(code, condition))

    def errors(self, pixels: Pixels, condition: Condition) -> tuple[Pixels, Float[Array, ""]]:
        """The logits of the reconstruction, and the part of the code's density that has a record."""
        code = self.encoder(pixels)
        density = self.flow.private_log_prob(code, self._of_flow(condition))
        return self.decoder(code, condition), density

    def _of_flow(self, condition: Condition) -> Condition:
        return condition if self.flow_sees_class else None


def groups(model: LatentModel) -> tuple[Any, Any]:
    """The autoencoder and the flow, whose gradients differ by orders of magnitude."""
    return (model.encoder, model.decoder), model.flow


@dataclass(frozen=True)
class ImageLoss:
    """`temperature`^2 times the mean error of a pixel, minus the log-density of the code.

    It is a frozen dataclass and not a closure, so that equal losses share one compiled program.
    """

    reconstruction: str
    """One of `RECONSTRUCTIONS`."""
    temperature: float
    num_classes: int = 0
    """The number of classes if a network is told the class; records are then (image, class index)."""

    def __call__(self, model: LatentModel, record: Any, key: Key[Array, ""]) -> Float[Array, ""]:
        """The loss of one image."""
        image, place = record if self.num_classes else (record, None)
        condition = None if place is None else jax.nn.one_hot(place, self.num_classes)
        pixels = to_unit(image)  # here, so that only a batch is held in floating point
        # the flow has no public terms: all of its log-density depends on the record
        logits, density = model.errors(pixels, condition)
        if self.reconstruction == "bce":
            errors = optax.sigmoid_binary_cross_entropy(logits, pixels)
        else:
            errors = jnp.square(jax.nn.sigmoid(logits) - pixels)
        return self.temperature**2 * jnp.mean(errors) - density


def num_parts(partition: str, num_classes: int) -> int:
    """The number of classes that are trained separately."""
    return 1 if partition == "none" else num_classes


def condition_dim(partition: str, num_classes: int) -> int:
    """The size of the flow's condition: the one-hot class, where one flow serves all classes."""
    return num_classes if partition == "none" else 0


class ClassModels(eqx.Module):
    """The models of all classes: what is trained, and what is released."""

    model: LatentModel
    """Parts that each class has of its own have the class as the first axis of every array."""
    num_classes: int = eqx.field(static=True)
    """0 where images have no labels."""
    partition: str = eqx.field(static=True)
    """One of `PARTITIONS`; with "none", the flow is conditioned on the class."""

    @classmethod
    def create(
        cls,
        architecture: ImageArchitecture,
        *,
        num_classes: int,
        partition: str,
        key: Key[Array, ""],
    ) -> "ClassModels":
        """Fresh models. All classes start with the same weights; their noise and images differ."""
        model = LatentModel.create(
            architecture,
            key=key,
            condition_dim=condition_dim(partition, num_classes),
            num_classes=num_classes,
        )

        def stack(part: Any) -> Any:
            return jax.tree.map(lambda x: jnp.broadcast_to(x, (num_classes, *x.shape)), part)

        if partition == "models":
            model = stack(model)
        if partition == "flows":
            model = eqx.tree_at(_flow, model, stack(model.flow))
        return cls(model, num_classes, partition)

    @property
    def in_common(self) -> Callable[[LatentModel], Sequence[PyTree]] | None:
        """A function from the model to the parts that all classes share, if there are any."""
        return _autoencoder if self.partition == "flows" else None

    def of_class(self, place: Int[Array, ""]) -> tuple[LatentModel, Condition]:
        """The model of the class with this index, and the condition of its networks."""
        model = self.model
        if self.partition == "models":
            model = jax.tree.map(lambda x: x[place], model)
        if self.partition == "flows":
            model = eqx.tree_at(_flow, model, jax.tree.map(lambda x: x[place], model.flow))
        return model, jax.nn.one_hot(place, self.num_classes) if self.num_classes else None


def _flow(model: LatentModel) -> Flow:
    return model.flow


def _autoencoder(model: LatentModel) -> Sequence[PyTree]:
    return model.encoder, model.decoder
