"""A problem of two parameters, small enough for every exact sampler."""

import numpy as np

from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.expm.loss import BoundedLoss
from veilflow.releases.expm.network import Logistic
from veilflow.releases.expm.prior import GaussianPrior
from veilflow.releases.expm.target import Target

NUM = 60


def target(epsilon: float, **settings) -> Target:
    settings = {"prior": GaussianPrior(3.0), **settings}
    return Target(
        network=Logistic(num_features=1), loss=BoundedLoss("l2"), epsilon=epsilon, **settings
    )


def _records():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (NUM, 1)).astype(np.float32)
    return x, (x[:, 0] + 0.2 * rng.normal(size=NUM) > 0).astype(np.int32)


RECORDS = _records()
SENSITIVE = Sensitive(RECORDS)
