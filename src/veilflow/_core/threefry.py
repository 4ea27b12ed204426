"""Threefry-4x32, a counter-based generator that maps a key and a counter to four random words.

JAX's own Threefry has two words: a key of 64 bits, and blocks of 64 bits that never repeat, which
distinguishes a long stream from a random one. With four words neither is within reach of an attacker.
Noise takes whole blocks for each number, so a compiler computes the noise of an array in one loop.

References:
    Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from typing import Any

import numpy as np

KEY_WORDS = 4
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_ROUNDS = 20
_PARITY = 0x1BD11BDA

Words = tuple[Any, Any, Any, Any]


def threefry(key: Any, place: Words) -> Words:
    """Four random words for each counter: uint32 arrays of NumPy or JAX.

    Args:
        key: Four words, as an array or one by one.
        place: The counter: four words, at least one of them an array. No counter may be used twice
            with the same key.
    """
    keys = [key[0], key[1], key[2], key[3], key[0] ^ key[1] ^ key[2] ^ key[3] ^ np.uint32(_PARITY)]
    a, b, c, d = (word + k for word, k in zip(place, keys[:4], strict=True))
    for step in range(_ROUNDS):
        left, right = _ROTATIONS[step % 8]
        if step % 2 == 0:
            a, b = _mixed(a, b, left)
            c, d = _mixed(c, d, right)
        else:
            a, d = _mixed(a, d, left)
            c, b = _mixed(c, b, right)
        if step % 4 == 3:
            turn = step // 4 + 1
            a, b, c, d = (word + keys[(turn + i) % 5] for i, word in enumerate((a, b, c, d)))
            d = d + np.uint32(turn)
    return a, b, c, d


def _mixed(one: Any, other: Any, turn: int) -> tuple[Any, Any]:
    one = one + other
    turned = (other << np.uint32(turn)) | (other >> np.uint32(32 - turn))
    return one, turned ^ one
