"""Figure 2 of the paper: how large the gradient of one record is, layer by layer of the three networks.

These are norms of real gradients, as private as the rows: shown here of a public benchmark only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import veilflow as vf
from reproductions.metrics.figures import BLUE, canvas, save
from veilflow.engine.observed import measured, observe_gradients
from veilflow.nn.tap import is_layer

NUM_RECORDS = 1024
PREFIX = "gradient norms of "
"""Of the names of the arrays."""
_NETWORKS = {".dequantizer": "dequantizer", ".network": "splines", ".conditioner": "splines"}
"""By what stands in the path of their layers; all others are linear maps."""


def by_layer(model: Any, rows: Any, *, seed: int) -> dict[str, np.ndarray]:
    """The norm of the gradient of each of some training rows in each layer, before any clipping.

    Args:
        model: A fitted `TableFlow` with the paper's flow.
        rows: The training rows.
        seed: Which rows are drawn, and the noise of their dequantization.
    """
    drawn = rows.sample(min(NUM_RECORDS, len(rows)), random_state=seed)
    density = model.density
    records = density.records(_encoded(model, drawn))
    norms = _norms(density.loss, density.flow, records, jax.random.key(seed), len(drawn))
    found: dict[str, np.ndarray] = {}
    for name, each in zip(_names(density.flow), norms, strict=True):
        for own in np.asarray(each).reshape(-1, len(drawn)):  # blocks of one structure are stacked
            number = sum(key.startswith(f"{PREFIX}{name} ") for key in found) + 1
            found[f"{PREFIX}{name} {number}"] = own
    return found


def _encoded(model: Any, rows: Any) -> Any:
    """Rows as the model's density takes them."""
    read = vf.TableFlow(schema=model.schema, budget=model.plan.budget).read(rows)
    return read.records.open().encoded(model.schema, model.vocabularies)


@eqx.filter_jit
def _norms(loss: Any, flow: Any, records: Any, key: jax.Array, num: int) -> Any:
    captured = observe_gradients(loss, flow, records, jnp.ones(num, bool), key)
    return tuple(jnp.sqrt(norm) for norm in measured(captured).norms)


def _names(flow: Any) -> list[str]:
    """The network of each layer, in the order in which gradients are observed."""
    paths = jax.tree_util.tree_flatten_with_path(flow, is_leaf=is_layer)[0]
    return [_network(jax.tree_util.keystr(path)) for path, node in paths if is_layer(node)]


def _network(path: str) -> str:
    return next((name for part, name in _NETWORKS.items() if part in path), "linear maps")


def draw(path: Path, norms: Mapping[str, np.ndarray], *, title: str) -> None:
    """Draw a box for each layer, the norm in powers.

    Args:
        path: The PNG to write. As private as the norms.
        norms: By the name of the layer.
        title: Above the figure.
    """
    figure, ((axis,),) = canvas(1, 1, panel=(6.4, 3.6))
    tiny = np.finfo(np.float32).tiny
    boxes = axis.boxplot(
        [np.maximum(norm, tiny) for norm in norms.values()], whis=(5, 95), showfliers=False
    )
    for line in (*boxes["medians"], *boxes["boxes"]):
        line.set_color(BLUE)
    axis.set_yscale("log")
    axis.set_xticks(range(1, len(norms) + 1), list(norms), rotation=60, fontsize=7)
    axis.set_ylabel("norm of one record's gradient", fontsize=9)
    axis.grid(axis="y", color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)
    save(figure, path, title=title)
