"""DP-HFlow's density of mixed rows: dequantization, then blocks of linear maps and splines.

References:
    Lee, Kim, Jeong, Ro, "Differentially private normalizing flows for synthetic tabular
    data generation", 2022.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key

from veilflow._core import check
from veilflow.flows.bases.normal import StandardNormal
from veilflow.flows.bijection import AbstractBijection
from veilflow.flows.bijections.autoregressive import Autoregressive
from veilflow.flows.bijections.chain import Chain
from veilflow.flows.bijections.low_rank import LowRank
from veilflow.flows.bijections.lu import LU
from veilflow.flows.bijections.permute import reverse
from veilflow.flows.bijections.private_log_det import PrivateLogDet
from veilflow.flows.bijections.scan import Scan
from veilflow.flows.bijections.shared_blocks import SharedBlocks
from veilflow.flows.conditioner import MaskedMLP
from veilflow.flows.dequantizer import AbstractDequantizer
from veilflow.flows.dequantizers.uniform import UniformDequantizer
from veilflow.flows.dequantizers.variational import VariationalDequantizer
from veilflow.flows.flow import Flow
from veilflow.flows.network import Activation
from veilflow.flows.scalar_maps.spline import SplineMap
from veilflow.flows.variables import Kind, Row, Variables

Linear = Literal["low-rank", "lu", "none"]
Network = Literal["conditional", "separate"]
LogDet = Literal["private", "public"]
Dequantization = Literal["uniform", "variational"]
Maker = Callable[[Key[Array, ""]], AbstractBijection]


class HFlow(eqx.Module):
    """A density over rows of codes and positions, made of a density over points.

    Every method is about one row; `jax.vmap` makes it one about batches. A row is `codes` and
    `positions`, one of each for every variable: see `Variables`. Codes must be declared ones.
    Nothing here is private: training the parameters on records is the engine's work.
    """

    dequantizer: AbstractDequantizer
    flow: Flow
    """Of points: codes plus noise, and positions."""
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
        network: Network = "conditional",
        block_embedding: int = 8,
        dequantization: Dequantization = "uniform",
    ) -> "HFlow":
        """A fresh flow, close to a normal distribution over points scaled to [-1, 1].

        Args:
            kinds: `Listed(num_codes)` or `Continuous()` for each variable.
            key: Spent here, for the weights.
            blocks: How many blocks, each a linear map and a spline, with reversals between them.
            bins: How many bins a spline has.
            bound: Splines bend inside [-bound, bound].
            hidden: Sizes of the hidden layers of the masked networks.
            activation: "tanh" or "relu".
            linear: "low-rank", a diagonal and a matrix of `rank`; "lu", any invertible matrix; "none".
            rank: Of the low-rank map, from 1 to the number of variables.
            log_det: Where the log-determinants of linear maps go: "private", into each record's loss,
                to be clipped with it; "public", into `public_loss`, free of noise, for clip norms
                well above the gradients' (see `PrivateLogDet`).
            network: "conditional", one network for all blocks; "separate", one for each.
            block_embedding: How many numbers tell the one network which block it serves.
            dequantization: "uniform", or "variational" for noise that is trained; the latter takes
                two listed variables, and is uniform for fewer.

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
        points = Flow(StandardNormal(variables.dim), Chain((bijection, variables.scaling())))
        return cls(dequantizer, points, variables)

    @property
    def dim(self) -> int:
        """How many variables a row has."""
        return self.variables.dim

    def private_loss(
        self,
        codes: Int[Array, " variables"],
        positions: Float[Array, " variables"],
        key: Key[Array, ""],
    ) -> Float[Array, ""]:
        """The terms of the negative log-density bound that the record enters, at one draw of noise.

        With `public_loss` it is, in expectation, at least the negative log-density; for rows without
        listed variables it is that exactly. The key is spent.
        """
        return -self._log_weight((codes, positions), key)

    def public_loss(self) -> Float[Array, ""]:
        """The other terms: parameters only, so their gradient is added after the noise."""
        return -self.flow.public_log_prob()

    def log_prob(
        self,
        codes: Int[Array, " variables"],
        positions: Float[Array, " variables"],
        key: Key[Array, ""],
        num_draws: int = 64,
    ) -> Float[Array, ""]:
        """An estimate of the natural log of the density of one row; the key is spent.

        That is a probability of the codes times a density of the positions over [0, 1). The
        estimate is the log of a mean over draws of noise (importance weights), whose expectation is
        the density itself, so in expectation it is a *lower bound* of the log-density: it rises with
        the draws, and is exact without listed variables. Mass that the flow has outside of all rows
        belongs to no row, although `sample` moves it to the nearest.

        Args:
            codes: One a variable; those of continuous variables do not count.
            positions: One a variable; those of listed variables do not count.
            key: Spent here, for the noise.
            num_draws: How many draws; all of them are in memory at once.
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

    def _log_weight(self, row: Row, key: Key[Array, ""]) -> Float[Array, ""]:
        """The log-density of a point less that of its noise, without the public terms."""
        codes = self.variables.codes_of_listed(row[0])
        noise, log_prob = self.dequantizer.noise_and_log_prob(codes, key)
        return self.flow.private_log_prob(self.variables.point(row, noise)) - log_prob


def _linear_maker(dim: int, linear: Linear, rank: int, log_det: LogDet) -> Maker | None:
    """What makes a linear map from a key; None for no linear map."""
    if linear == "none":
        return None

    def make(key: Key[Array, ""]) -> AbstractBijection:
        made = (
            LU.create(dim, key=key) if linear == "lu" else LowRank.create(dim, key=key, rank=rank)
        )
        return PrivateLogDet.create(made) if log_det == "private" else made

    return make


def _block(
    dim: int,
    spline: SplineMap,
    make_linear: Maker | None,
    settings: dict[str, Any],
    key: Key[Array, ""],
) -> Chain:
    """From data to base a linear map, a spline with a network of its own, and a reversal."""
    network_key, linear_key = jax.random.split(key)
    network = MaskedMLP.create(dim, spline.num_params, key=network_key, **settings)
    own = () if make_linear is None else (make_linear(linear_key),)
    return Chain((reverse(dim), Autoregressive(network, spline), *own))
