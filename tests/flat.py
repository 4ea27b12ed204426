"""Density flows from flat settings, as tests vary them one by one."""

import dataclasses
from typing import Any

import veilflow as vf

TRAINING = frozenset(field.name for field in dataclasses.fields(vf.Training))


def density_flow(**settings: Any) -> vf.DensityFlow:
    """A density flow; settings of its training may stand beside the others."""
    training = {name: settings.pop(name) for name in TRAINING & set(settings)}
    return vf.DensityFlow(**settings, training=vf.Training(**training))


def changed(estimator: vf.DensityFlow, **changes: Any) -> vf.DensityFlow:
    """The estimator with other settings."""
    training = {name: changes.pop(name) for name in TRAINING & set(changes)}
    training = dataclasses.replace(estimator.training, **training)
    return dataclasses.replace(estimator, **changes, training=training)
