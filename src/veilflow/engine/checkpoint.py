"""Checkpoints: an interrupted run continues with the same noise and spends nothing twice.

A checkpoint holds the secret of the run, so that the steps after it can be replayed exactly. Only its
owner can read it (mode 600); it is deleted at the end of the run and must not be published. Replaying
the same noise on other records or with another plan would expose the difference, so a checkpoint
stores its plan and a keyed hash of its records, and refuses any others.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import contextlib
import hashlib
import json
import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from veilflow._core.errors import ArtifactError, PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine.plan import TrainingPlan
from veilflow.privacy.guarantees import Sensitive

_MAGIC = b"veilflow checkpoint 1\n"
_STATE, _KEPT, _ARRAY = "leaf", "kept", "the array named"
"""Names of arrays: the state of training, and values released before it."""
_DIGEST = 32
"""Bytes of the hash of everything behind it: no flipped bit may lead to reused noise."""


@dataclass(frozen=True)
class Saved:
    """The contents of a checkpoint file."""

    secret: Secret
    context: dict[str, Any]
    """What the run noted: plain values and arrays."""
    step: int
    plan: dict[str, Any] | None
    records: str | None
    arrays: dict[str, np.ndarray] = field(repr=False)


class Checkpoint:
    """A file to which a run saves its state from time to time.

    Args:
        path: The file. Its folder must exist.
        seconds: How long to train between two writes.
    """

    def __init__(self, path: str | os.PathLike[str], *, seconds: float = 30.0):
        self.path = Path(path)
        self.seconds = seconds
        self._context: dict[str, Any] = {}
        self._records: str | None = None
        self._lock: sqlite3.Connection | None = None
        self._vouched = False
        """Whether `begin` or `check_records` has compared the records from which those of the training
        are computed."""

    def hold(self) -> None:
        """Exclude every other run from this checkpoint, until `release` or the end of the process.

        Two runs that resumed it would each draw what is not yet kept, and count it once.

        Raises:
            PrivacyError: Another run holds it.
        """
        if not self.path.parent.is_dir():
            raise _no_folder(self.path)
        # a lock that ends with the process, on every system
        uri = f"{self._held.absolute().as_uri()}?mode=rwc"
        lock = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
        with contextlib.suppress(sqlite3.OperationalError):
            lock.execute("BEGIN EXCLUSIVE")
        if not (lock.in_transaction and self._held.exists()):  # or it was removed while we waited
            lock.close()
            raise PrivacyError(
                f"another run uses the checkpoint {self.path.name}. Together they would release "
                "twice what is counted once. Wait for its end, or use another path."
            )
        self._lock = lock

    def release(self) -> None:
        """Let other runs use this checkpoint."""
        if self._lock is None:
            return
        # while it is locked, so that two others cannot lock two files; some systems do not allow it
        with contextlib.suppress(OSError):
            self._held.unlink()
        self._lock.close()
        self._lock = None

    @property
    def context(self) -> dict[str, Any]:
        """The values noted last."""
        return dict(self._context)

    def read(self) -> Saved | None:
        """The contents of the file, or None if there is no file yet.

        Raises:
            ArtifactError: The file is damaged or is not a checkpoint.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        if not self.path.exists():
            return None
        data = self.path.read_bytes()
        if data.startswith(_MAGIC):  # any other file is refused below
            self._check_owner()
        digest, payload = data[len(_MAGIC) : len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
        try:
            if not data.startswith(_MAGIC):
                raise ValueError("foreign")
            if _hash(payload) != digest:
                raise ValueError("damaged")
            arrays = load(payload)
            size = int.from_bytes(payload[:8], "little")
            meta = json.loads(json.loads(payload[8 : 8 + size])["__metadata__"]["veilflow"])
            secret = Secret(bytes.fromhex(meta["secret"]), chosen=bool(meta["chosen"]))
            self._context = dict(_unpacked(meta["context"], arrays))
            state = {name: x for name, x in arrays.items() if name.startswith(_STATE)}
            return Saved(
                secret, self._context, int(meta["step"]), meta["plan"], meta["records"], state
            )
        except (
            SafetensorError,
            KeyError,
            OverflowError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:
            raise ArtifactError(
                f"{self.path.name} is not a usable checkpoint ({type(error).__name__}). Nothing was "
                "changed. If it is a damaged checkpoint, delete it and start the run again, which "
                "spends anew; if it is another file, choose another path."
            ) from None

    def begin(self, secret: Secret, context: dict[str, Any], *, records: Sensitive[PyTree]) -> None:
        """Save the secret, a hash of the records and what was released before training starts.

        The records may be those of the training, or those from which they are computed.
        """
        self._context = dict(context)
        self._records, self._vouched = _fingerprint(records.open(), secret), True
        self._write({}, 0, None, secret)

    def note(self, context: dict[str, Any], secret: Secret) -> None:
        """Replace the context: what has been released so far, between two trainings."""
        self._context = dict(context)
        self._write({}, 0, None, secret)

    def check_records(self, saved: Saved, records: Sensitive[PyTree]) -> None:
        """Raise unless `saved` was begun with these records. Call this before its secret is used.

        Raises:
            PrivacyError: The records are different.
        """
        self._records, self._vouched = _fingerprint(records.open(), saved.secret), True
        if saved.records != self._records:
            raise self._other("set of records")

    def restore(
        self, state: PyTree, *, plan: TrainingPlan, records: PyTree, secret: Secret
    ) -> tuple[PyTree, int]:
        """The saved state and step, or `state` and 0 if training had not begun.

        Raises:
            PrivacyError: The checkpoint belongs to another plan or to other records.
            ArtifactError: Its arrays do not match the model.
        """
        if not self._vouched:
            self._records = _fingerprint(records, secret)
        saved = self.read()
        if saved is None:
            return state, 0
        differs = {
            "plan": saved.plan is not None and saved.plan != _plain(plan),
            "secret": saved.secret.reveal() != secret.reveal(),
            "set of records": saved.records != self._records,
        }
        for what, is_different in differs.items():
            if is_different:
                raise self._other(what)
        if saved.plan is None:  # begun, but interrupted before the first step was saved
            return state, 0
        leaves, treedef = jax.tree.flatten(state)
        arrays = [saved.arrays.get(f"{_STATE}{i}") for i in range(len(leaves))]
        if len(saved.arrays) != len(leaves) or any(
            new is None or new.shape != old.shape or new.dtype != old.dtype
            for new, old in zip(arrays, leaves, strict=True)
        ):
            raise ArtifactError(f"{self.path.name} holds the state of another model.")
        return jax.tree.unflatten(treedef, [jnp.asarray(x) for x in arrays]), saved.step

    def save(self, state: PyTree, step: int, *, plan: TrainingPlan, secret: Secret) -> None:
        """Write the state after `step` steps, atomically."""
        arrays = {f"{_STATE}{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(state))}
        self._write(arrays, step, _plain(plan), secret)

    def delete(self) -> None:
        """Remove the file: the run is over, and its secret is no longer needed."""
        self.path.unlink(missing_ok=True)
        self._partial.unlink(missing_ok=True)

    def _other(self, what: str) -> PrivacyError:
        return PrivacyError(
            f"{self.path.name} belongs to another {what}. Going on would reuse its noise and expose "
            "the difference between the two runs. Use another checkpoint path."
        )

    def _check_owner(self) -> None:
        """Raise unless the file is ours alone: a planted secret would remove the noise."""
        status = self.path.stat()
        if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
            raise PrivacyError(
                f"{self.path.name} can be read or written by others, so its secret may be known. "
                "Nothing was changed. If you are sure that nobody did, make it yours alone (chmod 600)."
            )

    @property
    def _held(self) -> Path:
        """An empty file that is locked while a run uses the checkpoint."""
        return self.path.with_name(f".{self.path.name}.lock")

    @property
    def _partial(self) -> Path:
        """An unfinished write. Its name is fixed, so that no interrupted run leaves a second one."""
        return self.path.with_name(f".{self.path.name}.partial")

    def _write(
        self, arrays: dict[str, np.ndarray], step: int, plan: dict[str, Any] | None, secret: Secret
    ) -> None:
        from safetensors.numpy import save

        arrays = dict(arrays)
        meta = {
            "step": step,
            "plan": plan,
            "records": self._records,
            "context": _packed(self._context, arrays),
            "secret": secret.reveal().hex(),
            "chosen": secret.chosen,
        }
        payload = save(arrays, {"veilflow": json.dumps(meta)})
        if not self.path.parent.is_dir():
            raise _no_folder(self.path)
        # first written beside it: a crash leaves the old file or the new one
        self._partial.unlink(missing_ok=True)
        handle = os.open(self._partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "wb") as file:
            file.write(_MAGIC + _hash(payload) + payload)
            file.flush()
            os.fsync(handle)
        os.replace(self._partial, self.path)


def _no_folder(path: Path) -> FileNotFoundError:
    return FileNotFoundError(f"the folder of {path} does not exist. Create it first.")


def _packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """`value` as JSON, with its arrays moved to `arrays` and replaced by their names."""
    if isinstance(value, np.ndarray | np.generic):
        name = f"{_KEPT}{len(arrays)}"
        arrays[name] = np.asarray(value, order="C")  # a scalar keeps its shape
        return {_ARRAY: name}
    if isinstance(value, dict):
        return {str(key): _packed(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(item, arrays) for item in value]
    return value


def _unpacked(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _unpacked(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_unpacked(item, arrays) for item in value]
    return value


def _hash(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_DIGEST).digest()


def _plain(plan: TrainingPlan) -> dict[str, Any]:
    """The plan after a round trip through JSON, to compare it with a saved one."""
    return json.loads(json.dumps(plan.to_json()))


def _fingerprint(records: PyTree, secret: Secret) -> str:
    leaves: list[Any] = [np.ascontiguousarray(x) for x in jax.tree.leaves(records)]
    shapes = repr([(x.shape, str(x.dtype)) for x in leaves]).encode()
    views = (_bytes(x) for x in leaves if x.size)
    return secret.fingerprint(shapes, *views)  # type: ignore[arg-type]


def _bytes(array: Any) -> memoryview | bytes:
    """The bytes of an array; strings are prefixed by their lengths, so no two lists look alike."""
    if array.dtype != object:
        return memoryview(array).cast("B")
    texts = [str(text).encode("utf-8", "surrogatepass") for text in array.ravel()]
    return b"".join(part for text in texts for part in (len(text).to_bytes(8, "little"), text))
