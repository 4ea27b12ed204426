"""A flow over pixels, fitted privately: what Figure 6 of the paper is about.

One flow for all images, without classes, and 300 steps at a sampling rate of 0.1, as in the paper. No
setting was searched for. Bytes become numbers by noise of their own in each step and a logit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import veilflow as vf
from reproductions.dp_lflow import pixel_flows
from veilflow.engine import Flat, Optimizer, Secret, TrainingPlan, train
from veilflow.engine.loop import noise_slack
from veilflow.engine.observed import num_parameters
from veilflow.flows import Flow
from veilflow.images import Images
from veilflow.privacy import calibration
from veilflow.privacy.assumptions import declared, of_noise
from veilflow.privacy.guarantees import Guarantee, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit

FLOWS: dict[str, Callable[..., Flow]] = {
    "pixels-realnvp": pixel_flows.dense,
    "pixels-glow": pixel_flows.glow,
}
"""By the name of the method."""
PRIVATE = {"steps": 300, "sampling_rate": 0.1, "clip_norm": 1.0, "learning_rate": 1e-3}
OPEN = {"steps": 2000, "sampling_rate": 0.02, "clip_norm": 1e6, "learning_rate": 5e-4}
"""Settings with privacy and without; the latter has smaller batches and more of them."""
AT_ONCE = 256
"""Images in a chunk: convolutions keep what they saw of each for its gradient."""
_EDGE = 0.05
"""Pixels are in [_EDGE, 1 - _EDGE] before the logit."""


@dataclass(frozen=True)
class Fitted:
    """A released flow, and what it cost."""

    flow: Flow
    settings: dict[str, Any]
    ledger: Ledger
    guarantee: Guarantee
    shape: pixel_flows.Shape

    def sample(self, num_images: int, *, seed: int) -> np.ndarray:
        """Images in bytes. The first of many are those of fewer."""
        key = Secret.from_seed(seed).key("sample")
        blocks = [
            np.asarray(_drawn(self.flow, jax.random.fold_in(key, first)))
            for first in range(0, num_images, AT_ONCE)
        ]
        return np.concatenate(blocks)[:num_images].reshape(-1, *self.shape)


def fit(method: str, images: Images, *, budget: vf.Budget, seed: int) -> Fitted:
    """Fit a flow to the pixels of all images. Their labels are not read, their number is declared.

    Guarantee:
        (epsilon, delta) as `budget` says, for adding or removing one image, given that sums of floats
        count as exact.

    Args:
        method: One of `FLOWS`.
        images: In bytes.
        budget: Of the whole fit; an infinite epsilon fits without privacy.
        seed: Of the fit.
    """
    secret = Secret.from_seed(seed)
    flow = FLOWS[method](images.spec.shape, key=secret.key("weights"))
    settings = PRIVATE if budget.private else OPEN
    plan, ledger = planned(settings, budget, num_parameters(flow), num_records=len(images))
    records = Sensitive(images.pixels, description="images", unit=Unit.IMAGE)
    released = train(plan, loss, flow, records, secret=secret, chunk_size=AT_ONCE)
    guarantee = ledger.guarantee(delta=budget.delta)
    return Fitted(released.value, settings, ledger, guarantee, images.spec.shape)


def planned(
    settings: dict[str, Any], budget: vf.Budget, size: int, *, num_records: int
) -> tuple[TrainingPlan, Ledger]:
    """Every public number of a fit, and everything it spends.

    Args:
        settings: As `PRIVATE` has them.
        budget: Of the whole fit.
        size: The number of parameters.
        num_records: The number of images, declared.
    """
    steps, rate = settings["steps"], settings["sampling_rate"]
    ledger, noise = Ledger(unit=Unit.IMAGE), 0.0
    if budget.private:
        slack = noise_slack(size, steps=steps)
        ledger = ledger.spend(slack, purpose="distance of grid noise from Gaussian")
        noise = calibration.noise_multiplier(budget, sampling_rate=rate, steps=steps, ledger=ledger)
        ledger = ledger.assuming(*of_noise(seeded=True))
    plan = TrainingPlan(
        clipping=Flat(settings["clip_norm"]),
        noise_multiplier=noise,
        sampling_rate=rate,
        expected_batch_size=rate * num_records,
        steps=steps,
        optimizer=Optimizer(learning_rate=settings["learning_rate"]),
        private=budget.private,
    )
    facts = declared("the size of images", "the range of pixels", num_records=num_records)
    return plan, ledger.spend(plan.event, purpose="training").assuming(facts)


def megabytes(flow: Flow) -> float:
    """The size of a flow, in single precision."""
    return 4 * num_parameters(flow) / 1e6


def loss(flow: Flow, image: Array, key: Key[Array, ""]) -> Float[Array, ""]:
    """The negative log-density but for constants. All of it depends on the image."""
    noise = jax.random.uniform(key, image.shape)
    shares = _EDGE + (1 - 2 * _EDGE) * (image.astype(jnp.float32) + noise) / 256
    return -flow.private_log_prob((jnp.log(shares) - jnp.log1p(-shares)).ravel())


@eqx.filter_jit
def _drawn(flow: Flow, key: Key[Array, ""]) -> Array:
    numbers = jax.vmap(flow.sample)(jax.random.split(key, AT_ONCE))
    shares = (jax.nn.sigmoid(jnp.nan_to_num(numbers)) - _EDGE) / (1 - 2 * _EDGE)
    return jnp.clip(jnp.floor(256 * shares), 0, 255).astype(jnp.uint8)
