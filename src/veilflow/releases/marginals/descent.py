"""Limited-memory BFGS for smooth convex functions, in NumPy.

SciPy's calls BLAS for vectors of a few numbers, whose threads wait for each other far longer than they
work when a machine is busy: most of a small fit was spent there.
"""

from collections import deque
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Vector = Float[np.ndarray, " n"]

_MEMORY = 20
_DECREASE = 1e-4
_SHORTEST = 1e-10
"""Of a step, relative to the full one: beyond it rounding decides, and there is nothing to gain."""


def minimized(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    iterations: int,
    tolerance: float,
) -> Vector:
    """Where `function`, which returns its value and its gradient, is about least.

    Args:
        function: Smooth and convex.
        start: Where to begin.
        iterations: At most so many steps.
        tolerance: Steps that lower the value by less than this, relative to it, end the search.
    """
    at, (value, gradient) = start, function(start)
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=_MEMORY)
    for _ in range(iterations):
        direction = -_newton_like(gradient, pairs)
        slope = _dot(gradient, direction)
        if slope >= 0:
            break  # the gradient is zero, or all rounding
        step = 1.0 if pairs else min(1.0, 1.0 / np.sqrt(-slope))
        while True:
            new_value, new_gradient = function(at + step * direction)
            if new_value <= value + _DECREASE * step * slope or step < _SHORTEST:
                break
            # where the parabola through both values has its lowest point, within reason
            parabola = -slope * step**2 / (2 * (new_value - value - slope * step))
            step = float(np.clip(parabola, 0.1 * step, 0.5 * step))
        if step < _SHORTEST:
            break
        moved, bent = step * direction, new_gradient - gradient
        if _dot(moved, bent) > 1e-12 * _dot(bent, bent):
            pairs.append((moved, bent))
        gain = value - new_value
        at, value, gradient = at + moved, new_value, new_gradient
        if gain <= tolerance * max(abs(value), 1.0):
            break
    return at


def _newton_like(gradient: Vector, pairs: deque[tuple[Vector, Vector]]) -> Vector:
    """The gradient times an inverse curvature that the latest steps speak for."""
    result, shares = gradient.copy(), []
    for moved, bent in reversed(pairs):
        shares.append(_dot(moved, result) / _dot(moved, bent))
        result -= shares[-1] * bent
    if pairs:
        moved, bent = pairs[-1]
        result *= _dot(moved, bent) / _dot(bent, bent)
    for (moved, bent), share in zip(pairs, reversed(shares), strict=True):
        result += (share - _dot(bent, result) / _dot(moved, bent)) * moved
    return result


def _dot(one: Vector, two: Vector) -> float:
    return float((one * two).sum())
