"""Canaries: artificial rows and images that stand out if a model memorizes anything.

They are generated from declared facts alone. Add each to the data by a fair coin before a fit;
`membership.audit` then tests whether the model reveals which were in.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.images.spec import ImageSpec
from veilflow.tabular.codec import decode
from veilflow.tabular.encoded import EncodedRows, Vocabularies, position_type
from veilflow.tabular.satisfaction import satisfied
from veilflow.tabular.schema import Schema

_POOL = 20
"""Rows drawn for each canary: constraints exclude some, and the least likely are kept."""


def fair_coins(number: int, *, seed: int | None = None) -> Bool[np.ndarray, " number"]:
    """Which canaries go in; keep the result, and keep it secret until the audit."""
    check.count(number=number)
    return coins(number, Secret.from_seed(seed))


def coins(number: int, secret: Secret) -> Bool[np.ndarray, " number"]:
    """A fair coin for each canary."""
    return (secret.words("coins", 0, number)[:, 0] & 1).astype(bool)


def table_canaries(
    schema: Schema,
    number: int,
    *,
    vocabularies: Vocabularies | None = None,
    model: Any = None,
    seed: int = 0,
    like: Any = "pandas",
) -> Any:
    """Rows that the schema allows and that are rare: uniform values, many numbers at their bounds.

    Args:
        schema: The declared columns; bounds must be known.
        number: Number of canaries.
        vocabularies: The values of open columns.
        model: A released model; the rows that it considers least likely are kept.
        seed: For reproducible canaries.
        like: "pandas", "polars" or "pyarrow".

    Raises:
        ValueError: If too few combinations of values satisfy the constraints.
    """
    check.count(number=number)
    rng, vocabularies = np.random.default_rng(seed), dict(vocabularies or {})
    pool = number * _POOL
    core = schema.core
    codes = np.zeros((pool, len(core.columns)), np.int32)
    positions = np.zeros(codes.shape, position_type(core))
    for place, (name, column) in enumerate(core.columns.items()):
        # the last code is that of a missing cell: canaries have none
        choices = column.num_codes(vocabularies.get(name)) - column.nullable
        codes[:, place] = rng.integers(choices, size=pool)
        if column.has_position:
            ends = np.asarray([0.0, np.nextafter(1.0, 0.0, dtype=positions.dtype)])
            inner = rng.random(pool)
            positions[:, place] = np.where(rng.random(pool) < 0.5, rng.choice(ends, pool), inner)
    rows = EncodedRows(codes, np.minimum(positions, np.nextafter(1, 0, dtype=positions.dtype)))
    rows = rows.take(satisfied(rows, schema))
    if len(rows) < number:
        raise ValueError(
            f"only {len(rows)} of {pool} drawn rows satisfy the constraints: too few for {number} "
            "canaries. Ask for fewer, or write them by hand."
        )
    if model is not None:
        rows = rows.take(np.argsort(model.density.log_prob(rows), kind="stable"))
    return decode(rows.take(slice(number)), schema, like=like, vocabularies=vocabularies)


def image_canaries(
    spec: ImageSpec, number: int, *, cell: int = 2, seed: int = 0
) -> Float[np.ndarray, "number height width channels"]:
    """Images of random cells, each at an end of the range: unlike any photograph.

    Args:
        spec: The declared images.
        number: Number of canaries.
        cell: Width and height of a cell in pixels; cells survive an encoder, single pixels do not.
        seed: For reproducible canaries.
    """
    check.count(number=number, cell=cell)
    rng = np.random.default_rng(seed)
    high, wide = -(-spec.height // cell), -(-spec.width // cell)
    cells = rng.integers(2, size=(number, high, wide, spec.channels))
    pixels = cells.repeat(cell, axis=1).repeat(cell, axis=2)[:, : spec.height, : spec.width]
    return (spec.low + pixels * (spec.high - spec.low)).astype(np.float32)
