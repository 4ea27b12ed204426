"""Secrets: unguessable, unprintable, and a source of keys of which no two are alike."""

import copy
import pickle
import re
from itertools import product
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilflow
from veilflow._core.keys import Secret, wrap
from veilflow.engine.step import PURPOSES

SOURCE = Path(veilflow.__file__).parent
USED = re.compile(r"(?:\.(?:key|words|stream)\(\s*|\bsecret,\s*purpose=)\"([^\"]*)\"")


def purposes_in_use() -> set[str]:
    texts = [path.read_text("utf-8") for path in SOURCE.rglob("*.py")]
    return {purpose for text in texts for purpose in USED.findall(text)} | set(PURPOSES)


def test_a_fresh_secret_has_256_bits_and_no_two_are_equal():
    entropies = {Secret.fresh().reveal() for _ in range(100)}
    assert {len(entropy) for entropy in entropies} == {32}
    assert len(entropies) == 100


def test_the_bits_of_fresh_secrets_are_fair():
    # 256000 fair bits; six standard deviations: a false alarm in 5e8 runs
    bits = np.unpackbits(
        np.frombuffer(b"".join(Secret.fresh().reveal() for _ in range(1000)), "u1")
    )
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / bits.size**0.5


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_secret_of_another_size_is_refused(size: int):
    with pytest.raises(ValueError, match=f"32 bytes, got {size}"):
        Secret(bytes(size), chosen=False)


@given(st.integers())
def test_a_seed_gives_the_same_secret_each_time_and_its_neighbor_another(seed: int):
    assert Secret.from_seed(seed).reveal() == Secret.from_seed(seed).reveal()
    assert Secret.from_seed(seed).reveal() != Secret.from_seed(seed + 1).reveal()
    assert Secret.from_seed(seed).chosen


def test_without_a_seed_a_secret_is_fresh_and_not_chosen():
    one, two = Secret.from_seed(None), Secret.from_seed(None)
    assert one.reveal() != two.reveal()
    assert not one.chosen


def test_a_seed_from_numpy_is_the_same_seed():
    assert Secret.from_seed(np.int64(7)).reveal() == Secret.from_seed(7).reveal()  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [True, 1.0, "1", b"1", (1,)])
def test_a_seed_that_is_no_whole_number_is_refused(seed: object):
    with pytest.raises(TypeError, match="whole number or None, got"):
        Secret.from_seed(seed)  # type: ignore[arg-type]


def test_keys_of_all_purposes_in_use_and_of_all_steps_differ():
    secret = Secret.from_seed(0)
    words = [secret.words(purpose, 0, 500) for purpose in sorted(purposes_in_use())]
    together = np.concatenate(words)
    # 64-bit keys, a few thousand of them: equal ones by chance in one of 1e12 cases
    assert len(np.unique(together, axis=0)) == len(together)


def test_no_two_purposes_in_use_are_cut_to_the_same_key():
    """A purpose enters the hash with its first 16 bytes, and zero bytes at the end do not count."""
    used = purposes_in_use()
    assert {"draw", "loss", "noise", "weights", "sample"} <= used
    assert all(0 < len(purpose.encode()) <= 16 and "\0" not in purpose for purpose in used)


@given(first=st.integers(0, 2**40), count=st.integers(1, 20), skip=st.integers(0, 19))
def test_the_key_of_a_step_does_not_depend_on_the_block_it_is_made_in(first, count, skip):
    secret = Secret.from_seed(3)
    skip = min(skip, count - 1)
    block = secret.words("noise", first, count)
    assert block.shape == (count, 2)
    assert block.dtype == np.uint32
    np.testing.assert_array_equal(block[skip:], secret.words("noise", first + skip, count - skip))


def test_different_secrets_give_different_keys():
    first = [Secret.from_seed(seed).words("noise", 0, 1).tobytes() for seed in range(200)]
    assert len(set(first)) == 200


def test_a_key_is_the_typed_form_of_its_words():
    secret = Secret.from_seed(1)
    key = secret.key("weights", 4)
    np.testing.assert_array_equal(
        jax.random.key_data(key), jax.random.key_data(wrap(secret.words("weights", 4, 1)[0]))
    )
    assert jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)


def test_a_secret_shows_nothing():
    secret = Secret.from_seed(5)
    shown = f"{secret!r} {secret!s} {secret}"
    assert secret.reveal().hex() not in shown
    assert shown == "Secret(...) Secret(...) Secret(...)"
    assert not hasattr(secret, "__dict__")


@pytest.mark.parametrize("move", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_is_neither_pickled_nor_copied(move):
    with pytest.raises(TypeError, match="not pickled or copied"):
        move(Secret.fresh())


def test_a_fingerprint_depends_on_every_byte_on_the_split_and_on_the_secret():
    secret = Secret.from_seed(0)
    same = secret.fingerprint(b"rows", b"more")
    assert same == Secret.from_seed(0).fingerprint(b"rows", b"more")
    others = [
        secret.fingerprint(*chunks)
        for chunks in [(b"rowsmore",), (b"row", b"smore"), (b"rows", b"mora"), (b"more", b"rows")]
    ]
    others.append(Secret.from_seed(1).fingerprint(b"rows", b"more"))
    assert len({same, *others}) == 6


def test_a_fingerprint_holds_no_key_of_the_run():
    secret = Secret.from_seed(0)
    fingerprint = bytes.fromhex(secret.fingerprint(bytes(8)))
    for purpose, step in product(sorted(purposes_in_use()), range(20)):
        assert secret.words(purpose, step, 1).tobytes() not in fingerprint
