"""Whether probabilities mean what they say: predicted beside observed shares, as a drawing."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from veilflow.reports import svg

_BINS = 10


def calibration(
    chances: Float[np.ndarray, " rows"], happened: Bool[np.ndarray, " rows"], *, of: str
) -> dict[str, Any]:
    """Records in ten bins by their predicted chance; as private as the records.

    Args:
        chances: What was predicted for each record.
        happened: Whether it came so.
        of: What it is that was predicted, for the caption.

    Returns:
        The drawing, a line for each bin with records, and by how much chances are off on average.
    """
    bins = np.minimum((chances * _BINS).astype(int), _BINS - 1)
    count = np.bincount(bins, minlength=_BINS)
    safe = np.maximum(count, 1)
    said = np.bincount(bins, weights=chances, minlength=_BINS) / safe
    came = np.bincount(bins, weights=happened.astype(float), minlength=_BINS) / safe
    return {
        "of": of,
        "off": float(np.sum(count * np.abs(said - came)) / max(len(chances), 1)),
        "svg": svg.histogram(
            came,
            said,
            labels=["chance 0", "1"],
            alt=f"Chance of {of}, in ten bins: what came true as bars, what was predicted as a line.",
        ),
        "lines": [
            {
                "range": f"{100 * i // _BINS} to {100 * (i + 1) // _BINS} %",
                "count": int(count[i]),
                "said": float(said[i]),
                "came": float(came[i]),
            }
            for i in range(_BINS)
            if count[i]
        ],
    }
