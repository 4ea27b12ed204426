"""Generated faces in color, of two kinds: nobody's pictures, in any size.

They stand in for photographs where none may be shipped. A face is an oval with eyes, brows, a nose, a
mouth and hair on a shaded ground; it turns a little, and the light comes from a side. The two kinds
differ in the length of hair, the jaw, brows and lips, and some of one kind have a beard; each overlaps
with the other.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float, Int, UInt8

_CHUNK = 200
_SKIN = np.array([[0.96, 0.80, 0.69], [0.88, 0.67, 0.53], [0.68, 0.47, 0.34], [0.42, 0.28, 0.21]])
_HAIR = np.array([[0.10, 0.08, 0.07], [0.31, 0.20, 0.12], [0.72, 0.56, 0.32], [0.55, 0.52, 0.50]])
_IRIS = np.array([[0.25, 0.16, 0.10], [0.28, 0.42, 0.55], [0.30, 0.38, 0.24]])
_EYE_WHITE = np.array([0.93, 0.92, 0.90])

Maps = Float[np.ndarray, "n size size"]
Colors = Float[np.ndarray, "n 3"]


def faces(
    n: int, *, size: int = 32, seed: int
) -> tuple[UInt8[np.ndarray, "n 3 size size"], Int[np.ndarray, " n"]]:
    """Pixels and kinds of faces. The first of many are those of fewer up to a multiple of 200."""
    kinds = np.random.default_rng(seed).integers(0, 2, n).astype(np.int32)
    pixels = np.empty((n, 3, size, size), np.uint8)

    def draw(first: int) -> None:
        chosen = kinds[first : first + _CHUNK]
        drawn = _Face(chosen, size, np.random.default_rng([seed, first])).drawn()
        pixels[first : first + len(chosen)] = np.round(255 * np.clip(drawn, 0, 1))

    with ThreadPoolExecutor() as pool:  # NumPy computes outside the interpreter's lock
        list(pool.map(draw, range(0, n, _CHUNK)))
    return pixels, kinds


class _Face:
    """Several faces at once. Coordinates are in [-1, 1], y downwards; x and y follow the head."""

    def __init__(self, kinds: Int[np.ndarray, " n"], size: int, rng: np.random.Generator) -> None:
        self.kinds, self.rng, self.n = kinds, rng, len(kinds)
        self.sharpness = size * 0.9
        axis = (np.arange(size) + 0.5) * 2 / size - 1
        turn = self.normal(0, 0.08)
        x, y = (
            axis[None, None, :] - self.normal(0, 0.05),
            axis[None, :, None] - self.normal(0, 0.05),
        )
        self.x, self.y = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
        self.looks = self.normal(0, 0.07)  # to the left or right: features move, the head does not
        self.image = np.empty((self.n, 3, size, size))

    def normal(self, mean: float, sd: float) -> Maps:
        """A number for each face."""
        return self.rng.normal(mean, sd, (self.n, 1, 1))

    def by_kind(self, one: float, other: float, sd: float) -> Maps:
        """A number for each face, whose mean depends on its kind."""
        return np.where(self.kinds == 1, one, other)[:, None, None] + self.normal(0, sd)

    def color(self, palette: Float[np.ndarray, "k 3"], sd: float = 0.04) -> Colors:
        """A mixture of colors of a palette for each face."""
        shares = self.rng.dirichlet(np.full(len(palette), 0.5), self.n)
        return shares @ palette + self.rng.normal(0, sd, (self.n, 3))

    def oval(self, x: Maps | float, y: Maps | float, width: Maps, height: Maps) -> Maps:
        """Where an oval is: 1 inside, 0 outside, soft at its edge."""
        far = np.hypot((self.x - x) / width, (self.y - y) / height)
        return _soft((1 - far) * np.minimum(width, height) * self.sharpness)

    def paint(self, where: Maps, color: Colors, light: Maps | float = 1.0) -> None:
        """Put a color over what is there."""
        layer = color[:, :, None, None] * np.broadcast_to(light, where.shape)[:, None]
        self.image += where[:, None] * (layer - self.image)

    def drawn(self) -> Float[np.ndarray, "n 3 size size"]:
        """The faces, from the ground to the hair over the forehead."""
        side = self.normal(0, 0.25)
        light = 1 + side * self.x - 0.08 * self.y
        width, height = self.by_kind(0.50, 0.45, 0.03), self.normal(0.66, 0.03)
        skin, hair = self.color(_SKIN), self.color(_HAIR)
        ground = self.color(self.rng.uniform(0.1, 0.95, (6, 3)))
        self.image[:] = ground[:, :, None, None] * (1 + 0.25 * self.normal(0, 1) * self.y)[:, None]

        length = self.by_kind(0.05, 0.62, 0.16)
        behind = self.oval(0.0, -0.18 + length / 2, width * 1.28, 0.72 + length / 2)
        self.paint(behind, hair, light)
        self.paint(self.oval(0.0, 1.15, width * 1.9, self.normal(0.45, 0.04)), self.color(ground))
        neck = _soft((0.55 * width - np.abs(self.x)) * self.sharpness) * (self.y > 0.3)
        self.paint(neck * (self.y < 0.9), skin, 0.86 * light)
        head = self.oval(0.0, 0.05, width, height)
        self.paint(head, skin, light)
        self._beard(head, hair, light)
        self._features(skin, hair, width, light)

        line = self.normal(-0.42, 0.06) + 0.25 * self.normal(0, 0.5) * self.x
        over = self.oval(0.0, -0.1, width * 1.1, height * 1.0) * _soft(
            (line - self.y) * self.sharpness
        )
        self.paint(over, hair, light)
        grain = self.rng.normal(0, 0.015, self.image.shape)
        return self.image + grain

    def _beard(self, head: Maps, hair: Colors, light: Maps) -> None:
        bearded = (self.kinds == 1) & (self.rng.uniform(size=self.n) < 0.5)
        low = _soft((self.y - 0.34 - 0.5 * (0.3 - np.abs(self.x))) * self.sharpness)
        depth = self.rng.uniform(0.35, 0.9, (self.n, 1, 1)) * bearded[:, None, None]
        self.paint(head * low * depth, hair, light)

    def _features(self, skin: Colors, hair: Colors, width: Maps, light: Maps) -> None:
        apart, level = 0.42 * width + self.normal(0, 0.01), self.normal(-0.08, 0.03)
        opened, iris = np.abs(self.normal(0.055, 0.012)), self.color(_IRIS)
        brow = np.maximum(self.by_kind(0.034, 0.022, 0.006), 0.01)
        white = np.broadcast_to(_EYE_WHITE, (self.n, 3))
        for side in (-1, 1):
            x = self.looks + side * apart
            self.paint(self.oval(x, level, 0.11 + 0 * apart, opened), white, light)
            self.paint(self.oval(x + 0.4 * self.looks, level, 0.05 + 0 * apart, opened), iris)
            self.paint(self.oval(x, level - 0.14, 0.14 + 0 * apart, brow), hair, 0.9 * light)
        nose = self.oval(1.3 * self.looks + 0.03, 0.18, self.normal(0.06, 0.008), 0.16 + 0 * apart)
        self.paint(0.35 * nose, skin, 0.72 * light)
        lips = 0.75 * skin * np.array([1.0, 0.72, 0.72]) + np.array([0.12, 0.0, 0.02])
        lips = lips + self.by_kind(0.0, 0.10, 0.03)[:, :, 0] * np.array([1.0, -0.5, -0.4])
        smile, wide = self.normal(0.15, 0.35), self.normal(0.2, 0.03)
        bend = smile * (self.x - self.looks) ** 2
        inside = 1 - np.hypot(
            (self.x - self.looks) / wide, (self.y - 0.42 + bend) / np.abs(self.normal(0.06, 0.012))
        )
        self.paint(_soft(inside * 0.06 * self.sharpness), lips, light)


def _soft(x: Maps) -> Maps:
    return 1 / (1 + np.exp(-4 * np.clip(x, -20, 20)))
