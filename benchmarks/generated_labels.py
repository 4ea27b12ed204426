"""Generated classification problems that the samplers of `vf.ExpMechClassifier` were tuned on.

Nobody's rows, so looking is free. Features lie in [-1, 1], as if scaled by declared bounds: a third of
them are smooth, a third are yes or no, and a third are amounts that are mostly nothing and at times a
lot. They hang together by a few hidden numbers. The label follows a logistic model of the features
that a bend makes not quite true.
"""

import numpy as np


def labeled(
    n: int, num_features: int, *, seed: int, problem: int = 0, positive: float = 0.25
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of 0 and 1.

    Args:
        n: How many.
        num_features: In a row.
        seed: Seed of the rows.
        problem: Which problem: rows of one problem have one law.
        positive: About which share of labels is 1.
    """
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(1000 + problem)
    hidden = rng.normal(size=(n, 4))
    mixed = 0.6 * hidden @ fixed.normal(size=(4, num_features)) / 2
    mixed += 0.8 * rng.normal(size=(n, num_features))
    cuts = fixed.uniform(-0.8, 1.2, num_features)
    features, kinds = np.empty((n, num_features)), np.arange(num_features) % 3
    smooth, flags, amounts = (kinds == kind for kind in range(3))
    features[:, smooth] = mixed[:, smooth] / 3 + fixed.uniform(-0.4, 0.2, smooth.sum())
    features[:, flags] = np.where(mixed[:, flags] > cuts[flags], 1.0, -1.0)
    features[:, amounts] = -1 + 0.25 * np.maximum(0, mixed[:, amounts] - cuts[amounts]) ** 2
    features = np.clip(features, -1, 1)
    weights = fixed.normal(size=num_features) / np.array([0.3, 0.8, 0.12])[kinds]
    score = (features - features.mean(0)) @ weights * 1.6 / num_features**0.5
    score += 0.6 * np.sin(2 * hidden[:, 0]) + 0.4 * hidden[:, 1] * (hidden[:, 2] > 0)
    score += np.quantile(-score, positive) - np.log(1 / positive - 1) * 0.2
    return features, (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)
