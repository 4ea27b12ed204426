"""Every reader of files: what it reads, how such files are damaged, what it may raise."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import veilflow as vf
from tests import journals
from tests.hostile import mutate, seeds
from tests.hostile.hunt import Loader
from veilflow._core import store
from veilflow.cli import account, records
from veilflow.engine import checkpoint as checkpoints
from veilflow.images import read_images
from veilflow.models import registry
from veilflow.models.detect.counter import InFile
from veilflow.privacy.dataset_ledger import DatasetLedger
from veilflow.privacy.policy import Policy
from veilflow.tabular.codec import encode
from veilflow.tabular.io import Rows, read_rows

FAST_MODELS = ("grid", "mixture")
ALL_MODELS = (*FAST_MODELS, "trained", "ensemble", "detector", "table", "posterior")
ALL_MODELS += ("classifier", "images")

_BAD_FILE = (vf.ArtifactError,)
_BAD_TABLE = (ValueError, TypeError)
_VEIL = mutate.of_members(
    {".json": mutate.of_json, ".safetensors": mutate.either(mutate.of_safetensors, mutate.of_bytes)}
)
_NPZ = mutate.of_members({})


def loaders(kinds: tuple[str, ...] = FAST_MODELS) -> dict[str, Callable[[], Loader]]:
    """By name; what they read is made when it is asked for.

    Args:
        kinds: Which models are saved to be damaged.
    """
    return {
        "model file": lambda: _models(kinds, mutate.of_bytes),
        "model file, within": lambda: _models(kinds, _VEIL),
        "ledger": lambda: Loader(
            account._read_ledger,
            (seeds.document(seeds.ledger().to_json()),),
            mutate.of_json,
            _BAD_FILE,
            "ledger.json",
        ),
        "schema, TOML": _schema_toml,
        "schema, JSON": lambda: Loader(
            lambda path: vf.Schema.from_json(store.parse_json(path.read_bytes(), what="schema")),
            (seeds.document(seeds.SCHEMA.to_json()),),
            mutate.of_json,
            (ValueError, vf.ArtifactError),
            "schema.json",
        ),
        "policy": lambda: Loader(
            Policy.from_file, (seeds.POLICY,), mutate.of_toml, (ValueError,), "policy.toml"
        ),
        "bounds": lambda: Loader(
            _read_bounds, (seeds.BOUNDS,), mutate.of_toml, (ValueError,), "bounds.toml"
        ),
        "CSV, numbers": lambda: _rows(seeds.csv_rows(), mutate.of_bytes, "rows.csv"),
        "CSV, table": lambda: _table((seeds.csv_table(),), "table.csv"),
        "Parquet, numbers": lambda: _rows(
            (seeds.parquet(seeds.numbers()),), mutate.of_bytes, "rows.parquet"
        ),
        "Parquet, table": lambda: _table((seeds.parquet(seeds.frame()),), "table.parquet"),
        "Arrow, numbers": lambda: _rows(
            tuple(seeds.arrow(seeds.numbers(), stream=s) for s in (False, True)),
            mutate.of_bytes,
            "rows.arrow",
        ),
        "Arrow, table": lambda: _table((seeds.arrow(seeds.frame()),), "table.arrow"),
        "NPZ, numbers": lambda: _rows(
            (
                seeds.npz(values=seeds.ROWS, columns=np.array(list("abc"))),
                seeds.npz(x=seeds.ROWS),
            ),
            _NPZ,
            "rows.npz",
        ),
        "NPY, numbers": lambda: _rows((seeds.npy(seeds.ROWS),), mutate.of_bytes, "rows.npy"),
        "NPZ, series": _series,
        "NPZ, images": lambda: Loader(
            lambda path: read_images(path, seeds.DIGITS),
            (
                seeds.npz(
                    images=np.zeros((4, 6, 5), np.uint8), labels=np.array([0, 1, 2, 1], np.uint8)
                ),
            ),
            _NPZ,
            _BAD_TABLE,
            "images.npz",
        ),
        "IDX": lambda: _idx((seeds.idx(4, 6, 5),), mutate.of_bytes, "images.idx"),
        "IDX, packed": lambda: _idx(
            (seeds.packed(seeds.idx(4, 6, 5)),), _unpacked, "images.idx.gz"
        ),
        "image files": _pictures,
        "list of images": _lists,
        "journal": lambda: Loader(
            _spend_one,
            (seeds.journal(),),
            mutate.either(mutate.of_bytes, _sealed),
            (vf.PrivacyError,),
            "journal",
        ),
        "data-set ledger": lambda: Loader(
            lambda path: DatasetLedger(path).entries(),
            (seeds.data_ledger(),),
            mutate.either(mutate.of_bytes, _sealed),
            (vf.ArtifactError, vf.PrivacyError),
            "spending",
        ),
        "checkpoint": lambda: Loader(
            lambda path: checkpoints.Checkpoint(path).read(),
            (seeds.checkpoint(),),
            mutate.either(mutate.of_bytes, _hashed),
            (vf.ArtifactError, vf.PrivacyError),
            "run.checkpoint",
        ),
    }


def _models(kinds: tuple[str, ...], damage: mutate.Damage) -> Loader:
    return Loader(registry.load, seeds.models(kinds), damage, _BAD_FILE, "model.veil")


def _schema_toml() -> Loader:
    from veilflow.tabular.schema_file import to_text

    whole = to_text(seeds.SCHEMA).encode()
    return Loader(vf.Schema.from_file, (whole,), mutate.of_toml, (ValueError,), "schema.toml")


def _read_bounds(path: Path) -> Any:
    return records.read_bounds(path, Rows(np.zeros((1, 3)), ("a", "b", "c")))


def _rows(whole: tuple[bytes, ...], damage: mutate.Damage, name: str) -> Loader:
    return Loader(read_rows, whole, damage, _BAD_TABLE, name)


def _table(whole: tuple[bytes, ...], name: str) -> Loader:
    return Loader(lambda path: encode(path, seeds.SCHEMA), whole, mutate.of_bytes, _BAD_TABLE, name)


def _series() -> Loader:
    def load(path: Path) -> None:
        if records.is_series(path):
            records.read_series(path)
            records.read_labels(path, None)

    shape = (3, 4, 2)
    arrays = {name: np.zeros(shape) for name in ("values", "mask", "since")}
    whole = seeds.npz(**arrays, labels=np.array([0, 1, 1]))
    return Loader(load, (whole,), _NPZ, _BAD_TABLE, "series.npz")


def _idx(whole: tuple[bytes, ...], damage: mutate.Damage, name: str) -> Loader:
    spec = vf.ImageSpec(height=6, width=5)
    return Loader(lambda path: read_images(path, spec), whole, damage, _BAD_TABLE, name)


def _unpacked(data: bytes, rng: random.Random) -> bytes:
    import gzip

    if rng.random() < 0.4:
        return mutate.of_bytes(data, rng)
    return seeds.packed(mutate.of_bytes(gzip.decompress(data), rng))


def _pictures() -> Loader:
    """All of them by one name: what a file is, its bytes tell."""
    kinds = {"PNG": {}, "JPEG": {"quality": 90}, "GIF": {}, "BMP": {}, "PPM": {}, "TIFF": {}}
    whole = [seeds.picture(kind, **settings) for kind, settings in kinds.items()]
    whole.append(seeds.picture("TIFF", compression="tiff_lzw"))

    def load(path: Path) -> Any:
        return read_images(path.parent, seeds.SPEC, size="resize", color="convert")

    return Loader(load, tuple(whole), mutate.of_bytes, _BAD_TABLE, "picture.png")


def _lists() -> Loader:
    def load(path: Path) -> Any:
        _one_picture(path.parent / "images")
        return read_images(
            path.parent / "images", DIGITS, labels=path, size="resize", color="convert"
        )

    whole = b"file,label\na.png,1\nsub/../b.png,0\n"
    return Loader(load, (whole,), _with_paths, _BAD_TABLE, "labels.csv")


DIGITS = vf.ImageSpec(height=6, width=5, channels=3, classes=(0, 1))
_PATHS = (
    "../bait.png",
    "../../bait.png",
    "/etc/passwd",
    "..\\..\\bait.png",
    "a.png/../../../bait.png",
)


def _one_picture(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir()
        for name in ("a.png", "b.png"):
            (folder / name).write_bytes(seeds.picture("PNG"))


def _with_paths(data: bytes, rng: random.Random) -> bytes:
    """Names of files that lead elsewhere, and damaged bytes."""
    if rng.random() < 0.5:
        return mutate.of_bytes(data, rng)
    return data.replace(rng.choice((b"a.png", b"b.png")), rng.choice(_PATHS).encode())


def _spend_one(path: Path) -> None:
    one = InFile(path, id=seeds.JOURNAL_ID)
    before = one.spent()
    one.spend(1, limit=10**9)
    assert one.spent() == before + 1
    assert InFile(path, id=seeds.JOURNAL_ID).spent() == before + 1


def _sealed(data: bytes, rng: random.Random) -> bytes:
    """A changed entry with seals that fit: someone who knows how they are made."""
    title, *entries = journals.bodies(data)
    place = rng.randrange(len(entries))
    entries[place] = mutate.of_json(entries[place], rng)
    return journals.forged([title, *entries])


def _hashed(data: bytes, rng: random.Random) -> bytes:
    """A changed checkpoint with a hash that fits."""

    def of_meta(header: dict[str, Any]) -> Any:
        meta = json.loads(header["__metadata__"]["veilflow"])
        changed = json.dumps(mutate.of_value(meta, rng))
        return {**header, "__metadata__": {"veilflow": changed}}

    if rng.random() < 0.6:
        return with_header(data, of_meta)
    return with_header(data, lambda header: mutate.of_value(header, rng))


def with_header(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """A checkpoint with another header, and the hash of that."""
    start = len(checkpoints._MAGIC)
    payload = data[start + checkpoints._DIGEST :]
    size = int.from_bytes(payload[:8], "little")
    text = json.dumps(change(json.loads(payload[8 : 8 + size]))).encode()
    text += b" " * (-len(text) % 8)
    payload = len(text).to_bytes(8, "little") + text + payload[8 + size :]
    digest = hashlib.blake2b(payload, digest_size=checkpoints._DIGEST).digest()
    return data[:start] + digest + payload
