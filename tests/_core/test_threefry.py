"""The generator of noise: its published answers, on host and device alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow._core.threefry import threefry

ONES = (0xFFFFFFFF,) * 4
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
MORE_PI = (0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89)
KNOWN = [
    ((0,) * 4, (0,) * 4, (0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8)),
    (ONES, ONES, (0x2A881696, 0x57012287, 0xF6C7446E, 0xA16A6732)),
    (MORE_PI, PI, (0x59CD1DBB, 0xB8879579, 0x86B5D00C, 0xAC8B6D84)),
]
"""Key, place and answer, from the known answers that come with Random123."""


def arrays(words, xp=np):
    return tuple(xp.asarray([word], dtype=np.uint32) for word in words)


@pytest.mark.parametrize(("key", "place", "answer"), KNOWN)
@pytest.mark.parametrize("xp", [np, jnp], ids=["host", "device"])
def test_answers_are_the_published_ones(key, place, answer, xp):
    got = threefry(arrays(key, xp), arrays(place, xp))
    assert tuple(int(word[0]) for word in got) == answer


def test_a_compiled_program_gives_the_same_words():
    key = np.arange(4, dtype=np.uint32)
    places = np.arange(1000, dtype=np.uint32)
    zero = np.zeros((), np.uint32)
    host = threefry(key, (places, zero, zero, zero))
    device = jax.jit(threefry)(key, (places, zero, zero, zero))
    np.testing.assert_array_equal(host, device)


def test_every_bit_of_key_and_place_moves_half_of_the_bits():
    rng = np.random.default_rng(0)
    key, place = rng.integers(0, 2**32, (2, 4, 2000), dtype=np.uint32)
    plain = np.stack(threefry(key, tuple(place)))
    for word in range(4):
        for bit in (0, 13, 31):
            flip = np.zeros((4, 1), np.uint32)
            flip[word] = 1 << bit
            for moved in (threefry(key ^ flip, tuple(place)), threefry(key, tuple(place ^ flip))):
                changed = np.unpackbits((np.stack(moved) ^ plain).view(np.uint8)).mean()
                assert abs(changed - 0.5) < 6.2 * 0.5 / np.sqrt(plain.size * 32)
