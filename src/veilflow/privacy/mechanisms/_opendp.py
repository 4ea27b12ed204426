"""The only file that uses OpenDP, for exact integer noise and exact noisy maxima.

OpenDP takes its entropy from the operating system and samples with rational arithmetic, so nothing here
depends on floating-point rounding. It is imported on first use.
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

_INT64 = 2**63 - 1


@functools.cache
def _opendp() -> Any:
    import opendp.prelude as dp
    from opendp.mod import enable_features

    enable_features("contrib")
    return dp


def add_discrete_laplace(
    values: Sequence[int], *, sensitivity: int, epsilon: float
) -> tuple[list[int], float]:
    """`values` plus discrete Laplace noise for an L1 `sensitivity`, and the scale of the noise."""
    scale = scale_for(Fraction(sensitivity) / Fraction(epsilon))
    measurement = _laplace_on_integers(scale)
    # OpenDP's privacy map rounds up and may exceed epsilon by an ulp: widen until it does not.
    while measurement.map(sensitivity) > epsilon:
        scale *= 1 + 2.0**-50
        measurement = _laplace_on_integers(scale)
    return measurement([_fit(v) for v in values]) if len(values) else [], scale


def discrete_laplace_noise(*, scale: float) -> int:
    """One draw of discrete Laplace noise."""
    return _laplace_on_integers(scale)([0])[0]


def add_discrete_gaussian(values: Sequence[int], *, stddev: float) -> list[int]:
    """`values` plus independent discrete Gaussian noise of parameter `stddev`."""
    return _gaussian_on_integers(stddev)([_fit(v) for v in values]) if len(values) else []


def noisy_argmax(scores: Sequence[int] | Sequence[float], *, scale: float) -> int:
    """An index, with probability proportional to exp(score / scale), by Gumbel noise."""
    kind = "i64" if isinstance(scores[0], int) else "f64"
    return int(_gumbel_maximum(kind, scale)(list(scores)))


def scale_for(exact: Fraction) -> float:
    """The smallest float that is at least `exact`."""
    scale = float(exact)
    return scale if Fraction(scale) >= exact else math.nextafter(scale, math.inf)


def _fit(value: int) -> int:
    return max(-_INT64, min(_INT64, int(value)))


@functools.lru_cache(maxsize=64)
def _laplace_on_integers(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


@functools.lru_cache(maxsize=64)
def _gaussian_on_integers(stddev: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=stddev)


@functools.lru_cache(maxsize=64)
def _gumbel_maximum(kind: str, scale: float) -> Any:
    dp = _opendp()
    atoms = dp.atom_domain(T=kind) if kind == "i64" else dp.atom_domain(T=kind, nan=False)
    space = dp.vector_domain(atoms), dp.linf_distance(T=kind)
    # The concentrated variant is the exponential mechanism (Gumbel noise); the pure one is
    # permute-and-flip, which is not bounded-range and does not match our event.
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)
