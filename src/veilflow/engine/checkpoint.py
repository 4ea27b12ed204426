"""Checkpoints: a killed run goes on where it was, with the same noise, and spends nothing twice.

A checkpoint holds the run's secret, so that the steps after it can be replayed exactly; it is for its
owner's eyes (mode 600), lives only as long as the run, and is no artifact to publish. Replaying the
same noise on other records or another plan would expose their difference, so a checkpoint knows its
plan and, by a keyed hash, its records, and refuses any others.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import hashlib
import json
import os
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
"""Names of arrays: of a training under way, and of what was released before."""
_DIGEST = 32
"""Bytes of the hash behind the magic, over all that follows: no flipped bit may reuse noise."""


@dataclass(frozen=True)
class Saved:
    """What a checkpoint file says."""

    secret: Secret
    context: dict[str, Any]
    """What the run noted: plain values and arrays."""
    step: int
    plan: dict[str, Any] | None
    records: str | None
    arrays: dict[str, np.ndarray] = field(repr=False)


class Checkpoint:
    """A file that a run leaves behind from time to time.

    Args:
        path: Where. The folder must exist.
        seconds: How long to train between two writes.
    """

    def __init__(self, path: str | os.PathLike[str], *, seconds: float = 30.0):
        self.path = Path(path)
        self.seconds = seconds
        self._context: dict[str, Any] = {}
        self._records: str | None = None
        self._vouched = False
        """Whether the records were compared, by `begin` or `check_records`: training sees what is made
        of them."""

    @property
    def context(self) -> dict[str, Any]:
        """What was noted last."""
        return dict(self._context)

    def read(self) -> Saved | None:
        """What is there, or None when there is nothing yet.

        Raises:
            ArtifactError: The file is damaged or something else.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        if not self.path.exists():
            return None
        data = self.path.read_bytes()
        if data.startswith(_MAGIC):  # anything else is refused for what it is
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
                f"{self.path.name} is no usable checkpoint ({type(error).__name__}). Nothing was "
                "changed. If it is one, delete it to start the run afresh, which is a new spend; if it "
                "is something else, choose another path."
            ) from None

    def begin(self, secret: Secret, context: dict[str, Any], *, records: Sensitive[PyTree]) -> None:
        """Record the secret, whose records they are and what was released before training starts.

        These may be the records that training will see, or those it makes them of.
        """
        self._context = dict(context)
        self._records, self._vouched = _fingerprint(records.open(), secret), True
        self._write({}, 0, None, secret)

    def note(self, context: dict[str, Any], secret: Secret) -> None:
        """Replace the context: what was released so far, between two trainings."""
        self._context = dict(context)
        self._write({}, 0, None, secret)

    def check_records(self, saved: Saved, records: Sensitive[PyTree]) -> None:
        """Raise unless `saved` was begun with these records: before anything is done with its secret.

        Raises:
            PrivacyError: They are others.
        """
        self._records, self._vouched = _fingerprint(records.open(), saved.secret), True
        if saved.records != self._records:
            raise self._other("set of records")

    def restore(
        self, state: PyTree, *, plan: TrainingPlan, records: PyTree, secret: Secret
    ) -> tuple[PyTree, int]:
        """The saved state and step, or `state` and 0 when training had not begun.

        Raises:
            PrivacyError: The checkpoint belongs to another plan or to other records.
            ArtifactError: Its arrays do not fit the model.
        """
        if not self._vouched:
            self._records = _fingerprint(records, secret)
        saved = self.read()
        if saved is None:
            return state, 0
        others = {
            "plan": saved.plan is not None and saved.plan != _plain(plan),
            "secret": saved.secret.reveal() != secret.reveal(),
            "set of records": saved.records != self._records,
        }
        what = next((what for what, differs in others.items() if differs), None)
        if what is not None:
            raise self._other(what)
        if saved.plan is None:  # begun, and killed before the first step was written down
            return state, 0
        leaves, treedef = jax.tree.flatten(state)
        found = [saved.arrays.get(f"{_STATE}{i}") for i in range(len(leaves))]
        if len(saved.arrays) != len(leaves) or any(
            new is None or new.shape != old.shape or new.dtype != old.dtype
            for new, old in zip(found, leaves, strict=True)
        ):
            raise ArtifactError(f"{self.path.name} holds the state of another model.")
        return jax.tree.unflatten(treedef, [jnp.asarray(x) for x in found]), saved.step

    def save(self, state: PyTree, step: int, *, plan: TrainingPlan, secret: Secret) -> None:
        """Write the state after `step` steps, atomically."""
        arrays = {f"{_STATE}{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(state))}
        self._write(arrays, step, _plain(plan), secret)

    def delete(self) -> None:
        """Remove the file: the run is over and its secret is not needed any more."""
        self.path.unlink(missing_ok=True)
        self._partial.unlink(missing_ok=True)

    def _other(self, what: str) -> PrivacyError:
        return PrivacyError(
            f"{self.path.name} belongs to another {what}. Going on would reuse its noise, and "
            "the difference of the two runs would be exposed. Use another checkpoint path."
        )

    def _check_owner(self) -> None:
        """Raise unless the file is ours alone: a planted secret would take the noise away."""
        status = self.path.stat()
        if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
            raise PrivacyError(
                f"{self.path.name} can be read or written by others, so its secret is none. Nothing "
                "was changed. If you are sure that nobody did, make it yours alone (chmod 600)."
            )

    @property
    def _partial(self) -> Path:
        """Half a write. Its name is fixed, so that what a killed run left does not stay."""
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
            raise FileNotFoundError(f"the folder of {self.path} does not exist. Create it first.")
        # written whole beside it first: a crash leaves the old file or the new one
        self._partial.unlink(missing_ok=True)
        handle = os.open(self._partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "wb") as file:
            file.write(_MAGIC + _hash(payload) + payload)
            file.flush()
            os.fsync(handle)
        os.replace(self._partial, self.path)


def _packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """`value` as JSON has it, with its arrays moved to `arrays` and their names in their places."""
    if isinstance(value, np.ndarray | np.generic):
        name = f"{_KEPT}{len(arrays)}"
        arrays[name] = np.asarray(value, order="C")  # a number stays one, without axes
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
    """The plan as JSON gives it back, so that it can be compared with a saved one."""
    return json.loads(json.dumps(plan.to_json()))


def _fingerprint(records: PyTree, secret: Secret) -> str:
    leaves: list[Any] = [np.ascontiguousarray(x) for x in jax.tree.leaves(records)]
    shapes = repr([(x.shape, str(x.dtype)) for x in leaves]).encode()
    views = (_bytes(x) for x in leaves if x.size)
    return secret.fingerprint(shapes, *views)  # type: ignore[arg-type]


def _bytes(array: Any) -> memoryview | bytes:
    """The numbers of an array, or its texts, each behind its length: no two lists look alike."""
    if array.dtype != object:
        return memoryview(array).cast("B")
    texts = [str(text).encode("utf-8", "surrogatepass") for text in array.ravel()]
    return b"".join(part for text in texts for part in (len(text).to_bytes(8, "little"), text))
