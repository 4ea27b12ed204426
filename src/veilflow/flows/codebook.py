"""The inputs and outputs of a network for rows of codes: fixed features, never trained.

Columns are listed (categories, each code with its own slot) or ordered (bins of a number). A network
should not have to learn for every bin what it learned for the next one, and noise grows with the
number of parameters. So an ordered column is represented by a few cosines of the bin's rank, of which
the first few say most, and one feature for both ends of its range. Bins with a large share (a spike
at zero) have a feature of their own as well.
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import ndtri

from veilflow.flows.scalar_maps.simple import soft_bound
from veilflow.nn.frozen import AbstractFrozen

_LEAST = 1e-6
"""Least share of a code in a column: every declared code is possible."""
_TOGETHER = 16
"""Columns in one product: of a matrix with a block for each column, most of a wide one is zero."""
_ENDS = 0.7
"""Weight of the feature of both ends; the first cosine has sqrt(2)."""
_BOUND = 40.0
"""Bound on the sum of the waves of a log-share, which may be too large for `exp` if each is small."""


class Codebook(AbstractFrozen):
    """Slots of all codes of all columns, listed columns before ordered ones; never trained."""

    sizes: tuple[int, ...] = eqx.field(static=True)
    """Number of codes of each column."""
    ordered: tuple[bool, ...] = eqx.field(static=True)
    num_waves: tuple[int, ...] = eqx.field(static=True)
    """Features of each ordered column; 0 for a listed one."""
    most_waves: int = eqx.field(static=True)
    """The largest number of cosines of a column."""
    log_mass: Float[Array, " slots"]
    """Log-share of each code in its column, from which the network starts."""
    waves: Float[Array, "ordered_slots features"]
    """Features of the codes of ordered columns; zero outside a column's own block."""

    @classmethod
    def create(
        cls,
        masses: Sequence[Float[np.ndarray, " codes"]],
        *,
        ordered: Sequence[bool],
        gaps: Sequence[bool] | None = None,
        num_waves: int = 12,
        spike: float = 0.05,
    ) -> "Codebook":
        """From the share of each code in its column, as declared or released.

        Args:
            masses: For each column, one non-negative number per code; they need not sum to 1.
            ordered: Which columns are bins of a number, in increasing order.
            gaps: Which of them have a last code for missing cells, which is no bin.
            num_waves: Largest number of cosines of an ordered column.
            spike: Share from which a bin of an ordered column has its own feature.
        """
        shares = [np.maximum(m, 0) / max(np.maximum(m, 0).sum(), 1e-30) for m in masses]
        shares = [(1 - _LEAST * len(s)) * s + _LEAST if s.sum() else s + 1 / len(s) for s in shares]
        gaps = (False,) * len(shares) if gaps is None else gaps
        blocks = [
            _waves(share, num_waves, spike, gap) if is_ordered else None
            for share, is_ordered, gap in zip(shares, ordered, gaps, strict=True)
        ]
        own = [0 if block is None else block.shape[1] for block in blocks]
        waves = np.zeros((sum(len(b) for b in blocks if b is not None), sum(own)))
        row = column = 0
        for block in blocks:
            if block is not None:
                waves[row : row + len(block), column : column + block.shape[1]] = block
                row, column = row + len(block), column + block.shape[1]
        listed = [np.log(s) for s, o in zip(shares, ordered, strict=True) if not o]
        binned = [np.log(s) for s, o in zip(shares, ordered, strict=True) if o]
        return cls(
            sizes=tuple(len(s) for s in shares),
            ordered=tuple(map(bool, ordered)),
            num_waves=tuple(own),
            most_waves=num_waves,
            log_mass=jnp.asarray(np.concatenate([*listed, *binned]), jnp.float32),
            waves=jnp.asarray(waves, jnp.float32),
        )

    @property
    def num_columns(self) -> int:
        """How many codes a row has."""
        return len(self.sizes)

    @property
    def num_listed(self) -> int:
        """The number of slots of listed columns, which is that of their features."""
        return self.log_mass.shape[0] - self.waves.shape[0]

    @property
    def slot_columns(self) -> Int[np.ndarray, " slots"]:
        """The column of each slot."""
        return np.concatenate([np.full(self.sizes[j], j) for j in self._places])

    @property
    def slot_codes(self) -> Int[np.ndarray, " slots"]:
        """The code of each slot."""
        return np.concatenate([np.arange(self.sizes[j]) for j in self._places])

    @property
    def feature_columns(self) -> Int[np.ndarray, " features"]:
        """The column of each input of a network, which is that of each output as well."""
        counts = [self.num_waves[j] if self.ordered[j] else self.sizes[j] for j in self._places]
        return np.repeat(self._places, counts)

    def one_hot(self, codes: Int[Array, " columns"]) -> Float[Array, " slots"]:
        """Ones at the slots of a row."""
        return (codes[self.slot_columns] == self.slot_codes).astype(self.log_mass.dtype)

    def features(self, one_hot: Float[Array, " slots"]) -> Float[Array, " features"]:
        """The inputs of a network for a row."""
        own, bins = jnp.split(one_hot, [self.num_listed])
        return jnp.concatenate([own, *(x @ w for x, w in self._blocks(bins, axis=0))])

    def logits(self, params: Float[Array, " features"]) -> Float[Array, " slots"]:
        """Unnormalized log-shares of all codes, from a network's outputs; zeros give the masses."""
        own, waves = jnp.split(params, [self.num_listed])
        smooth = [self.bounded(w @ x) for x, w in self._blocks(waves, axis=1)]
        return self.log_mass + jnp.concatenate([own, *smooth])

    def column_sums(self, slots: Float[Array, " slots"]) -> Float[Array, " columns"]:
        """The sum over the slots of each column."""
        groups = [self._places[i : i + _TOGETHER] for i in range(0, self.num_columns, _TOGETHER)]
        sizes = [[self.sizes[j] for j in group] for group in groups]
        parts = jnp.split(slots, np.cumsum([sum(each) for each in sizes])[:-1])
        # a product for many columns at once: compile time hardly grows with them
        member = [np.repeat(np.eye(len(each)), each, axis=0).astype(np.float32) for each in sizes]
        sums = jnp.concatenate([x @ each for x, each in zip(parts, member, strict=True)])
        return sums[np.argsort(self._places)]

    def _blocks(self, values: Array, *, axis: int) -> list[tuple[Array, Array]]:
        """Bins (axis 0) or features (axis 1) of a few ordered columns each, with their waves."""
        columns = [j for j in self._places if self.ordered[j]]
        groups = [columns[i : i + _TOGETHER] for i in range(0, len(columns), _TOGETHER)]
        ends = np.cumsum(
            [[0, 0]]
            + [[sum(s[j] for j in g) for s in (self.sizes, self.num_waves)] for g in groups],
            axis=0,
        )
        parts = jnp.split(values, ends[1:-1, axis]) if groups else []
        return [
            (part, self.waves[a:b, c:d])
            for part, (a, c), (b, d) in zip(parts, ends[:-1], ends[1:], strict=True)
        ]

    def slot_features(self) -> Float[Array, "slots features"]:
        """`features` of each code by itself."""
        listed = self.log_mass.shape[0] - self.waves.shape[0]
        beside = jnp.zeros((listed, self.waves.shape[1]))
        below = jnp.zeros((self.waves.shape[0], listed))
        return jnp.block([[jnp.eye(listed), beside], [below, self.waves]])

    def bounded(self, waves: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """A sum of waves, bounded so that `exp` does not overflow."""
        return soft_bound(waves, _BOUND)

    @property
    def _places(self) -> list[int]:
        """Columns in the order of their slots."""
        columns = range(len(self.sizes))
        return sorted(columns, key=lambda j: self.ordered[j])


def span(columns: Int[np.ndarray, " places"], j: int) -> slice:
    """The places of column j, which are contiguous."""
    first, last = np.flatnonzero(columns == j)[[0, -1]]
    return slice(int(first), int(last) + 1)


def _ends(share: np.ndarray, middle: np.ndarray, waves: np.ndarray) -> Float[np.ndarray, " codes"]:
    """A feature that tells the bins at both ends apart, which slow cosines hardly do.

    It is what the normal score of a rank has beyond the other features: two numbers that rise together,
    as normal variables do, depend on each other through the product of their scores.
    """
    score = ndtri(np.clip(middle, _LEAST, 1 - _LEAST))
    root = np.sqrt(share)[:, None]
    known = np.column_stack([np.ones(len(share)), waves])
    rest = score - known @ np.linalg.lstsq(known * root, score * root[:, 0], rcond=None)[0]
    return _ENDS * rest / max(float(np.sqrt(share @ rest**2)), 1e-12)


def _waves(share: np.ndarray, num_waves: int, spike: float, gap: bool) -> np.ndarray:
    """Features of the bins of one column, and of its missing cells."""
    if gap:  # missing cells have their own feature, and no rank among the bins
        present = share[:-1]
        bins = _waves(present / present.sum(), num_waves, spike, False)
        return np.block([[bins, np.zeros((len(bins), 1))], [np.zeros((1, bins.shape[1])), 1.0]])
    middle = np.cumsum(share) - share / 2  # mean rank in each bin
    order = np.arange(1, min(num_waves, max(len(share) - 1, 1)) + 1)
    # later cosines count less: a network moves smooth shapes first
    smooth = np.sqrt(2 / order) * np.cos(np.pi * middle[:, None] * order)
    if len(share) - 1 > num_waves:
        smooth[:, -1] = _ends(share, middle, smooth[:, :-1])
    return np.hstack([smooth, np.eye(len(share))[:, share >= spike]])
