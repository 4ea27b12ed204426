"""The models of all classes of an image set: one for each, or one that is told the class."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from veilflow.flows.bijection import Condition
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.latent_model import LatentModel


class ClassModels(eqx.Module):
    """What is trained, and what is released."""

    model: LatentModel
    """If there is one for each class, every array has the class as its first axis."""
    num_classes: int = eqx.field(static=True)
    """0 where images have no labels."""
    partition: bool = eqx.field(static=True)
    """Whether there is a model for each class; else the flow is conditioned on the class."""

    @classmethod
    def create(
        cls,
        architecture: ImageArchitecture,
        *,
        num_classes: int,
        partition: bool,
        key: Key[Array, ""],
    ) -> "ClassModels":
        """Fresh models. Those of all classes start alike: their noise and their images differ."""
        model = LatentModel.create(
            architecture, key=key, condition_dim=0 if partition else num_classes
        )
        if partition:
            model = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_classes, *x.shape)), model)
        return cls(model, num_classes, partition)

    def of_class(self, place: Int[Array, ""]) -> tuple[LatentModel, Condition]:
        """The model of the class at this place, and the condition that its flow takes."""
        if self.partition:
            return jax.tree.map(lambda x: x[place], self.model), None
        if self.num_classes:
            return self.model, jax.nn.one_hot(place, self.num_classes)
        return self.model, None
