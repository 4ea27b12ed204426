"""Generated images the planner of image flows was fitted on; nobody's pictures, so looking is free.

`strokes` are signs drawn with a pen: a line through a few points, which every image moves a little, in
a hand (slant, size, turn, width of the pen) of its own. `garments` are filled outlines with a shade and
a pattern. Ten classes of each, 28 x 28 in gray, bytes. `scenes` are in color and of the size of
CIFAR-10, 32 x 32: things of ten classes, turned, stretched and lit, before grounds that say nothing
about them.
"""

import numpy as np

SIZE = 28
SCENE_SIZE = 32
_CHUNK = 500
_SIGNS = (
    ((0, -1), (-0.6, -0.5), (-0.6, 0.5), (0, 1), (0.6, 0.5), (0.6, -0.5), (0, -1)),
    ((-0.3, -0.6), (0.05, -1), (0.05, -0.3), (0.05, 0.3), (0.05, 1)),
    ((-0.6, -0.6), (0, -1), (0.6, -0.6), (0.2, 0.1), (-0.6, 1), (0, 0.9), (0.7, 1)),
    ((-0.5, -0.9), (0.5, -0.8), (0, -0.1), (0.6, 0.4), (0.1, 1), (-0.6, 0.8)),
    ((-0.3, -1), (-0.6, 0.1), (0.6, 0.1), (0.3, -0.6), (0.35, 0.2), (0.3, 1)),
    ((0.6, -1), (-0.4, -1), (-0.5, -0.1), (0.4, 0), (0.5, 0.7), (-0.5, 1)),
    ((0.4, -1), (-0.4, -0.2), (-0.5, 0.7), (0.2, 1), (0.5, 0.4), (-0.4, 0.3)),
    ((-0.6, -0.9), (0, -0.95), (0.6, -0.9), (0.2, 0), (-0.1, 1)),
    ((0.4, -0.8), (-0.4, -0.7), (0.4, 0.5), (0, 1), (-0.5, 0.6), (0.4, -0.4), (0.4, -0.8)),
    ((0.5, -0.6), (-0.1, -0.9), (-0.4, -0.3), (0.3, -0.1), (0.5, -0.7), (0.3, 1)),
    # another hand writes the same ten otherwise
    ((0.2, -0.9), (-0.5, -0.8), (-0.6, 0.5), (0.1, 1), (0.7, 0.4), (0.4, -0.7), (-0.1, -0.8)),
    ((0.3, -1), (0.1, -0.4), (-0.1, 0.3), (-0.3, 1)),
    ((-0.5, -0.5), (0.1, -1), (0.4, -0.5), (-0.4, 0.9), (-0.5, 0.5), (0.1, 0.7), (0.7, 0.9)),
    ((-0.6, -1), (0.6, -1), (-0.1, -0.2), (0.6, 0.3), (0.2, 1), (-0.5, 1)),
    ((-0.5, -0.8), (-0.5, 0), (0, 0.1), (0.5, 0), (0.5, -0.9), (0.4, 0.1), (0.4, 1)),
    ((0.5, -0.9), (-0.3, -0.9), (-0.4, -0.2), (0.3, -0.2), (0.5, 0.4), (0, 1), (-0.6, 0.7)),
    ((0, -1), (-0.5, 0), (-0.4, 0.9), (0.4, 0.9), (0.4, 0.2), (-0.1, 0.1), (-0.5, 0.6)),
    ((-0.5, -0.7), (-0.4, -1), (0.6, -0.9), (0.1, 0.1), (0.4, 0), (0, 0.2), (-0.2, 1)),
    ((0, -1), (-0.5, -0.5), (0.5, 0.4), (0, 1), (-0.5, 0.5), (0.5, -0.5), (0, -1)),
    ((0.4, -0.9), (-0.4, -0.8), (-0.3, -0.1), (0.4, -0.3), (0.4, -0.8), (0.4, 0.3), (-0.3, 1)),
)
_CLASSES = 10
_POINTS = 25
"""Points of the line that is drawn, along the spline through a sign's points."""


def strokes(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, 1, 28, 28) and classes of signs drawn with a pen."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, _CLASSES, n).astype(np.int32)
    pixels = np.empty((n, 1, SIZE, SIZE), np.uint8)
    for first in range(0, n, _CHUNK):
        chosen = labels[first : first + _CHUNK]
        hand = _CLASSES * rng.integers(0, 2, len(chosen))
        pixels[first : first + _CHUNK, 0] = _drawn(_lines(chosen + hand, rng), rng)
    return pixels, labels


def garments(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, 1, 28, 28) and classes of filled outlines with a shade and a pattern."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(21)
    labels = rng.integers(0, 10, n).astype(np.int32)
    # a width at seven heights, and whether there is a gap in the middle; two by two they are alike
    widths = np.repeat(fixed.uniform(0.25, 0.85, (5, 7)), 2, axis=0)
    widths[1::2] += fixed.normal(0, 0.12, (5, 7))
    gaps = fixed.uniform(size=10) < 0.3
    stripes, tilt = fixed.uniform(0, 9, 10), fixed.uniform(-1, 1, 10)
    axis = np.linspace(-1, 1, SIZE)
    knots = np.linspace(-0.9, 0.9, 7)
    pixels = np.empty((n, 1, SIZE, SIZE), np.uint8)
    for first in range(0, n, _CHUNK):
        c = labels[first : first + _CHUNK]
        m = len(c)
        width = widths[c] * rng.normal(1, 0.12, (m, 1)) + rng.normal(0, 0.04, (m, 7))
        outline = np.stack([np.interp(axis, knots, w) for w in width])
        reach = rng.uniform(0.75, 1.0, (m, 1))
        inside = _soft(outline[:, :, None] - np.abs(axis)[None, None])
        inside = inside * _soft(reach - np.abs(axis))[:, :, None]
        gap = gaps[c][:, None, None] & (axis > rng.uniform(-0.4, 0, (m, 1)))[:, :, None]
        inside = np.where(gap, inside * (1 - _soft(0.12 - np.abs(axis)))[None, None], inside)
        phase = rng.uniform(0, 2 * np.pi, (m, 1, 1))
        lines = stripes[c][:, None, None] * (axis[:, None] + tilt[c][:, None, None] * axis) + phase
        depth = rng.beta(1, 3, (m, 1, 1))
        shade = rng.beta(4, 2, (m, 1, 1)) * (1 - depth * (0.5 + 0.5 * np.sin(lines)))
        grain = rng.normal(0, 0.04, inside.shape)
        pixels[first : first + m, 0] = _bytes(inside * np.clip(shade + grain, 0, 1))
    return pixels, labels


def scenes(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, 3, 32, 32) and classes of colored things before colored grounds.

    Five outlines, each in two palettes that overlap. An outline is a radius that waves as the angle
    goes round; the thing is turned, stretched, moved, and lit from a side.
    """
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(31)
    labels = rng.integers(0, _CLASSES, n).astype(np.int32)
    lobes, depths = np.array([2, 3, 4, 5, 1])[:, None], np.array([0.45, 0.35, 0.25, 0.3, 0.15])
    palettes = fixed.uniform(0.15, 0.95, (_CLASSES, 3))
    axis = np.linspace(-1, 1, SCENE_SIZE)
    pixels = np.empty((n, 3, SCENE_SIZE, SCENE_SIZE), np.uint8)
    for first in range(0, n, _CHUNK):
        c = labels[first : first + _CHUNK]

        def normal(mean: float, sd: float, m: int = len(c)) -> np.ndarray:
            return rng.normal(mean, sd, (m, 1, 1))

        turn, x0, y0 = normal(0, 0.5), normal(0, 0.15), normal(0, 0.15)
        x, y = axis[None, None, :] - x0, axis[None, :, None] - y0
        u = (x * np.cos(turn) + y * np.sin(turn)) * np.exp(normal(0, 0.15))
        v = (y * np.cos(turn) - x * np.sin(turn)) * np.exp(normal(0, 0.15))
        wave = np.cos(lobes[c // 2, :, None] * np.arctan2(v, u) + normal(0, 0.15))
        radius = np.exp(normal(-0.6, 0.12)) * (1 + depths[c // 2][:, None, None] * wave)
        inside = _soft(radius - np.hypot(u, v), 18.0)
        side, light = normal(0, 0.2), normal(1, 0.1)
        thing = palettes[c] + rng.normal(0, 0.3, (len(c), 3))
        thing = thing[:, :, None, None] * (light + side * u)[:, None]
        ground = rng.uniform(0.05, 0.95, (2, len(c), 3, 1, 1))
        share = _soft(y - normal(0.2, 0.3), 6.0)[:, None]  # a horizon
        behind = ground[0] + share * (ground[1] - ground[0])
        image = behind + inside[:, None] * (thing - behind)
        pixels[first : first + len(c)] = _bytes(image + rng.normal(0, 0.03, image.shape))
    return pixels, labels


def _lines(chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The points (images, points, 2) of every image's line, in [-1, 1] or a little beyond."""
    splines = np.stack([_spline(len(sign)) @ _padded(sign) for sign in _SIGNS])
    # what moves a line must be smooth along it: a few waves of the pen
    along = np.linspace(0, 1, _POINTS)
    waves = np.stack([np.cos(np.pi * k * along) / (1 + k) for k in range(5)])
    wobble = np.einsum("mkd,kp->mpd", rng.normal(0, 0.24, (len(chosen), 5, 2)), waves)
    points = splines[chosen] + wobble
    turn, slant = rng.normal(0, 0.2, len(chosen)), rng.normal(0.1, 0.3, len(chosen))
    size = np.exp(rng.normal(0, 0.1, (len(chosen), 2)))
    c, s = np.cos(turn), np.sin(turn)
    matrix = np.stack([np.stack([c, s - slant], -1), np.stack([-s, c], -1)], -2)
    moved = np.einsum("mij,mpj->mpi", matrix, points) * size[:, None] * 0.62
    return moved - moved.mean(1, keepdims=True) + rng.normal(0, 0.03, (len(chosen), 1, 2))


def _drawn(lines: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Bytes (images, 28, 28): dark where a pixel is nearer to the line than half a pen."""
    axis = np.linspace(-1, 1, SIZE)
    grid = np.stack(np.meshgrid(axis, axis, indexing="xy"), -1).reshape(-1, 2)
    start, step = lines[:, :-1], np.diff(lines, axis=1)
    length = np.maximum((step**2).sum(-1), 1e-9)
    # |g - s - t d|^2 with the best t of each segment, without an array of pixels x segments x 2
    dots = np.einsum("gi,msi->mgs", grid, step) - (start * step).sum(-1)[:, None]
    t = np.clip(dots / length[:, None], 0, 1)
    to_start = (
        (grid**2).sum(-1)[None, :, None]
        - 2 * np.einsum("gi,msi->mgs", grid, start)
        + (start**2).sum(-1)[:, None]
    )
    squared = (to_start - 2 * t * dots + t**2 * length[:, None]).min(-1)
    pen = rng.uniform(0.05, 0.17, (len(lines), 1))
    ink = _soft(pen - np.sqrt(np.maximum(squared, 0)), 40.0)
    return _bytes(ink.reshape(-1, SIZE, SIZE))


def _spline(number: int) -> np.ndarray:
    """From points and one more at each end to `_POINTS` on the Catmull-Rom curve through them."""
    matrix = np.zeros((_POINTS, number + 2))
    for row, place in enumerate(np.linspace(0, number - 1, _POINTS)):
        i = min(int(place), number - 2)
        u = place - i
        matrix[row, i : i + 4] = (
            (-u + 2 * u**2 - u**3) / 2,
            (2 - 5 * u**2 + 3 * u**3) / 2,
            (u + 4 * u**2 - 3 * u**3) / 2,
            (-(u**2) + u**3) / 2,
        )
    return matrix


def _padded(sign: tuple[tuple[float, float], ...]) -> np.ndarray:
    points = np.asarray(sign, float)
    return np.concatenate([points[:1], points, points[-1:]])


def _soft(x: np.ndarray, steepness: float = 25.0) -> np.ndarray:
    return 1 / (1 + np.exp(-steepness * x))


def _bytes(shade: np.ndarray) -> np.ndarray:
    return np.round(255 * np.clip(shade, 0, 1)).astype(np.uint8)
