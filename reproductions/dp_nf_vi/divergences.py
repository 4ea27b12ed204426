"""Figure 4: which correlation a guide takes whose variance is held too wide, by divergence.

A normal q with correlation rho and a deviation held at `wide` times that of a normal p; for each
divergence the rho that brings q closest to p. Both are two-dimensional, with equal variances.
"""

from itertools import chain
from pathlib import Path

import numpy as np

from reproductions.metrics.figures import canvas, legend, save

CASES = ((0.0, 1.0), (0.5, 1.0), (0.5, 4.0))
"""Correlation and deviation of p."""
RHOS = np.linspace(-0.98, 0.98, 197)
WIDE = np.linspace(1.02, 4.0, 40)


def covariance(rho: float, sd: float) -> np.ndarray:
    """Of two equally wide coordinates."""
    return sd**2 * np.array([[1.0, rho], [rho, 1.0]])


def kl(q: np.ndarray, p: np.ndarray) -> float:
    """KL(q || p) of centered normals."""
    inverse = np.linalg.inv(p)
    log_det = np.linalg.slogdet(p)[1] - np.linalg.slogdet(q)[1]
    return float(0.5 * (np.trace(inverse @ q) - len(q) + log_det))


def total_variation(q: np.ndarray, p: np.ndarray, *, size: int = 121) -> float:
    """The integral of |p - q|, on a grid six deviations of the wider one wide."""
    reach = 6 * np.sqrt(max(q[0, 0], p[0, 0]))
    axis = np.linspace(-reach, reach, size)
    points = np.stack(np.meshgrid(axis, axis), axis=-1)
    densities = []
    for c in (q, p):
        quadratic = np.einsum("...i,ij,...j->...", points, np.linalg.inv(c), points)
        densities.append(np.exp(-0.5 * quadratic) / (2 * np.pi * np.sqrt(np.linalg.det(c))))
    return float(np.abs(densities[0] - densities[1]).sum() * (axis[1] - axis[0]) ** 2)


def wasserstein(q: np.ndarray, p: np.ndarray) -> float:
    """The squared 2-Wasserstein distance."""
    values, vectors = np.linalg.eigh(p)
    root = (vectors * np.sqrt(values)) @ vectors.T
    cross = np.linalg.eigvalsh(root @ q @ root)
    return float(np.trace(p + q) - 2 * np.sqrt(np.maximum(cross, 0)).sum())


DIVERGENCES = {
    "KL(q || p)": kl,
    "KL(p || q)": lambda q, p: kl(p, q),
    "integral of |p - q|": total_variation,
    "Wasserstein": wasserstein,
}


def best_correlation(name: str, rho: float, sd: float, wide: float) -> float:
    """The correlation of the closest q; of two that are as close, as where p has none, the positive."""
    p, far = covariance(rho, sd), DIVERGENCES[name]
    return float(min(RHOS[::-1], key=lambda r: round(far(covariance(r, wide * sd), p), 9)))


def draw(path: Path) -> None:
    """Four panels, one for each divergence: contours over width and correlation, the best as a line."""
    figure, axes = canvas(2, 2, panel=(3.4, 2.8))
    rho, sd = CASES[1]
    p = covariance(rho, sd)
    for axis, (name, far) in zip(chain(*axes), DIVERGENCES.items(), strict=True):
        wide, some = WIDE[::3], RHOS[::6]
        values = np.array([[far(covariance(r, w * sd), p) for w in wide] for r in some])
        axis.contour(wide, some, np.log10(values + 1e-3), levels=14, cmap="viridis", linewidths=0.8)
        looks = (("-", "crimson"), ("-", "black"), (":", "orange"))
        for (style, color), (r0, s0) in zip(looks, CASES, strict=True):
            best = [best_correlation(name, r0, s0, w) for w in wide]
            label = f"best, correlation {r0:g}, SD {s0:g}" if axis is axes[0][0] else None
            axis.plot(wide, best, style, color=color, linewidth=1.8, label=label)
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("SD of q over that of p", fontsize=8)
        axis.set_ylabel("correlation of q", fontsize=8)
        axis.set_ylim(-1, 1)
    legend(figure, columns=3)
    save(figure, path)


if __name__ == "__main__":
    for rho, sd in CASES:
        for name in DIVERGENCES:
            best = [best_correlation(name, rho, sd, wide) for wide in (1.25, 2.0, 4.0)]
            print(f"p: correlation {rho:g}, SD {sd:g}; {name}: {best}")
    draw(Path("figure-4.png"))
