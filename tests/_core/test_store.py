import io
import json
import os
import stat
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from veilflow._core import store
from veilflow._core.errors import ArtifactError

MEMBERS = ["manifest.json", "ledger.json", "schema.json", "arrays.safetensors"]
CONTENTS = store.Contents(
    manifest={"model": "Nothing", "note": "naïve"},
    ledger={"entries": [1, 2.5]},
    schema={"columns": ["a", "b"]},
    arrays={
        "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "scalar": np.float64(3.5),
        "empty": np.zeros((0, 4)),
        "flags": np.array([True, False]),
    },
)


@pytest.fixture(scope="module")
def veil_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("veil") / "m.veil"
    store.write_veil(path, CONTENTS)
    return path.read_bytes()


def read_bytes(data, folder):
    path = folder / "x.veil"
    path.write_bytes(data)
    return store.read_veil(path)


def same(a, b):
    assert dict(a.manifest) == dict(b.manifest)
    assert dict(a.ledger) == dict(b.ledger)
    assert dict(a.schema) == dict(b.schema)
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        other = b.arrays[name]
        assert np.asarray(array).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(array, other, strict=True)


def build(*, method=zipfile.ZIP_STORED, comment=b"", names=None, **replaced):
    """A zip file like ours, with some members' bytes replaced (None: left out)."""
    members = {
        "manifest": json.dumps({"format": "veilflow-model", "format_version": 1}).encode(),
        "ledger": b"{}",
        "schema": b"{}",
        "arrays": b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ",
        **replaced,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, key in zip(names or MEMBERS, members, strict=True):
            if members[key] is not None:
                archive.writestr(name, members[key])
        archive.comment = comment
    return buffer.getvalue()


def test_what_is_written_is_read_back(tmp_path, veil_bytes):
    read = read_bytes(veil_bytes, tmp_path)
    same(CONTENTS, read)


def test_the_file_is_a_zip_of_exactly_the_four_members(veil_bytes):
    assert zipfile.ZipFile(io.BytesIO(veil_bytes)).namelist() == MEMBERS


def test_the_same_contents_give_the_same_bytes(tmp_path, veil_bytes, monkeypatch):
    import time

    monkeypatch.setattr(time, "time", lambda: 4e9)
    shuffled = store.Contents(
        manifest=dict(reversed(CONTENTS.manifest.items())),
        ledger=CONTENTS.ledger,
        schema=CONTENTS.schema,
        arrays=dict(reversed(CONTENTS.arrays.items())),
    )
    store.write_veil(tmp_path / "other.veil", shuffled)
    assert (tmp_path / "other.veil").read_bytes() == veil_bytes


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::2],
        np.arange(12.0)[::-1],
        np.arange(5, dtype=">f8"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    ],
    ids=["transposed", "strided", "reversed", "big-endian", "fortran"],
)
def test_arrays_keep_their_values_whatever_their_memory_layout(array, tmp_path):
    contents = store.Contents(manifest={}, ledger={}, schema={}, arrays={"a": array})
    store.write_veil(tmp_path / "a.veil", contents)
    np.testing.assert_array_equal(store.read_veil(tmp_path / "a.veil").arrays["a"], array)


def test_arrays_read_from_a_file_cannot_be_changed(tmp_path, veil_bytes):
    with pytest.raises(ValueError, match="read-only"):
        read_bytes(veil_bytes, tmp_path).arrays["weight"][0, 0] = 1


@pytest.mark.parametrize(
    "bad",
    [
        {"manifest": {"x": float("nan")}},
        {"schema": {"x": float("inf")}},
        {"ledger": {"x": {1, 2}}},
        {"schema": {"x": "\ud800"}},
        {"arrays": {"x": np.array(["text"])}},
        {"arrays": {"x": np.array([object()])}},
        {"arrays": {"x": np.array([1j])}},
    ],
    ids=["nan", "inf", "set", "surrogate", "strings", "objects", "complex"],
)
def test_what_could_not_be_read_back_is_refused_and_nothing_is_written(bad, tmp_path):
    fields = {"manifest": {}, "ledger": {}, "schema": {}, "arrays": {}, **bad}
    with pytest.raises(ArtifactError):
        store.write_veil(tmp_path / "m.veil", store.Contents(**fields))
    assert list(tmp_path.iterdir()) == []


def test_a_deflated_file_is_read_too(tmp_path):
    assert read_bytes(build(method=zipfile.ZIP_DEFLATED), tmp_path).arrays == {}


MANIFEST = {"format": "veilflow-model", "format_version": 1}
COMPLEX = b'{"a":{"dtype":"C64","shape":[0],"data_offsets":[0,0]}}'
HOSTILE = {
    "nothing": (b"", "not a veilflow model file"),
    "text": (b"hello", "not a veilflow model file"),
    "empty zip": (b"PK\x05\x06" + bytes(18), "not a veilflow model file"),
    "prefix": (b"#!/bin/sh\n" + build(), "not a veilflow model file"),
    "comment": (build(comment=b"hi"), "comment"),
    "a member missing": (build(schema=None), "holds exactly"),
    "a foreign name": (build(names=["m", *MEMBERS[1:]]), "holds exactly"),
    "a path": (build(names=["../manifest.json", *MEMBERS[1:]]), "holds exactly"),
    "bzip2": (build(method=zipfile.ZIP_BZIP2), "method"),
    "bomb": (build(method=zipfile.ZIP_DEFLATED, arrays=bytes(2**23)), "bomb"),
    "too long": (build(manifest=b" " * (5 * 2**20)), "the most"),
    "newer": (build(manifest=json.dumps({**MANIFEST, "format_version": 2}).encode()), "newer"),
    "version true": (
        build(manifest=json.dumps({**MANIFEST, "format_version": True}).encode()),
        "format version",
    ),
    "other format": (build(manifest=b'{"format": "x", "format_version": 1}'), "format version"),
    "list": (build(manifest=b"[]"), "JSON object"),
    "NaN": (build(ledger=b'{"a": NaN}'), "NaN is not allowed"),
    "Infinity": (build(ledger=b'{"a": -Infinity}'), "-Infinity is not allowed"),
    "1e999": (build(ledger=b'{"a": 1e999}'), "too large"),
    "twice": (build(ledger=b'{"a": 1, "a": 2}'), "twice"),
    "surrogate": (build(schema=b'{"a": "\\ud800"}'), "not valid JSON"),
    "not utf-8": (build(schema=b'{"a": "\xff"}'), "not valid JSON"),
    "deep": (build(schema=b'{"a": ' + b"[" * 200_000), "nested too deeply"),
    "long integer": (build(schema=b'{"a": ' + b"9" * 9999 + b"}"), "not valid JSON"),
    "pickle": (build(arrays=b"\x80\x04N."), "arrays.safetensors cannot be read"),
    "header too long": (build(arrays=struct.pack("<Q", 2**60)), "cannot be read"),
    "complex": (build(arrays=struct.pack("<Q", len(COMPLEX)) + COMPLEX), "never writes"),
}


@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_foreign_or_hostile_file_is_refused_by_name(data, message, tmp_path):
    with pytest.raises(ArtifactError, match=message):
        read_bytes(data, tmp_path)


def test_a_member_that_occurs_twice_is_refused(tmp_path):
    buffer = io.BytesIO(build())
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("ledger.json", b"{}")
    with pytest.raises(ArtifactError, match="holds exactly"):
        read_bytes(buffer.getvalue(), tmp_path)


def test_an_encrypted_member_is_refused(tmp_path):
    data = bytearray(build())
    central = data.index(b"PK\x01\x02")
    data[central + 8] |= 1
    with pytest.raises(ArtifactError, match="encrypted"):
        read_bytes(bytes(data), tmp_path)


def test_a_bomb_that_lies_about_its_size_is_not_unpacked_further_than_it_says(tmp_path):
    data = bytearray(build(method=zipfile.ZIP_DEFLATED, arrays=bytes(2**23)))
    last = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, last + 24, 1000)  # the size after unpacking
    with pytest.raises(ArtifactError):
        read_bytes(bytes(data), tmp_path)


FUZZ = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@FUZZ
@given(data=st.data())
def test_flipped_bytes_are_refused_or_change_nothing(data, veil_bytes, tmp_path):
    damaged = bytearray(veil_bytes)
    places = st.integers(0, len(damaged) - 1)
    for place in data.draw(st.lists(places, min_size=1, max_size=3)):
        damaged[place] ^= data.draw(st.integers(1, 255))
    try:
        read = read_bytes(bytes(damaged), tmp_path)
    except ArtifactError:
        return
    same(CONTENTS, read)  # the flip hit something that carries no meaning, such as a time stamp


def test_a_flip_of_any_single_bit_of_the_contents_is_found(veil_bytes, tmp_path):
    archive = zipfile.ZipFile(io.BytesIO(veil_bytes))
    rng = np.random.default_rng(0)
    for info in archive.infolist():
        start = info.header_offset + 30 + len(info.filename)
        for place in rng.integers(start, start + info.file_size, size=20):
            damaged = bytearray(veil_bytes)
            damaged[place] ^= 1 << rng.integers(8)
            with pytest.raises(ArtifactError):
                read_bytes(bytes(damaged), tmp_path)


@FUZZ
@given(data=st.data())
def test_a_truncated_file_is_refused(data, veil_bytes, tmp_path):
    length = data.draw(st.integers(0, len(veil_bytes) - 1))
    with pytest.raises(ArtifactError):
        read_bytes(veil_bytes[:length], tmp_path)


@FUZZ
@given(
    garbage=st.binary(max_size=300), member=st.sampled_from(["", "manifest", "schema", "arrays"])
)
def test_garbage_is_refused(garbage, member, tmp_path):
    data = build(**{member: garbage}) if member else b"PK\x03\x04" + garbage
    try:
        read = read_bytes(data, tmp_path)
    except ArtifactError:
        return
    assert member  # the garbage happened to be valid JSON or valid safetensors
    assert read.ledger == {}


def test_a_missing_file_is_reported_as_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        store.read_veil(tmp_path / "missing.veil")


def test_an_error_while_writing_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def interrupted():
        with store.atomic_path(path) as temporary:
            temporary.write_text("new, but not")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_stays_in_place_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with store.atomic_path(path) as temporary:
        assert temporary.parent == path.parent
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mode_of_a_new_file_follows_the_umask(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        store.write_atomic(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_a_secret_file_is_readable_by_its_owner_only(tmp_path):
    store.write_atomic(tmp_path / "a", b"x", mode=0o600)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    store.write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_folders_and_devices_are_never_replaced(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    for path in (tmp_path, fifo):
        with pytest.raises(OSError, match="not a regular file"):
            store.write_atomic(path, b"x")


def test_a_missing_folder_is_named_in_the_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="Create it first"):
        store.write_atomic(tmp_path / "no" / "a", b"x")
