"""Canaries: rows and images that nobody has, made to be noticed if a model remembers anything.

They are made from declared facts alone. Put each into the data by a fair coin before a fit; afterwards
`membership.audit` asks the model which were in.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.images.spec import ImageSpec
from veilflow.tabular.codec import decode
from veilflow.tabular.constraints import satisfied
from veilflow.tabular.encoded import EncodedRows, Vocabularies, position_type
from veilflow.tabular.schema import Schema

_POOL = 20
"""Rows drawn for each canary: constraints rule some out, and the rarest are kept."""


def fair_coins(number: int, *, seed: int | None = None) -> Bool[np.ndarray, " number"]:
    """Which canaries go in; keep the result, and keep it secret until the audit."""
    check.count(number=number)
    return (Secret.from_seed(seed).words("coins", 0, number)[:, 0] & 1).astype(bool)


def table_canaries(
    schema: Schema,
    number: int,
    *,
    vocabularies: Vocabularies | None = None,
    model: Any = None,
    seed: int = 0,
    like: Any = "pandas",
) -> Any:
    """Rows that the schema allows and hardly anybody has: values drawn evenly, numbers at the ends.

    Args:
        schema: The declared columns; bounds must be known.
        number: How many canaries.
        vocabularies: The values of open columns.
        model: A released model; those rows are kept that it thinks least likely.
        seed: For the same canaries again.
        like: "pandas", "polars" or "pyarrow".

    Raises:
        ValueError: Hardly any combination of values fulfills the constraints.
    """
    check.count(number=number)
    rng, words = np.random.default_rng(seed), dict(vocabularies or {})
    pool = number * _POOL
    codes = np.zeros((pool, len(schema.columns)), np.int32)
    positions = np.zeros(codes.shape, position_type(schema))
    for place, (name, column) in enumerate(schema.columns.items()):
        # the code of a gap is the last: canaries have none
        choices = column.num_codes(words.get(name)) - column.nullable
        codes[:, place] = rng.integers(choices, size=pool)
        if column.has_position:
            ends = np.asarray([0.0, np.nextafter(1.0, 0.0, dtype=positions.dtype)])
            inner = rng.random(pool)
            positions[:, place] = np.where(rng.random(pool) < 0.5, rng.choice(ends, pool), inner)
    rows = EncodedRows(codes, np.minimum(positions, np.nextafter(1, 0, dtype=positions.dtype)))
    rows = rows.take(satisfied(rows, schema))
    if len(rows) < number:
        raise ValueError(
            f"only {len(rows)} of {pool} drawn rows fulfill the constraints: too few for {number} "
            "canaries. Ask for fewer, or write them by hand."
        )
    if model is not None:
        rows = rows.take(np.argsort(model.density.log_prob(rows), kind="stable"))
    return decode(rows.take(slice(number)), schema, like=like, vocabularies=words)


def image_canaries(
    spec: ImageSpec, number: int, *, cell: int = 2, seed: int = 0
) -> Float[np.ndarray, "number height width channels"]:
    """Images of random cells, each at an end of the range: no photograph looks like one.

    Args:
        spec: The declared images.
        number: How many canaries.
        cell: Pixels of a cell, each way; cells survive an encoder that single pixels do not.
        seed: For the same canaries again.
    """
    check.count(number=number, cell=cell)
    rng = np.random.default_rng(seed)
    high, wide = -(-spec.height // cell), -(-spec.width // cell)
    cells = rng.integers(2, size=(number, high, wide, spec.channels))
    pixels = cells.repeat(cell, axis=1).repeat(cell, axis=2)[:, : spec.height, : spec.width]
    return (spec.low + pixels * (spec.high - spec.low)).astype(np.float32)
