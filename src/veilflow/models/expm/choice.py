"""What a person declares of a classifier: its network and loss, by name or in full, and its classes."""

import math
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.models.domain import Domain
from veilflow.releases.expm.grud import GruD
from veilflow.releases.expm.loss import BoundedLoss
from veilflow.releases.expm.network import Logistic, Mlp, Network

Class = str | bool | int | float
"""A value that a label may have."""
_MODELS: dict[str, type[Network]] = {"logistic": Logistic, "mlp": Mlp, "grud": GruD}
MODELS = tuple(_MODELS)


def check_model(model: Any) -> None:
    """Raise unless this names a network, or is one."""
    if isinstance(model, str):
        check.one_of(MODELS, model=model)
    elif not isinstance(model, Network):
        raise TypeError(
            f"model must be one of {', '.join(map(repr, MODELS))} or a network of vf.expm, got "
            f"{type(model).__name__}."
        )


def network_of(
    model: Any, domain: Domain, num_features: int | None = None, *, num_classes: int
) -> Network:
    """The network of this name with its usual sizes; or the one that was given.

    Args:
        model: A name, or a network.
        domain: As declared for the features.
        num_features: Where neither of them says it.
        num_classes: As declared.

    Raises:
        ValueError: They do not fit each other.
    """
    num_features = _num_features(model, domain) if num_features is None else num_features
    check.count(num_features=num_features)
    domain.check_dim(num_features)
    if model == "grud":
        model = GruD(num_features=num_features)
    elif isinstance(model, str):
        return _MODELS[model](num_features=num_features, num_classes=num_classes)
    if model.num_classes != num_classes:
        raise ValueError(
            f"the network tells {model.num_classes} classes apart and {num_classes} are declared."
        )
    if model.num_features != num_features:
        raise ValueError(f"the network is for {model.num_features} features, got {num_features}.")
    return model


def _num_features(model: Any, domain: Domain) -> int:
    """As many as the network or the bounds are for."""
    if isinstance(model, Network):
        return model.num_features
    declared = max(domain.scale.size, domain.center.size)
    if declared == 1:
        raise ValueError("give num_features: bounds for all features do not say it.")
    return declared


def loss_of(loss: Any, *, num_classes: int) -> BoundedLoss:
    """The loss of this name; or the one that was given.

    Raises:
        ValueError: It has no bound, or is for another number of classes.
    """
    if isinstance(loss, str):
        return BoundedLoss(loss, num_classes)
    if not isinstance(loss, BoundedLoss):
        raise TypeError(
            f"loss must be a name or a vf.expm.BoundedLoss, got {type(loss).__name__}. The bound of a "
            "function cannot be seen, and the guarantee rests on it."
        )
    if loss.num_classes != num_classes:
        raise ValueError(
            f"loss is for {loss.num_classes} classes and {num_classes} are declared. Give both the "
            "same."
        )
    return loss


def classes_of(classes: Any) -> tuple[Class, ...]:
    """The declared classes as plain Python values."""
    try:
        listed = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    except TypeError as error:
        raise TypeError("classes must be a list of the values a label may have.") from error
    if isinstance(classes, str) or not all(isinstance(c, Class) for c in listed):
        raise TypeError("classes must be texts or numbers, such as (0, 1) or ('no', 'yes').")
    if any(isinstance(c, float) and not math.isfinite(c) for c in listed):
        raise ValueError("classes must be finite where they are numbers.")
    if len(listed) < 2 or len(set(listed)) != len(listed):
        raise ValueError(f"classes must be at least two different values, got {listed!r}.")
    return listed
