"""Our models: the one place where they are built.

No hyper-parameter is set here but what a row of a table is about. Defaults follow from public facts.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import veilflow as vf

PUBLISHED: Mapping[str, Any] = {
    "flow": vf.ImageArchitecture(
        size=(28, 28), channels=(32, 64), latent=20, blocks=9, hidden=(200, 200)
    ),
    "reconstruction": "bce",
    "temperature": math.sqrt(1e5),
    "training": vf.Training(
        steps=300,
        sampling_rate=0.1,
        clip_norm=(0.1 / math.sqrt(2), 0.1 / math.sqrt(2)),
        learning_rate=(0.01, 0.005),
        weight_decay=1e-5,
        ema_decay=None,
    ),
}
"""The authors' networks and settings for MNIST and Fashion-MNIST. They bound the gradients of both
networks by 0.1 each; here that is the bound of both together."""

SIZES = {"quarter": 0.25, "half": 0.5, "double": 2.0}
"""Widths of all hidden layers, in those of the default."""

TOLD = "told"
ENCODINGS = {
    "conditional-first": {"told_blocks": "first"},
    "conditional-last": {"told_blocks": "last"},
    "conditional-ends": {"told_blocks": "ends"},
    "conditional-code": {"told_blocks": "none", "decoder_sees_class": True},
}
"""Where one model for all classes is told the class, as the paper tried it: in the first, the last or
both of these couplings, or beside the code alone."""
TEMPERATURES = (100, 316, 1000)
"""Roots of the weight of squared errors."""

METHODS: dict[str, Mapping[str, Any]] = {
    "flows": {"partition": "flows"},
    "models": {"partition": "models"},
    "conditional": {"partition": "none"},
    "published": {"partition": "models", **PUBLISHED},
    **{f"flows-{size}": {"partition": "flows"} for size in (*SIZES, TOLD)},
    **{name: {"partition": "none"} for name in ENCODINGS},
    **{f"mse-{t}": {"reconstruction": "mse", "temperature": t} for t in TEMPERATURES},
}
"""By name: a flow for each class over one autoencoder; a whole model for each class; one that is told
the class; the authors' settings made sound; the first of these with narrower or wider networks, and
with a decoder that is told the class; one model that is told the class elsewhere; and squared errors,
as the paper writes its loss, in the place of cross-entropies, as its code has it."""


def build(
    method: str, spec: vf.ImageSpec, *, epsilon: float, delta: float, num_records: int, seed: int
) -> Any:
    """An estimator with a budget, ready to fit.

    Args:
        method: One of `METHODS`.
        spec: What is declared about the images.
        epsilon: Epsilon of the budget; infinite for a reference without privacy.
        delta: Delta of the budget.
        num_records: The number of training images, declared public.
        seed: Seed of the fit.
    """
    if method not in METHODS:
        raise ValueError(f"the methods are {', '.join(METHODS)}; got {method!r}.")
    budget = vf.Budget(epsilon=epsilon, delta=delta)
    common = {"spec": spec, "budget": budget, "num_records": num_records, "seed": seed}
    estimator = vf.ImageFlow(**common, **METHODS[method])
    detail = method.removeprefix("flows-")
    changed = {"decoder_sees_class": True} if detail == TOLD else ENCODINGS.get(method)
    if changed is not None:
        return replace(estimator, flow=replace(estimator.plan().flow, **changed))
    return estimator if detail not in SIZES else _widened(estimator, SIZES[detail])


def _widened(estimator: Any, factor: float) -> Any:
    """The same estimator with hidden layers wider by a factor."""
    usual = estimator.plan().flow
    channels, hidden = (
        tuple(round(factor * number) for number in sizes)
        for sizes in (usual.channels, usual.hidden)
    )
    return replace(estimator, flow=replace(usual, channels=channels, hidden=hidden))


def megabytes(flow: vf.ImageArchitecture) -> float:
    """The size of a model of one class, in single precision."""
    return 4 * flow.num_parameters() / 1e6


def fit(estimator: Any, images: Any) -> Any:
    """The fitted model; a reference without privacy is what was asked for, and labeled as such."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vf.NotPrivateWarning)
        return estimator.fit(images, progress=False)
