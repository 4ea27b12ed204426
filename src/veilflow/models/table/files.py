"""A table flow as settings and arrays, and back: only what was released, the rest is made again."""

from typing import Any

import numpy as np

from veilflow.models.table.bins import Bins
from veilflow.models.table.cells import cells_of
from veilflow.models.table.code_density import CodeDensity
from veilflow.models.table.coder import CodedColumn, Coder
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.hflow_density import HFlowDensity
from veilflow.tabular.codec import Vocabularies
from veilflow.tabular.columns import Ordinal
from veilflow.tabular.facts import OTHER
from veilflow.tabular.schema import Schema

_KINDS: dict[str, type[AbstractTableDensity]] = {
    density.kind: density for density in (CodeDensity, HFlowDensity)
}


def settings_of(density: AbstractTableDensity) -> dict[str, Any]:
    """What the arrays do not say."""
    return {"kind": density.kind, "settings": density.settings()}


def schema_of(schema: Schema, vocabularies: Vocabularies) -> dict[str, Any]:
    """The schema with what was discovered, as plain JSON values."""
    return {
        "schema": schema.to_json(),
        "vocabularies": {name: list(words) for name, words in vocabularies.items()},
    }


def arrays_of(density: AbstractTableDensity) -> dict[str, np.ndarray]:
    """The numbers of the flow and of the coder."""
    arrays = density.arrays()
    for j, column in enumerate(density.coder.columns):
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


def read_density(
    data: dict[str, Any], arrays: dict[str, np.ndarray], coder: Coder
) -> AbstractTableDensity:
    """What `settings_of` and `arrays_of` wrote."""
    if set(data) != {"kind", "settings"} or data["kind"] not in _KINDS:
        raise ValueError(f"a density has settings and a kind of {', '.join(_KINDS)}.")
    return _KINDS[data["kind"]].read(data["settings"], arrays, coder)


def _shares(mass: np.ndarray) -> np.ndarray:
    if mass.dtype != np.float64 or mass.ndim != 1 or not (mass >= 0).all():
        raise ValueError("shares must be non-negative numbers in double precision.")
    if not abs(mass.sum() - 1) <= 1e-6:
        raise ValueError("shares must sum to 1.")
    return mass
