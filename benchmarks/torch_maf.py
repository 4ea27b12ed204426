"""The flow of `setting` in PyTorch, with the samplers that Opacus needs for its masked layers.

Same weights, same masks, same arithmetic, so that clipped sums can be compared as well as clocks.
"""

from collections.abc import Callable

import jax
import numpy as np
import torch
from opacus import GradSampleModule
from opacus.grad_sample import (
    GradSampleModuleFastGradientClipping,
    register_grad_sampler,
    register_norm_sampler,
)
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
from torch import Tensor, nn
from torch.nn import functional

from veilflow.flows import Flow
from veilflow.nn import MaskedDense

LOG_SCALE_BOUND = 5.0

Gradient = Callable[[], list[np.ndarray]]
"""Computes the clipped sum and gives it back, block by block, weight before bias."""


class MaskedLinear(nn.Module):
    """A linear layer, some of whose weights are held at zero by a mask."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray, mask: np.ndarray):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.bias = nn.Parameter(torch.tensor(bias))
        # not a buffer: Opacus turns modules with buffers away
        self.mask = torch.tensor(mask, dtype=torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output."""
        return functional.linear(x, self.weight * self.mask, self.bias)


@register_grad_sampler(MaskedLinear)
def _gradients(layer: MaskedLinear, a: list[Tensor], d: Tensor) -> dict[nn.Parameter, Tensor]:
    """Each record's gradient."""
    return {layer.weight: torch.einsum("ni,nj->nij", d, a[0]) * layer.mask, layer.bias: d}


@register_norm_sampler(MaskedLinear)
def _norms(layer: MaskedLinear, a: list[Tensor], d: Tensor) -> dict[nn.Parameter, Tensor]:
    """The norm of each record's gradient, without the gradient."""
    squared = ((d.square() @ layer.mask) * a[0].square()).sum(1)
    return {layer.weight: squared.sqrt(), layer.bias: d.norm(dim=1)}


class TorchMAF(nn.Module):
    """A masked autoregressive flow; returns the loss, minus the log-density, of each record."""

    def __init__(self, flow: Flow):
        super().__init__()
        is_layer = lambda node: isinstance(node, MaskedDense)  # noqa: E731
        layers = [x for x in jax.tree.leaves(flow, is_leaf=is_layer) if is_layer(x)]
        num_blocks = layers[0].weight.shape[0]
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                MaskedLinear(np.asarray(x.weight[block]), np.asarray(x.bias[block]), x.mask)
                for x in layers
            )
            # from data to base the last block comes first
            for block in reversed(range(num_blocks))
        )

    def forward(self, x: Tensor) -> Tensor:
        """The loss of each record."""
        log_det = torch.zeros(len(x))
        for *hidden, last in self.blocks:  # type: ignore[misc]
            h = x
            for layer in hidden:
                h = torch.tanh(layer(h))
            shift, raw = last(h).chunk(2, dim=1)
            log_scale = LOG_SCALE_BOUND * torch.tanh(raw / LOG_SCALE_BOUND)
            x = ((x - shift) * torch.exp(-log_scale)).flip(1)
            log_det = log_det - log_scale.sum(1)
        normal = -0.5 * (x.square().sum(1) + x.shape[1] * np.log(2 * np.pi))
        return -(normal + log_det)


def plain(flow: Flow, rows: np.ndarray) -> Gradient:
    """The gradient of the summed loss, without clipping: what PyTorch itself takes."""
    model, x = TorchMAF(flow), torch.tensor(rows)

    def run() -> list[np.ndarray]:
        model.zero_grad()
        model(x).sum().backward()
        return [_numpy(p.grad) for p in model.parameters()]

    return run


def hooks(flow: Flow, rows: np.ndarray, clip_norm: float) -> Gradient:
    """Opacus as it comes: a gradient for every record, then norms, then the clipped sum."""
    model = GradSampleModule(TorchMAF(flow), loss_reduction="sum")
    optimizer = DPOptimizer(
        torch.optim.Adam(model.parameters()),
        noise_multiplier=0.0,
        max_grad_norm=clip_norm,
        expected_batch_size=len(rows),
        loss_reduction="sum",
    )
    x = torch.tensor(rows)

    def run() -> list[np.ndarray]:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.clip_and_accumulate()
        sums = (getattr(p, "summed_grad") for p in model.parameters())  # noqa: B009
        return [_numpy(g) for g in sums]

    return run


def ghost(flow: Flow, rows: np.ndarray, clip_norm: float) -> Gradient:
    """Opacus ghost clipping: norms in one backward pass, the clipped sum in a second one."""
    model = GradSampleModuleFastGradientClipping(
        TorchMAF(flow),
        loss_reduction="sum",
        max_grad_norm=clip_norm,  # type: ignore[arg-type]
        use_ghost_clipping=True,
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.Adam(model.parameters()),
        noise_multiplier=0.0,
        max_grad_norm=clip_norm,
        expected_batch_size=len(rows),
        loss_reduction="sum",
    )
    x = torch.tensor(rows)

    def run() -> list[np.ndarray]:
        optimizer.zero_grad()
        loss = DPTensorFastGradientClipping(model, optimizer, model(x), loss_reduction="sum")
        loss.backward()
        return [_numpy(p.grad) for p in model.parameters()]

    return run


def _numpy(gradient: Tensor | None) -> np.ndarray:
    assert gradient is not None
    return gradient.numpy()
