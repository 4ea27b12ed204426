"""DP-HFlow's density of mixed rows: dequantization, then blocks of linear maps and splines.

The paper does not say how rows are scaled. Here a point becomes its normal score, so that the identity
is the flow of independent variables and the blocks have only dependence to learn.

References:
    Lee, Kim, Jeong, Ro, "Differentially private normalizing flows for synthetic tabular
    data generation", 2022.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bases.simple import StandardNormal
from veilflow.flows.bijection import AbstractBijection, Scalar
from veilflow.flows.bijections.autoregressive import Autoregressive, SharedBlocks
from veilflow.flows.bijections.composition import Chain, Scan
from veilflow.flows.bijections.fixed import reverse
from veilflow.flows.bijections.linear import LU, LowRank
from veilflow.flows.bijections.normal_scores import NormalScores
from veilflow.flows.bijections.parameters import PrivateLogDet
from veilflow.flows.dequantizers import (
    AbstractDequantizer,
    UniformDequantizer,
    VariationalDequantizer,
)
from veilflow.flows.flow import Flow
from veilflow.flows.network import Activation
from veilflow.flows.scalar_maps.spline import SplineMap
from veilflow.flows.variables import Codes, Kind, Positions, Row, Variables

Linear = Literal["low-rank", "lu", "none"]
Network = Literal["conditional", "separate"]
LogDet = Literal["private", "public"]
Dequantization = Literal["uniform", "variational"]
Maker = Callable[[Key[Array, ""]], AbstractBijection]


class HFlow(eqx.Module):
    """A density over rows of codes and positions, by way of a density over points.

    Every method takes one row; use `jax.vmap` for batches. A row is `codes` and
    `positions`, one of each for every variable: see `Variables`. Codes must be declared ones.
    Nothing here is private: training the parameters on records is the engine's work.
    """

    dequantizer: AbstractDequantizer
    flow: Flow
    """The density of points: codes plus noise, and positions."""
    variables: Variables = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        kinds: Iterable[Kind],
        *,
        key: Key[Array, ""],
        blocks: int = 3,
        bins: int = 8,
        bound: float = 4.0,
        hidden: tuple[int, ...] = (64, 64),
        activation: Activation = "tanh",
        linear: Linear = "low-rank",
        rank: int = 1,
        log_det: LogDet = "private",
        network: Network = "separate",
        block_embedding: int = 8,
        dequantization: Dequantization = "uniform",
        shares: Sequence[Float[np.ndarray, " codes"]] | None = None,
    ) -> "HFlow":
        """A new flow, close to one of independent variables.

        Args:
            kinds: `Listed(num_codes)` or `Continuous()` for each variable.
            key: Spent here, for the weights.
            shares: The share of each code, public or released, for each listed variable: a code is then
                as wide as its share. By default all codes are equally wide.
            blocks: Number of blocks, each a linear map and a spline, with reversals between them.
            bins: Number of bins of a spline.
            bound: Splines bend inside [-bound, bound].
            hidden: Sizes of the hidden layers of the masked networks.
            activation: "tanh" or "relu".
            linear: "low-rank", a diagonal and a matrix of `rank`; "lu", any invertible matrix; "none".
            rank: Rank of the low-rank map, from 1 to the number of variables.
            log_det: Where the log-determinants of linear maps belong: "private", to each record's loss,
                clipped with it; "public", to `public_loss`, free of noise, for clip norms well above
                the gradients' norms (see `PrivateLogDet`).
            network: "separate", one network for each block; "conditional", the paper's one for all.
            block_embedding: Size of the embedding that tells the shared network which block it serves.
            dequantization: "uniform", or "variational" for noise that is trained; with fewer than two
                listed variables, both are uniform.

        Returns:
            The flow.

        Raises:
            ValueError: If a size is out of range or a word is unknown.
        """
        check.one_of(("low-rank", "lu", "none"), linear=linear)
        check.one_of(("private", "public"), log_det=log_det)
        check.one_of(("conditional", "separate"), network=network)
        check.one_of(("uniform", "variational"), dequantization=dequantization)
        check.count(blocks=blocks, block_embedding=block_embedding)
        variables = Variables(kinds)
        blocks_key, dequantizer_key = jax.random.split(key)
        make_linear = _linear_maker(variables.dim, linear, rank, log_det)
        settings = {"hidden": hidden, "activation": activation}
        spline = SplineMap(num_bins=bins, bound=bound)
        if network == "conditional":
            bijection = SharedBlocks.create(
                variables.dim,
                spline,
                blocks,
                key=blocks_key,
                embedding=block_embedding,
                linear=make_linear,
                **settings,
            )
        else:
            make = partial(_block, variables.dim, spline, make_linear, settings)
            bijection = Scan.create(make, blocks, key=blocks_key)
        trained = dequantization == "variational" and len(variables.sizes) >= 2
        dequantizer = (
            VariationalDequantizer.create(variables.sizes, key=dequantizer_key)
            if trained
            else UniformDequantizer()
        )
        scores = NormalScores.create(variables.shares(shares))
        points = Flow(StandardNormal(variables.dim), Chain((bijection, scores)))
        return cls(dequantizer, points, variables)

    @property
    def dim(self) -> int:
        """How many variables a row has."""
        return self.variables.dim

    def private_loss(self, codes: Codes, positions: Positions, key: Key[Array, ""]) -> Scalar:
        """The terms of the loss that depend on the record, at one draw of noise; the key is spent.

        In expectation, its sum with `public_loss` is at least the negative log-density. Without
        listed variables it is the negative log-density.
        """
        return -self._log_weight((codes, positions), key)

    def public_loss(self) -> Scalar:
        """The other terms: parameters only, so their gradient is added after the noise."""
        return -self.flow.public_log_prob()

    def log_prob(
        self, codes: Codes, positions: Positions, key: Key[Array, ""], num_draws: int = 64
    ) -> Scalar:
        """An estimate of the natural log of the density of one row; the key is spent.

        The density is a probability of the codes times a density of the positions over [0, 1). The
        estimate is the log of a mean of importance weights over draws of noise. The mean is unbiased,
        so in expectation the estimate is a *lower bound* of the log-density: it increases with the
        number of draws, and is exact without listed variables. Mass of the flow outside of all rows
        belongs to no row, although `sample` moves it to the nearest.

        Args:
            codes: One per variable; not used for continuous variables.
            positions: One per variable; not used for listed variables.
            key: Spent here, for the noise.
            num_draws: Number of draws; all of them are in memory at once.
        """
        check.count(num_draws=num_draws)
        if not self.variables.listed:
            num_draws = 1  # they would all be the same
        draw = partial(self._log_weight, (codes, positions))
        log_weights = jax.vmap(draw)(jax.random.split(key, num_draws))
        log_mean = jax.nn.logsumexp(log_weights) - math.log(num_draws)
        return log_mean + self.flow.public_log_prob()

    def sample(self, key: Key[Array, ""]) -> Row:
        """Codes and positions of one row; the key is spent."""
        return self.variables.row(self.flow.sample(key))

    def _log_weight(self, row: Row, key: Key[Array, ""]) -> Scalar:
        """The log-density of a point less that of its noise, without the public terms."""
        codes = self.variables.codes_of_listed(row[0])
        noise, log_prob = self.dequantizer.noise_and_log_prob(codes, key)
        return self.flow.private_log_prob(self.variables.point(row, noise)) - log_prob


def _linear_maker(dim: int, linear: Linear, rank: int, log_det: LogDet) -> Maker | None:
    """A function that builds a linear map from a key; None for no linear map."""
    if linear == "none":
        return None

    def make(key: Key[Array, ""]) -> AbstractBijection:
        bijection = (
            LU.create(dim, key=key) if linear == "lu" else LowRank.create(dim, key=key, rank=rank)
        )
        return PrivateLogDet.create(bijection) if log_det == "private" else bijection

    return make


def _block(
    dim: int,
    spline: SplineMap,
    make_linear: Maker | None,
    settings: dict[str, Any],
    key: Key[Array, ""],
) -> Chain:
    """From data to base: a linear map, a spline with its own network, and a reversal."""
    network_key, linear_key = jax.random.split(key)
    mapped = Autoregressive.create(dim, spline, key=network_key, **settings)
    linear = () if make_linear is None else (make_linear(linear_key),)
    return Chain((reverse(dim), mapped, *linear))
