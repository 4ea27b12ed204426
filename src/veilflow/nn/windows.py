"""Gradients of the kernel of a convolution, record by record.

Two images are involved: a coarse one, with a pixel for every place of the window, and a fine one, which
is seen through the window. The gradient of one record is

    G[m, n, k] = sum over places p of coarse[m, p] fine[n, stride p + k - before].

In a convolution the cotangent is the coarse image and the input the fine one; in a transposed
convolution it is the reverse. The windows are never copied out side by side, which would take up to
nine times the memory of the fine image for a 3 x 3 kernel. Instead, the pixels at one offset of the
window, in all places, are a strided slice of the image, and large images are sliced in a loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from veilflow.nn import outer

Image = Float[Array, "records uses channels height width"]

_WIDE = 128
"""A product with a matrix of fewer rows is mostly overhead, so thinner slices are joined."""
_LARGE = 2**17
"""With more numbers per record in all windows, slices must not be in memory side by side."""


@dataclass(frozen=True)
class Windows:
    """How a window moves over the fine image; `before` is the padding above and to the left."""

    size: tuple[int, int]
    stride: int
    before: tuple[int, int]

    def seen(
        self, fine: Float[Array, "n h w"], places: tuple[int, int]
    ) -> Float[Array, "n offsets p q"]:
        """What the window sees at each of its offsets, in all `places` of one image.

        A convolution is the product of the kernel with this array, and a transposed one is the same
        product backward. This is fast on every device, even if many models are trained in parallel.
        """
        (p, q), s = places, self.stride
        margins = [(0, 0, 0)]
        for size, before, number, side in zip(
            self.size, self.before, places, fine.shape[1:], strict=True
        ):
            after = (number - 1) * s + size - before - side
            margins.append((before, after, 0))  # negative padding crops
        wide = jax.lax.pad(fine, jnp.zeros((), fine.dtype), margins)
        return jnp.stack(
            [
                wide[:, y : y + (p - 1) * s + 1 : s, x : x + (q - 1) * s + 1 : s]
                for y, x in product(range(self.size[0]), range(self.size[1]))
            ],
            axis=1,
        )

    def squared_norm(self, coarse: Image, fine: Image) -> Float[Array, " records"]:
        """|G|^2 of each record, through Gram matrices of the places if these are smaller.

        It is never underestimated: where places nearly cancel, a bound on the rounding error is added.
        """
        c = rows(coarse)
        (m, num_places), n = c.shape[1:], fine.shape[2] * self.size[0] * self.size[1]
        own, seen = jnp.sum(jnp.square(c), axis=1), self.squares_seen(coarse, fine)
        if num_places * (m + n) <= m * n:
            gram = _gram(c) * self._sum(_gram, coarse, fine)
            lengths = jnp.sqrt(own)[..., None], jnp.sqrt(seen)[..., None]
            return outer.gram_norm(jnp.sum(gram, axis=(1, 2)), *lengths)
        squared = self._sum(lambda f: outer.squares(_product(c, f)), coarse, fine)
        lengths = jnp.sqrt((own + outer.TINY) * (seen + outer.TINY))
        return outer.raised(squared, jnp.sum(lengths, axis=1))

    def weighted_sum(self, coarse: Image, fine: Image) -> Float[Array, "m n height width"]:
        """G summed over records, whose weights one of the images already contains."""
        c = rows(coarse)
        return self._kernel(lambda f: outer.contract("rmp,rnp->mn", c, f), coarse, fine)

    def per_record(self, coarse: Image, fine: Image) -> Float[Array, "records m n height width"]:
        """G of each record."""
        c = rows(coarse)
        return self._kernel(lambda f: _product(c, f), coarse, fine)

    def squares_seen(self, coarse: Image, fine: Image) -> Float[Array, "records places"]:
        """The squared norm of what the window sees in each place, over all channels."""
        return self._sums(coarse, jnp.sum(jnp.square(fine), axis=2, keepdims=True))[:, 0]

    def squares_by_channel(self, coarse: Image, fine: Image) -> Float[Array, "records n places"]:
        """The squared norm of what the window sees in each place and channel."""
        return self._sums(coarse, jnp.square(fine))

    def _sums(self, coarse: Image, fine: Image) -> Float[Array, "records n places"]:
        return self._sum(lambda f: f, coarse, fine, joined=1)

    def _sum(
        self, fn: Callable[[Array], Array], coarse: Image, fine: Image, joined: int | None = None
    ) -> Array:
        """The sum of `fn` over the slices of the fine image."""
        at, groups = self._slicer(coarse, fine), self._groups(coarse, fine, joined)
        if not self._is_large(coarse, fine):
            return reduce(add, (fn(at(group)) for group in groups))
        start = jax.eval_shape(lambda group: fn(at(group)), groups[0])
        body = lambda total, group: (total + fn(at(group)), None)  # noqa: E731
        return jax.lax.scan(body, jnp.zeros(start.shape, start.dtype), groups)[0]

    def _kernel(
        self, fn: Callable[[Array], Array], coarse: Image, fine: Image
    ) -> Float[Array, "*lead m n height width"]:
        """`fn` of the slices of the fine image, with their offsets as the last two axes."""
        at, groups = self._slicer(coarse, fine), self._groups(coarse, fine)
        if self._is_large(coarse, fine):
            parts = jax.lax.map(lambda group: fn(at(group)), groups)
        else:
            parts = jnp.stack([fn(at(group)) for group in groups])
        flat = jnp.moveaxis(parts, 0, -2)  # offset by offset, all channels of each
        return jnp.moveaxis(flat.reshape(*flat.shape[:-2], *self.size, fine.shape[2]), -1, -3)

    def _is_large(self, coarse: Image, fine: Image) -> bool:
        every = coarse.shape[1] * coarse.shape[3] * coarse.shape[4] * fine.shape[2]
        return every * self.size[0] * self.size[1] > _LARGE

    def _groups(
        self, coarse: Image, fine: Image, joined: int | None = None
    ) -> Int[np.ndarray, "groups joined 2"]:
        """Offsets in the window, in groups whose slices are joined."""
        offsets = np.asarray(list(product(range(self.size[0]), range(self.size[1]))))
        numbers = () if self._is_large(coarse, fine) else (len(offsets), self.size[1])
        fits = [number for number in numbers if number * fine.shape[2] <= _WIDE]
        return offsets.reshape(-1, joined or max(fits, default=1), 2)

    def _slicer(
        self, coarse: Image, fine: Image
    ) -> Callable[[Int[Array, "joined 2"]], Float[Array, "records rows places"]]:
        """A function that returns what all places see at a group of offsets, one after the other."""
        s, margins = self.stride, [(0, 0, 0)] * 3
        for axis, (size, before) in enumerate(zip(self.size, self.before, strict=True), start=3):
            reach = (coarse.shape[axis] - 1) * s + size  # of the last window
            reach += -reach % s
            margins.append((before, reach - before - fine.shape[axis], 0))  # negative padding crops
        fine = jax.lax.pad(fine, jnp.zeros((), fine.dtype), margins)
        # pixels a stride apart are put side by side, so that loops can move slices without steps
        lead, (h, w) = fine.shape[:3], fine.shape[3:]
        apart = fine.reshape(*lead, h // s, s, w // s, s)
        sizes = (*lead, coarse.shape[3], 1, coarse.shape[4], 1)

        def at(offset: Int[Array, "2"]) -> Array:
            y, x = offset[0], offset[1]
            seen = jax.lax.dynamic_slice(apart, (0, 0, 0, y // s, y % s, x // s, x % s), sizes)
            return rows(seen.reshape(*lead, *coarse.shape[3:]))

        return lambda group: jnp.concatenate([at(group[i]) for i in range(len(group))], axis=1)


def images(x: Array, *, uses: int | None) -> Image:
    """One array of a tap, with an axis for uses even if there is only one."""
    return x[:, None] if uses is None else x


def rows(image: Image) -> Float[Array, "records channels places"]:
    """One row for each channel, with all places of all uses."""
    image = jnp.moveaxis(image, 1, 2)
    return image.reshape(*image.shape[:2], -1)


def places(image: Image) -> Float[Array, "records places channels"]:
    """The same with the places first, like the uses of a dense layer."""
    return jnp.swapaxes(rows(image), 1, 2)


def scaled(image: Image, factors: Float[Array, "records ..."]) -> Image:
    """`image` times a factor for each record, or for each record and channel."""
    wide = factors[:, None] if factors.ndim == 1 else factors
    return image * wide[:, None, :, None, None]


def norms_by_unit(
    weight: Float[Array, "records units ..."], bias: Float[Array, "records units"] | None
) -> tuple[Float[Array, "records units"], Float[Array, "records units"]]:
    """L1 and squared L2 norms of the gradients of each unit's kernel and bias."""
    axes = tuple(range(2, weight.ndim))
    l1, l2 = jnp.sum(jnp.abs(weight), axes), jnp.sum(jnp.square(weight), axes)
    return (l1, l2) if bias is None else (l1 + jnp.abs(bias), l2 + jnp.square(bias))


def _gram(rows: Float[Array, "records rows places"]) -> Float[Array, "records places places"]:
    return outer.contract("rnp,rnq->rpq", rows, rows)


def _product(coarse: Array, fine: Array) -> Float[Array, "records m n"]:
    return outer.contract("rmp,rnp->rmn", coarse, fine)
