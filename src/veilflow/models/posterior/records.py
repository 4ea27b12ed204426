"""Records of a scientific model: arrays of any shape, one record along their first axis.

All numbers become float32, whole ones as well. The type of an array depends on its records: one NaN
makes whole numbers floats, and those that stay whole wrap around at 2^31 on the device. A likelihood
that counts or indexes by a number of a record rounds it: `jnp.round(x).astype(int)`.
"""

import os
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.unit import Unit
from veilflow.tabular import arrays
from veilflow.tabular.io import read_rows


def opened(records: Any) -> Sensitive[PyTree]:
    """Records behind the door.

    Args:
        records: An array, a tuple or dictionary of arrays, a frame, or the path of a file of numbers.

    Raises:
        ValueError: Arrays differ in length, or have no axis for records.
        TypeError: A cell is no number.
    """
    if isinstance(records, str | os.PathLike) or hasattr(records, "columns"):
        records = read_rows(records).values
    plain = jax.tree.map(_plain, records)
    lengths = {array.shape[:1] for array in jax.tree.leaves(plain)}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(
            "records must be arrays of one common length: one record along the first axis of each. "
            "Give an array, or a tuple or dictionary of arrays."
        )
    return Sensitive(plain, description="records of a model", unit=Unit.RECORD)


def _plain(array: Any) -> np.ndarray:
    cells = arrays.numbers(np.asarray(array))
    if cells.unreadable.any():
        raise TypeError("records must hold numbers, and some cells are none.")
    with np.errstate(over="ignore"):  # too large for float32 is infinite, and adds nothing to a sum
        return arrays.or_nan(cells).astype(np.float32)
