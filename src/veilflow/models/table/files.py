"""A table flow as settings and arrays, and back: only what was released, the rest is made again."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow._core import check
from veilflow.flows.code_flow import CodeFlow
from veilflow.flows.codebook import Codebook
from veilflow.models.table.bins import Bins
from veilflow.models.table.cells import cells_of
from veilflow.models.table.coder import CodedColumn, Coder
from veilflow.tabular.codec import Vocabularies
from veilflow.tabular.columns import Ordinal
from veilflow.tabular.facts import OTHER
from veilflow.tabular.schema import Schema

OWN = ("order", "hidden", "num_waves")
"""Settings that belong to the file rather than to the fit."""

_MOST_UNITS = 2**16


def settings_of(flow: CodeFlow, coder: Coder) -> dict[str, Any]:
    """What the arrays do not say."""
    return {
        "order": list(flow.order),
        "hidden": [len(layer.out_degrees) for layer in flow.layers[:-1]],
        "num_waves": flow.codebook.most_waves,
    }


def schema_of(schema: Schema, vocabularies: Vocabularies) -> dict[str, Any]:
    """The schema with what was discovered, as plain JSON values."""
    return {
        "schema": schema.to_json(),
        "vocabularies": {name: list(words) for name, words in vocabularies.items()},
    }


def arrays_of(flow: CodeFlow, coder: Coder) -> dict[str, np.ndarray]:
    """The numbers."""
    arrays = {"log_mass": np.asarray(flow.codebook.log_mass)}
    for i, layer in enumerate(flow.layers):
        arrays[f"weight{i}"] = np.asarray(layer.weight)
        arrays[f"bias{i}"] = np.asarray(layer.bias)
    for j, column in enumerate(coder.columns):
        arrays[f"mass{j}"] = np.asarray(column.mass, np.float64)
        if column.bins is not None:
            arrays[f"starts{j}"] = np.asarray(column.bins.starts, np.int64)
            arrays[f"cells{j}"] = np.asarray(column.bins.mass, np.float64)
    return arrays


def read_schema(data: dict[str, Any]) -> tuple[Schema, dict[str, tuple[str, ...]]]:
    """What `schema_of` wrote."""
    schema, words = Schema.from_json(data["schema"]), data["vocabularies"]
    if not isinstance(words, dict) or set(words) != set(schema.open):
        raise ValueError("there must be a vocabulary for each open column, and for no other.")
    for listed in words.values():
        texts = isinstance(listed, list) and all(isinstance(word, str) for word in listed)
        if not texts or len({*listed, OTHER}) <= len(listed):
            raise ValueError("a vocabulary must be a list of different texts.")
    return schema, {name: tuple(listed) for name, listed in words.items()}


def read_coder(arrays: dict[str, np.ndarray], schema: Schema, vocabularies: Vocabularies) -> Coder:
    """The coder in a file; cells follow from the schema."""
    columns = []
    for j, (name, column) in enumerate(schema.columns.items()):
        mass = _shares(arrays[f"mass{j}"])
        if not column.has_position:
            if len(mass) != column.num_codes(vocabularies.get(name)):
                raise ValueError("there are not as many shares as codes.")
            columns.append(CodedColumn(mass, isinstance(column, Ordinal), column.nullable))
            continue
        cells, starts = cells_of(column), np.asarray(arrays[f"starts{j}"])
        inside = _shares(arrays[f"cells{j}"])
        whole = starts.dtype == np.int64 and starts.ndim == 1 and len(starts) > 1
        if not whole or not (np.diff(starts) > 0).all() or starts[0] != 0:
            raise ValueError("bins must start at increasing cells from the first on.")
        if starts[-1] != cells.num or len(inside) != cells.num or not inside.min() > 0:
            raise ValueError("bins do not cover the cells of their column.")
        bins = Bins(starts, inside)
        if len(mass) != bins.num + column.nullable:
            raise ValueError("there are not as many shares as bins.")
        columns.append(CodedColumn(mass, True, column.nullable, cells, bins))
    return Coder(tuple(columns))


def read_flow(settings: dict[str, Any], arrays: dict[str, np.ndarray], coder: Coder) -> CodeFlow:
    """The flow in a file. Layers must be of the shapes that the columns ask for."""
    hidden, order = tuple(settings["hidden"]), tuple(settings["order"])
    for size in hidden:
        check.count(hidden=size)
    for place in order:
        check.count(order=place, at_least=0)
    check.count(num_waves=settings["num_waves"])
    if sum(hidden) > _MOST_UNITS or f"weight{len(hidden)}" not in arrays:
        raise ValueError("the network is not one that is fitted here.")
    book = codebook_of(coder, num_waves=settings["num_waves"])
    skeleton = eqx.filter_eval_shape(
        lambda: CodeFlow.create(book, key=jax.random.key(0), order=order, hidden=hidden)
    )
    layers = []
    for i, layer in enumerate(skeleton.layers):
        weight, bias = arrays[f"weight{i}"], arrays[f"bias{i}"]
        if weight.shape != layer.weight.shape or bias.shape != layer.bias.shape:
            raise ValueError("arrays do not have the shapes the settings ask for.")
        _finite(weight)
        _finite(bias)
        layers.append(
            eqx.tree_at(
                lambda one: (one.weight, one.bias), layer, (jnp.asarray(weight), jnp.asarray(bias))
            )
        )
    log_mass = arrays["log_mass"]
    _finite(log_mass)
    if log_mass.shape != book.log_mass.shape:
        raise ValueError("arrays do not have the shapes the settings ask for.")
    book = eqx.tree_at(lambda one: one.log_mass, book, jnp.asarray(log_mass, jnp.float32))
    return CodeFlow(book, tuple(layers), skeleton.order)


def codebook_of(coder: Coder, *, num_waves: int) -> Codebook:
    """The codebook of a coder: shares of codes, and features of ordered ones."""
    columns = coder.columns
    return Codebook.create(
        [column.mass for column in columns],
        ordered=[column.ordered for column in columns],
        gaps=[column.ordered and column.nullable for column in columns],
        num_waves=num_waves,
    )


def _shares(mass: np.ndarray) -> np.ndarray:
    if mass.dtype != np.float64 or mass.ndim != 1 or not (mass >= 0).all():
        raise ValueError("shares must be non-negative numbers in double precision.")
    if not abs(mass.sum() - 1) <= 1e-6:
        raise ValueError("shares must sum to 1.")
    return mass


def _finite(array: np.ndarray) -> None:
    if array.dtype != np.float32 or not np.isfinite(array).all():
        raise ValueError("arrays must hold finite numbers in single precision.")
