"""Small labeled pictures that a classifier can learn within seconds."""

import numpy as np


def stripes(num_images, *, channels=1, side=8, noise=0.3, seed=0):
    """Noisy horizontal (0) and vertical (1) stripes of two pixels, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, num_images)
    bars = np.broadcast_to((np.arange(side) // 2 % 2)[:, None], (side, side))
    clean = np.stack([bars, bars.T])[labels][:, None]
    noisy = clean + noise * rng.standard_normal((num_images, channels, side, side))
    return np.clip(noisy, 0, 1), labels


def digits():
    """The 1,797 digits of 8 x 8 pixels that scikit-learn ships, in [0, 1], and their labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.images[:, None] / 16, found.target
