"""Rows as points whose distances mean something: every column on a public scale from 0 to 1."""

from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow.audit import image_scores
from veilflow.audit.kinds import is_image, is_table
from veilflow.tabular.codec import encode
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.io import read_rows
from veilflow.tabular.schema import Schema


def points(model: Any, rows: Any) -> Float[np.ndarray, "rows dim"]:
    """Rows of a model of tables, images or numbers as points, by declared facts alone.

    Numbers lie in [0, 1] of their declared range; a listed value is a corner, at distance 1 from every
    other one.
    """
    if is_image(model):
        return image_scores.pixels(model, rows)
    if is_table(model):
        encoded = encoded_rows(model, rows)
        return _of_codes(encoded, model.schema, model.vocabularies)
    if not hasattr(model, "domain"):
        raise ValueError(
            f"distances between rows need declared columns, and a {type(model).__name__} has none."
        )
    values = read_rows(rows, columns=model.columns).values
    domain = model.domain
    return domain.encode(domain.clamp(values)) / (2 * domain.border)


def encoded_rows(model: Any, rows: Any) -> EncodedRows:
    """Rows of a model of tables, as codes and positions."""
    if isinstance(rows, EncodedRows):
        return rows
    return encode(rows, model.schema, vocabularies=model.vocabularies, extra="ignore")


def _of_codes(rows: EncodedRows, schema: Schema, vocabularies: Any) -> np.ndarray:
    blocks = []
    for place, (name, column) in enumerate(schema.columns.items()):
        if column.has_position:
            blocks.append(np.asarray(rows.positions[:, [place]], float))
        number = column.num_codes(vocabularies.get(name))
        if number > 1:  # two corners are sqrt(2) apart
            blocks.append(np.eye(number)[rows.codes[:, place]] / np.sqrt(2))
    return np.concatenate(blocks, axis=1)
