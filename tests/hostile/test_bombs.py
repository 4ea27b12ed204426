"""Files made to do harm: bombs, false sizes, names that lead elsewhere, numbers that are none."""

import gzip
import io
import json
import resource
import stat
import struct
import zipfile
import zlib

import pytest

import veilflow as vf
from tests import journals
from tests.hostile import seeds
from tests.hostile.hunt import limited, watched
from veilflow._core import store
from veilflow.images import read_images
from veilflow.privacy.dataset_ledger import DatasetLedger
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.policy import Policy
from veilflow.tabular.codec import encode
from veilflow.tabular.io import read_rows

MEMBERS = {
    "manifest.json": json.dumps({"format": "veilflow-model", "format_version": 1}).encode(),
    "ledger.json": b"{}",
    "schema.json": b"{}",
    "arrays.safetensors": struct.pack("<Q", 2) + b"{}",
}
# made before anything is watched: making them writes files
TABLES = {"t.parquet": seeds.parquet(seeds.frame()), "t.arrow": seeds.arrow(seeds.frame())}
TABLES["s.arrow"] = seeds.arrow(seeds.frame(), stream=True)
SPENDING = journals.bodies(seeds.data_ledger())
MOST = 300 * 2**20
"""Bytes by which memory may grow."""


@pytest.fixture(autouse=True)
def guarded(tmp_path):
    """Whatever the file, it is read in time, in little memory, and nothing else is touched."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with watched(tmp_path) as seen, limited():
        yield
    assert seen == []
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST


def archive(members, *, packing=zipfile.ZIP_STORED, mode=stat.S_IFREG | 0o644) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packing) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = packing, mode << 16
            file.writestr(info, data)
    return made.getvalue()


def safetensors(header, body=b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def with_arrays(data: bytes) -> bytes:
    return archive({**MEMBERS, "arrays.safetensors": data})


def tensor(**changes):
    return {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}}


VEILS = {
    "a bomb": archive(
        {**MEMBERS, "arrays.safetensors": bytes(64 * 2**20)}, packing=zipfile.ZIP_DEFLATED
    ),
    "a path upwards": archive({**MEMBERS, "../bait": b"x"}),
    "an absolute path": archive({**MEMBERS, "/bait": b"x"}),
    "a path instead of a member": archive(
        {("../ledger.json" if k == "ledger.json" else k): v for k, v in MEMBERS.items()}
    ),
    "links": archive(dict.fromkeys(MEMBERS, b"/etc/passwd"), mode=stat.S_IFLNK | 0o777),
    "a header of 2^60 bytes": with_arrays(struct.pack("<Q", 2**60) + b"{}"),
    "a header of 2^64 - 1 bytes": with_arrays(struct.pack("<Q", 2**64 - 1) + b"{}"),
    "an array of 10^12 numbers": with_arrays(safetensors(tensor(shape=[10**12]), bytes(4))),
    "sizes whose product overflows": with_arrays(
        safetensors(tensor(shape=[2**33, 2**33]), bytes(4))
    ),
    "offsets beyond the end": with_arrays(safetensors(tensor(data_offsets=[0, 2**40]), bytes(4))),
    "offsets backwards": with_arrays(safetensors(tensor(data_offsets=[4, 0]), bytes(4))),
    "a type that is none": with_arrays(safetensors(tensor(dtype="O"), bytes(4))),
    "pickled arrays": with_arrays(b"\x80\x04cos\nsystem\n(S'true'\ntR."),
    "deep JSON": archive({**MEMBERS, "ledger.json": b'{"a":' * 10**5 + b"1" + b"}" * 10**5}),
    "not a number": archive({**MEMBERS, "schema.json": b'{"low": NaN}'}),
    "infinity": archive({**MEMBERS, "schema.json": b'{"low": -Infinity}'}),
    "infinity in digits": archive({**MEMBERS, "schema.json": b'{"low": 1e999}'}),
    "a number of 10,000 digits": archive(
        {**MEMBERS, "schema.json": b'{"low": ' + b"9" * 10**4 + b"}"}
    ),
    "a name twice": archive({**MEMBERS, "schema.json": b'{"low": 1, "low": 2}'}),
    "half a character": archive({**MEMBERS, "schema.json": b'{"low": "\\ud800"}'}),
    "a model that names code": archive(
        {
            **MEMBERS,
            "manifest.json": json.dumps(
                {
                    "format": "veilflow-model",
                    "format_version": 1,
                    "model": "os.system",
                    "guarantee": {},
                    "settings": {},
                }
            ).encode(),
        }
    ),
}


@pytest.mark.parametrize("data", VEILS.values(), ids=VEILS.keys())
def test_a_model_file_made_to_do_harm_is_refused(data, tmp_path):
    path = tmp_path / "m.veil"
    path.write_bytes(data)
    with pytest.raises(vf.ArtifactError):
        vf.load(path)
    assert list(tmp_path.iterdir()) == [path]


def npy(shape, *, descr="<f8", body=bytes(16)) -> bytes:
    made = io.BytesIO()
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    made.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body)
    return made.getvalue()


NUMPY = {
    "10^12 rows": npy((10**12, 1)),
    "2 * 10^9 rows": npy((2 * 10**9, 1)),
    "sizes whose product overflows": npy((2**40, 2**40)),
    "a size below zero": npy((-1, 2)),
    "a size that is no number": npy("('a', 2)"),
    "objects": npy((1, 1), descr="|O", body=b"cos\nsystem\n(S'true'\ntR."),
    "a header that is a program": npy("__import__('os').system('true')"),
    "a header nested deeply": npy("(" * 5000 + ")" * 5000),
}


@pytest.mark.parametrize("kind", ["rows.npy", "rows.npz", "images.npz", "images.npy"])
@pytest.mark.parametrize("data", NUMPY.values(), ids=NUMPY.keys())
def test_a_numpy_file_made_to_do_harm_is_refused(kind, data, tmp_path):
    path = tmp_path / kind
    member = "images.npy" if kind.startswith("images") else "x.npy"
    path.write_bytes(data if kind.endswith(".npy") else archive({member: data}))
    read = _read_images if kind.startswith("images") else read_rows
    with pytest.raises((ValueError, TypeError)):
        read(path)


def _read_images(path):
    return read_images(path, vf.ImageSpec(height=6, width=5))


def idx(*sizes, kind=8, dims=None) -> bytes:
    head = bytes([0, 0, kind, len(sizes) if dims is None else dims])
    return head + b"".join(struct.pack(">I", n) for n in sizes) + bytes(64)


IDX = {
    "sizes whose product overflows": idx(2**32 - 1, 2**32 - 1, 2**32 - 1),
    "10^12 bytes": idx(10**6, 10**6),
    "255 dimensions": idx(1, 1, dims=255),
    "255 dimensions of 2^32 - 1": idx(*[2**32 - 1] * 255),
    "65 dimensions": idx(*[1] * 65),
    "no dimension": idx(),
    "packed, and says that it is more": gzip.compress(idx(2**31, 6, 5)),
    "packed twice": gzip.compress(gzip.compress(idx(2, 6, 5))),
}


@pytest.mark.parametrize("data", IDX.values(), ids=IDX.keys())
def test_an_idx_file_with_false_sizes_is_refused(data, tmp_path):
    path = tmp_path / "images.idx"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"images\.idx|dimension"):
        _read_images(path)


def png(width, height, *, body=b"") -> bytes:
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", body), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    "data",
    [
        png(2**31 - 1, 2**31 - 1),
        png(60_000, 60_000, body=zlib.compress(bytes(2**20))),
        png(0, 5),
        png(5, 6, body=b"\0" * 100),
    ],
    ids=["2^62 pixels", "a bomb", "no width", "no stream"],
)
def test_a_picture_made_to_do_harm_is_refused(data, tmp_path):
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(ValueError, match="file 1"):
        read_images(tmp_path, seeds.SPEC, size="resize")


@pytest.mark.parametrize(
    "name",
    ["../bait.png", "..\\bait.png", "/etc/passwd", "a/../../bait.png", "C:\\bait.png", "\0", "."],
)
def test_a_list_that_names_files_elsewhere_is_refused_and_they_are_not_opened(name, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    (tmp_path / "bait.png").write_bytes(seeds.picture("PNG"))
    (tmp_path / "labels.csv").write_bytes(f"file,label\n{name},1\n".encode())
    spec = vf.ImageSpec(height=6, width=5, channels=3, classes=(0, 1))
    with watched(folder) as seen, pytest.raises(ValueError, match=r"file 1|labels"):
        read_images(folder, spec, labels=tmp_path / "labels.csv")
    assert [what for what in seen if "bait" in what] == []


@pytest.mark.parametrize(("name", "place"), [("t.parquet", -8), ("t.arrow", -10), ("s.arrow", 4)])
def test_a_parquet_or_arrow_file_with_a_false_length_is_refused(name, place, tmp_path):
    data, path = bytearray(TABLES[name]), tmp_path / name
    struct.pack_into("<I", data, place % len(data), 2**31 - 1)
    path.write_bytes(data)
    for read in (read_rows, lambda p: encode(p, seeds.SCHEMA)):
        with pytest.raises(ValueError, match="not a readable"):
            read(path)


def test_a_table_of_lines_without_end_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b\n"' + b"1," * 2**20)
    with pytest.raises(ValueError, match=r"t\.csv"):
        read_rows(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
def test_numbers_that_are_none_are_refused_in_ledgers(number, tmp_path):
    text = json.dumps(seeds.ledger().to_json()).replace("9.0", number)
    assert number in text
    with pytest.raises(vf.ArtifactError):
        Ledger.from_json(store.parse_json(text.encode(), what="ledger"))
    path = tmp_path / "spending"
    changed = [body.replace(b"9.0", number.encode()) for body in SPENDING]
    path.write_bytes(journals.forged(changed))
    with pytest.raises(vf.ArtifactError):
        DatasetLedger(path).entries()


@pytest.mark.parametrize(
    "text",
    [
        "max_epsilon = nan",
        "max_epsilon = -inf",
        f"max_epsilon = {10**400}",
        f"min_delta_exponent = {10**400}",
        "datasets = " + "[" * 3000 + "]" * 3000,
        "max_epsilon = " + "9" * 5000,
        "max_epsilon = 1\nmax_epsilon = 2",
        "#" + "x" * 2**17,
        "[datasets]\na = nan",
    ],
    ids=range(9),
)
def test_a_policy_that_would_forbid_nothing_is_refused(text, tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"policy\.toml"):
        Policy.from_file(path)
