"""The plan of a classifier: the declared network, loss and classes, and what their draw costs."""

import math
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.models.domain import Box, Domain
from veilflow.privacy.budget import Budget
from veilflow.privacy.unit import Unit
from veilflow.releases.count import Count
from veilflow.releases.expm.draw import ExponentialDraw
from veilflow.releases.expm.grud import GruD
from veilflow.releases.expm.loss import BoundedLoss
from veilflow.releases.expm.network import Logistic, Mlp, Network
from veilflow.releases.expm.sampler import CountingSampler
from veilflow.releases.plan import FitPlan, spending
from veilflow.releases.release import Release

Class = str | bool | int | float
"""A value of a label."""
_MODELS: dict[str, type[Network]] = {"logistic": Logistic, "mlp": Mlp, "grud": GruD}
MODELS = tuple(_MODELS)


def check_model(model: Any) -> None:
    """Raise unless `model` is a network or the name of one."""
    if isinstance(model, str):
        check.one_of(MODELS, model=model)
    elif not isinstance(model, Network):
        raise TypeError(
            f"model must be one of {', '.join(map(repr, MODELS))} or a network from vf.expm, got "
            f"{type(model).__name__}."
        )


def network_of(
    model: Any, domain: Domain, num_features: int | None = None, *, num_classes: int
) -> Network:
    """The network of this name with default sizes; or `model` itself, if it is a network.

    Raises:
        ValueError: It does not fit the declared bounds, features or classes.
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
            f"the network has {model.num_classes} classes and {num_classes} are declared."
        )
    if model.num_features != num_features:
        raise ValueError(f"the network is for {model.num_features} features, got {num_features}.")
    return model


def _num_features(model: Any, domain: Domain) -> int:
    """The number of features of the network or of the bounds."""
    if isinstance(model, Network):
        return model.num_features
    declared = max(domain.scale.size, domain.center.size)
    if declared == 1:
        raise ValueError("give num_features: bounds that hold for all features do not imply it.")
    return declared


def loss_of(loss: Any, *, num_classes: int) -> BoundedLoss:
    """The loss of this name; or `loss` itself, if it is a bounded loss.

    Raises:
        ValueError: It has no bound, or is for another number of classes.
    """
    if isinstance(loss, str):
        return BoundedLoss(loss, num_classes)
    if not isinstance(loss, BoundedLoss):
        raise TypeError(
            f"loss must be a name or a vf.expm.BoundedLoss, got {type(loss).__name__}. The guarantee "
            "rests on a bound, and that of a function cannot be seen."
        )
    if loss.num_classes != num_classes:
        raise ValueError(
            f"loss is for {loss.num_classes} classes and {num_classes} are declared. They must agree."
        )
    return loss


def classes_of(classes: Any) -> tuple[Class, ...]:
    """The declared classes as plain Python values."""
    try:
        listed = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    except TypeError as error:
        raise TypeError("classes must be a list of all values of a label.") from error
    if isinstance(classes, str) or not all(isinstance(c, Class) for c in listed):
        raise TypeError("classes must be texts or numbers, such as (0, 1) or ('no', 'yes').")
    if any(isinstance(c, float) and not math.isfinite(c) for c in listed):
        raise ValueError("classes must be finite where they are numbers.")
    if len(listed) < 2 or len(set(listed)) != len(listed):
        raise ValueError(f"classes must be at least two different values, got {listed!r}.")
    return listed


def plan_classifier(
    draw: ExponentialDraw,
    *,
    domain: Domain,
    budget: Budget,
    num_records: int | None,
    seeded: bool,
) -> FitPlan:
    """The plan of a fit: a count where the sampler needs one, and `draw` for the rest of the budget.

    Raises:
        BudgetError: The settings cost more than the budget.
        ValueError: The target is out of the sampler's reach.
    """
    count: tuple[Release, ...] = ()
    if isinstance(draw.sampler, CountingSampler):
        draw = draw.knowing(num_records)
        # a number that is declared to the sampler is a declared fact, too
        num_records = draw.num_records
        count = (Count.within(budget),) if num_records is None else ()
    bounds = "bounds" if isinstance(domain, Box) else "the largest norm of a row"
    return FitPlan(
        model="ExpMechClassifier",
        budget=budget,
        releases=spending(budget, (*count, draw), unit=Unit.RECORD),
        declared=(bounds, "classes", "the prior"),
        num_records=num_records,
        seeded=seeded,
        unit=Unit.RECORD,
    )
