"""Records of a scientific model: arrays of any shape, one record along their first axis."""

import os
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from veilflow.privacy.guarantees import Sensitive
from veilflow.tabular.io import read_rows


def opened(records: Any) -> Sensitive[PyTree]:
    """Records behind the door.

    Args:
        records: An array, a tuple or dictionary of arrays, a frame, or the path of a file of numbers.

    Raises:
        ValueError: There is no record, or arrays differ in length.
    """
    if isinstance(records, str | os.PathLike) or hasattr(records, "columns"):
        records = read_rows(records).values
    arrays = jax.tree.map(_plain, records)
    lengths = {array.shape[:1] for array in jax.tree.leaves(arrays)}
    if len(lengths) != 1 or lengths & {(), (0,)}:
        raise ValueError(
            "records must be arrays of one common, positive length: one record along the first axis "
            "of each. Give an array, or a tuple or dictionary of arrays."
        )
    return Sensitive(arrays, description="records of a model")


def _plain(array: Any) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"records must hold numbers, got an array of {array.dtype}.")
    return array.astype(np.float32) if array.dtype.kind == "f" else array
