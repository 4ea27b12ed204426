"""The models of all classes of an image set.

What classes have of their own is a public choice. With an autoencoder in common and a flow for each
class, the networks that draw learn from all images; the flows, which need few, from those of a class.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from veilflow.flows.bijection import Condition
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.latent_model import LatentModel

PARTITIONS = ("flows", "models", "none")
"""What each class has of its own: a flow, a whole model, or nothing but a condition of the flow."""


def num_parts(partition: str, num_classes: int) -> int:
    """How many classes are trained apart from one another."""
    return 1 if partition == "none" else num_classes


def condition_dim(partition: str, num_classes: int) -> int:
    """How many numbers a flow is conditioned on: the class, where one flow serves all."""
    return num_classes if partition == "none" else 0


class ClassModels(eqx.Module):
    """What is trained, and what is released."""

    model: LatentModel
    """What each class has of its own has the class as the first axis of every array."""
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
        """Fresh models. Those of all classes start alike: their noise and their images differ."""
        model = LatentModel.create(
            architecture, key=key, condition_dim=condition_dim(partition, num_classes)
        )

        def stack(part: Any) -> Any:
            return jax.tree.map(lambda x: jnp.broadcast_to(x, (num_classes, *x.shape)), part)

        if partition == "models":
            model = stack(model)
        if partition == "flows":
            model = LatentModel(model.encoder, model.decoder, stack(model.flow))
        return cls(model, num_classes, partition)

    @property
    def in_common(self) -> Callable[[LatentModel], Sequence[PyTree]] | None:
        """From the model to what the classes of a partition share, if they share something."""
        return _autoencoder if self.partition == "flows" else None

    def of_class(self, place: Int[Array, ""]) -> tuple[LatentModel, Condition]:
        """The model of the class at this place, and the condition that its flow takes."""
        model = self.model
        if self.partition == "models":
            return jax.tree.map(lambda x: x[place], model), None
        if self.partition == "flows":
            flow = jax.tree.map(lambda x: x[place], model.flow)
            return LatentModel(model.encoder, model.decoder, flow), None
        if self.num_classes:
            return model, jax.nn.one_hot(place, self.num_classes)
        return model, None


def _autoencoder(model: LatentModel) -> Sequence[PyTree]:
    return model.encoder, model.decoder
