"""Secrets, and the keys derived from them for each purpose and step.

All randomness of a private run comes from one `Secret` of 256 bits. Keys are hashes of the secret, a
purpose and a step number: no two uses share a key, any step can be replayed after a crash, and a key
tells an attacker nothing about any other.
"""

import hashlib
import secrets
from typing import Any

import numpy as np

IMPL = "threefry2x32"
"""The generator of JAX's keys, which have 64 bits; each is derived from all 256 bits of the secret."""

WORDS = 2
"""The number of words of a JAX key."""


class Secret:
    """256 bits that must not leave the run. They are never shown or pickled."""

    __slots__ = ("_entropy", "chosen")

    def __init__(self, entropy: bytes, *, chosen: bool):
        if len(entropy) != 32:
            raise ValueError(f"a secret has 32 bytes, got {len(entropy)}.")
        self._entropy = entropy
        self.chosen = chosen
        """Whether a person chose it, which is good for research but not for a release."""

    @classmethod
    def fresh(cls) -> "Secret":
        """A secret from the operating system."""
        return cls(secrets.token_bytes(32), chosen=False)

    @classmethod
    def from_seed(cls, seed: int | None) -> "Secret":
        """The secret of a seed that a person chose, or a fresh one if the seed is None."""
        if seed is None:
            return cls.fresh()
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
            raise TypeError(f"seed must be a whole number or None, got {type(seed).__name__}.")
        return cls(hashlib.blake2b(f"seed {seed}".encode(), digest_size=32).digest(), chosen=True)

    def child(self, purpose: str) -> "Secret":
        """Another secret, for work that has purposes of its own."""
        return Secret(self._digest(purpose, 0, num_bytes=32), chosen=self.chosen)

    def reveal(self) -> bytes:
        """The bytes themselves, for a checkpoint that only its owner can read."""
        return self._entropy

    def words(self, purpose: str, first: int, count: int, *, size: int = WORDS) -> np.ndarray:
        """Raw uint32 keys for `count` consecutive steps from `first` on, (count, size)."""
        steps = range(first, first + count)
        digests = [self._digest(purpose, index, num_bytes=4 * size) for index in steps]
        return np.frombuffer(b"".join(digests), np.uint32).reshape(count, size)

    def stream(self, purpose: str, index: int, num_words: int) -> np.ndarray:
        """Random uint32 words from a cryptographic hash (SHAKE-256), for draws on the host."""
        root = self._digest(purpose, index, num_bytes=64)
        return np.frombuffer(hashlib.shake_256(root).digest(4 * num_words), np.uint32)

    def _digest(self, purpose: str, index: int, *, num_bytes: int) -> bytes:
        person = purpose.encode()
        if not 0 < len(person) <= hashlib.blake2b.PERSON_SIZE or b"\0" in person:
            raise ValueError(f"a purpose has 1 to 16 bytes, none of them zero, got {purpose!r}.")
        return hashlib.blake2b(
            index.to_bytes(8, "little"), key=self._entropy, person=person, digest_size=num_bytes
        ).digest()

    def key(self, purpose: str, index: int = 0) -> Any:
        """One typed JAX key."""
        return wrap(self.words(purpose, index, 1)[0])

    def fingerprint(self, *chunks: bytes) -> str:
        """A keyed hash: equal for equal contents, and meaningless without the secret."""
        digest = hashlib.blake2b(key=self._entropy, person=b"fingerprint", digest_size=16)
        for chunk in chunks:
            digest.update(len(chunk).to_bytes(8, "little"))
            digest.update(chunk)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return "Secret(...)"

    def __reduce__(self):
        raise TypeError("a Secret is not pickled or copied.")


def wrap(words: Any) -> Any:
    """Raw words as a typed JAX key."""
    import jax

    return jax.random.wrap_key_data(words, impl=IMPL)
