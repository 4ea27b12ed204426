"""Released image models as arrays, and back: a file says by its arrays how much is built."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow.images import ImageSpec
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.class_models import (
    PARTITIONS,
    ClassModels,
    condition_dim,
    num_parts,
)


def arrays_of(models: ClassModels) -> dict[str, np.ndarray]:
    """All released numbers, by name."""
    return {f"model{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(models))}


def read_models(
    recipe: dict[str, Any], arrays: dict[str, np.ndarray], spec: ImageSpec
) -> ClassModels:
    """What `arrays_of` wrote, of a fit by this recipe.

    Raises:
        ValueError: The arrays are not those that recipe and specification ask for.
    """
    architecture = ImageArchitecture.from_json(recipe["architecture"])
    partition, num_classes = recipe["partition"], len(spec.classes)
    if partition not in PARTITIONS or (partition != "none" and not num_classes):
        raise ValueError('partition must be a known word, and "none" where there are no classes.')
    if (architecture.colors, *architecture.size) != spec.shape:
        raise ValueError("the networks are not for images of the declared size.")
    # before anything is built: a file cannot ask for more work than it has numbers
    wanted = _num_numbers(architecture, partition, num_classes)
    if wanted != sum(array.size for array in arrays.values()):
        raise ValueError("there are not as many numbers as the settings ask for.")
    skeleton = eqx.filter_eval_shape(
        lambda: ClassModels.create(
            architecture,
            num_classes=num_classes,
            partition=partition,
            key=jax.random.key(0),
        )
    )
    leaves, treedef = jax.tree.flatten(skeleton)
    names = [f"model{i}" for i in range(len(leaves))]
    if set(names) != set(arrays):
        raise ValueError("there are not as many arrays as the settings ask for.")
    for name, leaf in zip(names, leaves, strict=True):
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise ValueError("arrays do not have the shapes the settings ask for.")
        if not np.isfinite(arrays[name]).all():
            raise ValueError("arrays hold numbers that are not finite.")
    return jax.tree.unflatten(treedef, [jnp.asarray(arrays[name]) for name in names])


def _num_numbers(architecture: ImageArchitecture, partition: str, num_classes: int) -> int:
    """How many numbers are released."""
    parts = num_parts(partition, num_classes)
    told = condition_dim(partition, num_classes)
    one = architecture.num_parameters(condition_dim=told)
    if partition == "flows":
        return one + (parts - 1) * architecture.num_flow_parameters()
    return parts * one
