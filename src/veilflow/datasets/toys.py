"""Generated data sets with known moments; the two-dimensional ones are classics of flow papers.

`standardize=True` shifts and scales a set by the mean and standard deviation of its generator. These
are public constants: unlike the moments of a sample, they cost nothing to use.
"""

import math

import numpy as np
from jaxtyping import Float

from veilflow._core import check

Plane = Float[np.ndarray, "n 2"]


def moons(
    n: int, *, noise: float = 0.05, seed: int | None = None, standardize: bool = False
) -> Plane:
    """Two interleaving half circles of radius 1, n / 2 points on each.

    Args:
        n: Number of points.
        noise: Standard deviation of the Gaussian noise around the half circles.
        seed: Seed for reproducible points; None draws new ones.
        standardize: Shift and scale by the generator's mean and standard deviation.

    Returns:
        The points, in random order.
    """
    check.count(n=n)
    check.nonnegative(noise=noise)
    rng = np.random.default_rng(seed)
    lower = rng.permutation(np.arange(n) % 2)
    angle = rng.uniform(0, math.pi, n)
    arc = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.where(lower[:, None] == 1, np.array([1.0, 0.5]) - arc, arc)
    points += noise * rng.standard_normal((n, 2))
    height = 2 / math.pi  # the mean height of a half circle
    return _finish(
        points,
        mean=(0.5, 0.25),
        variance=(0.75 + noise**2, 0.5 - height**2 + (height - 0.25) ** 2 + noise**2),
        standardize=standardize,
    )


def gaussians(
    n: int,
    *,
    components: int = 8,
    radius: float = 2.0,
    std: float = 0.2,
    seed: int | None = None,
    standardize: bool = False,
) -> Plane:
    """Round Gaussians spaced evenly on a circle around (3, 3), equally many points in each.

    Args:
        n: Number of points.
        components: Number of Gaussians; at least 3.
        radius: Radius of the circle on which their centers lie.
        std: Standard deviation of each Gaussian, in both directions.
        seed: Seed for reproducible points; None draws new ones.
        standardize: Shift and scale by the generator's mean and standard deviation.

    Returns:
        The points, in random order.
    """
    check.count(n=n)
    check.count(components=components, at_least=3)
    check.positive(radius=radius, std=std)
    rng = np.random.default_rng(seed)
    angle = 2 * math.pi / components * rng.permutation(np.arange(n) % components)
    centers = 3 + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    variance = radius**2 / 2 + std**2
    return _finish(
        centers + std * rng.standard_normal((n, 2)),
        mean=(3.0, 3.0),
        variance=(variance, variance),
        standardize=standardize,
    )


def pinwheel(
    n: int,
    *,
    arms: int = 5,
    radial_std: float = 0.3,
    tangential_std: float = 0.05,
    rate: float = 0.25,
    seed: int | None = None,
    standardize: bool = False,
) -> Plane:
    """Gaussian arms around the origin, each bent by an angle that grows with the distance.

    Args:
        n: Number of points, equally many on each arm.
        arms: Number of arms; at least 3.
        radial_std: Standard deviation along an arm.
        tangential_std: Standard deviation across an arm.
        rate: How strongly the arms are bent; an arm at distance r turns by `rate * exp(r)`.
        seed: Seed for reproducible points; None draws new ones.
        standardize: Shift and scale by the generator's mean and standard deviation.

    Returns:
        The points, in random order.
    """
    check.count(n=n)
    check.count(arms=arms, at_least=3)
    check.positive(radial_std=radial_std, tangential_std=tangential_std)
    check.finite(rate=rate)
    rng = np.random.default_rng(seed)
    along = 1 + radial_std * rng.standard_normal(n)
    across = tangential_std * rng.standard_normal(n)
    arm = 2 * math.pi / arms * rng.permutation(np.arange(n) % arms)
    angle = arm + rate * np.exp(along)
    cos, sin = np.cos(angle), np.sin(angle)
    # Rotations keep lengths, and three or more arms are symmetric: the mean is zero, and the variance
    # of both coordinates is half of the mean squared length.
    variance = (1 + radial_std**2 + tangential_std**2) / 2
    return _finish(
        np.stack([along * cos + across * sin, across * cos - along * sin], axis=1),
        mean=(0.0, 0.0),
        variance=(variance, variance),
        standardize=standardize,
    )


def correlated(n: int, dim: int = 10, *, seed: int | None = None) -> Float[np.ndarray, "n dim"]:
    """A nonlinear chain of features: each bends around the one before, with a changing spread.

    The first feature is standard normal. Feature j is `sin(1.5 x[j-1]) + s z`, where z is standard
    normal and the spread s is `0.2 + 0.2 / (1 + exp(-2 x[j-2]))`, so features depend on each other
    in ways that no single Gaussian can model. From the second on, each feature lies within [-4, 4]
    except with a probability below 1e-12.

    Args:
        n: Number of rows.
        dim: Number of features.
        seed: Seed for reproducible rows; None draws new ones.

    Returns:
        The rows.
    """
    check.count(n=n, dim=dim)
    noise = np.random.default_rng(seed).standard_normal((n, dim))
    rows = np.empty((n, dim))
    rows[:, 0] = noise[:, 0]
    for j in range(1, dim):
        spread = 0.2 + 0.2 / (1 + np.exp(-2 * rows[:, max(j - 2, 0)]))
        rows[:, j] = np.sin(1.5 * rows[:, j - 1]) + spread * noise[:, j]
    return rows


def _finish(
    points: Plane,
    *,
    mean: tuple[float, float],
    variance: tuple[float, float],
    standardize: bool,
) -> Plane:
    return (points - np.array(mean)) / np.sqrt(variance) if standardize else points
