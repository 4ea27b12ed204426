"""What a person declares of a classifier: its network, by name or in full, and its classes."""

from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.models.expm.network import Logistic, Mlp, Network

MODELS = ("logistic", "mlp", "grud")


def check_model(model: Any) -> None:
    """Raise unless this names a network, or is one."""
    if isinstance(model, str):
        check.one_of(MODELS, model=model)
    elif not isinstance(model, Network) or isinstance(model, type):
        raise TypeError(
            f"model must be one of {', '.join(map(repr, MODELS))} or a network of vf.expm, got "
            f"{type(model).__name__}."
        )


def network_of(model: Any, *, num_features: int, num_classes: int) -> Network:
    """The network of this name with its usual sizes; or the one that was given.

    Raises:
        ValueError: It is for other features or classes.
    """
    if model == "logistic":
        return Logistic(num_features=num_features, num_classes=num_classes)
    if model == "mlp":
        return Mlp(num_features=num_features, num_classes=num_classes)
    network = model
    if network == "grud":
        from veilflow.models.expm.grud import GruD

        network = GruD(num_features=num_features)
    if network.num_classes != num_classes:
        raise ValueError(
            f"the network tells {network.num_classes} classes apart and {num_classes} are declared."
        )
    if network.num_features != num_features:
        raise ValueError(f"the network is for {network.num_features} features, got {num_features}.")
    return network


def classes_of(classes: Any) -> tuple[Any, ...]:
    """The declared classes as plain Python values."""
    try:
        listed = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    except TypeError as error:
        raise TypeError("classes must be a list of the values a label may have.") from error
    if isinstance(classes, str) or not all(isinstance(c, str | int | float) for c in listed):
        raise TypeError("classes must be texts or numbers, such as (0, 1) or ('no', 'yes').")
    if len(listed) < 2 or len(set(listed)) != len(listed):
        raise ValueError(f"classes must be at least two different values, got {listed!r}.")
    return listed
