"""A classifier as plain data, and back: a file says by its arrays how much is built."""

from typing import Any

import numpy as np

from veilflow.models import artifact as artifacts
from veilflow.models import domain as domains
from veilflow.models.domain import Domain
from veilflow.models.expm import network as networks


def schema_of(
    domain: Domain, columns: tuple[str, ...] | None, classes: tuple[Any, ...]
) -> dict[str, Any]:
    """What features and labels are."""
    return {
        "columns": None if columns is None else list(columns),
        "domain": domain.to_json(),
        "classes": list(classes),
    }


def read(artifact: artifacts.Artifact) -> dict[str, Any]:
    """Parameters, network and what was declared, as the fitted classifier takes them.

    Raises:
        ValueError: They do not fit each other.
    """
    settings, schema = artifact.manifest, artifact.schema
    network = networks.from_json(settings["network"])
    thetas = artifact.arrays["thetas"]
    if set(artifact.arrays) != {"thetas"} or thetas.dtype != np.float32 or thetas.ndim != 2:
        raise ValueError("there must be one array of parameters, in single precision.")
    if thetas.shape != (settings["num_models"], network.dim) or not len(thetas):
        raise ValueError("there are not as many parameters as the settings ask for.")
    if not np.isfinite(thetas).all():
        raise ValueError("parameters must be finite.")
    classes = schema["classes"]
    if type(classes) is not list or not all(type(c) in (str, int, float, bool) for c in classes):
        raise ValueError("classes must be texts or numbers.")
    if len(classes) != network.num_classes or len(set(classes)) != len(classes):
        raise ValueError("classes must be as many as the network tells apart.")
    num_features = settings["network"]["num_features"]
    domain, columns = domains.from_json(schema["domain"]), schema["columns"]
    domain.check_dim(num_features)
    if columns is not None and (type(columns) is not list or len(columns) != num_features):
        raise ValueError("columns must name every feature.")
    sampler, conditional = settings["sampler"], settings["conditional"]
    said = any(text.startswith("CONDITIONAL") for text in artifact.guarantee.assumptions)
    if type(sampler) is not str or type(conditional) is not bool or conditional != said:
        raise ValueError("the guarantee and the settings disagree on whether it is conditional.")
    return {
        "thetas": thetas,
        "network": network,
        "domain": domain,
        "columns": None if columns is None else tuple(map(str, columns)),
        "classes": tuple(classes),
    }
