"""Records to parts by a keyed hash: a record is in one part, whatever the other records are.

That is all the proof of an ensemble needs, with any key. The key is secret for another reason: who
knew it could choose records that all fall into one part.
"""

import hashlib

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret

_DIGEST = 16
_PERSON = b"parts"


def split(
    rows: Float[np.ndarray, "rows dim"], *, parts: int, secret: Secret
) -> list[Float[np.ndarray, "part dim"]]:
    """The rows of each part, in the order of their hashes.

    Equal rows go to one part. What a part holds depends on which records there are and not on their
    order, so that a table in another order gives the same parts.

    Args:
        rows: Finite numbers, one row per record.
        parts: How many parts.
        secret: Its bytes are the key.
    """
    digests = [_digest(row, secret) for row in canonical(rows)]
    # the first half of a hash says which part, all of it the place there
    homes = np.array([int.from_bytes(d[: _DIGEST // 2], "big") % parts for d in digests], int)
    ordered = np.array(sorted(range(len(digests)), key=digests.__getitem__), int)
    return [rows[ordered[homes[ordered] == part]] for part in range(parts)]


def canonical(rows: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "rows dim"]:
    """Rows with the same bytes wherever they have the same numbers: little-endian, one zero."""
    return np.ascontiguousarray(rows, dtype="<f8") + 0.0  # minus zero plus zero is zero


def _digest(row: Float[np.ndarray, " dim"], secret: Secret) -> bytes:
    key = secret.reveal()
    return hashlib.blake2b(row.tobytes(), key=key, person=_PERSON, digest_size=_DIGEST).digest()
