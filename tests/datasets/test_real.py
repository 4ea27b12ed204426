import hashlib
import io
import os

import numpy as np
import pandas as pd
import pytest

from veilflow.datasets import available, load, real


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VEILFLOW_DATA", str(tmp_path))
    return tmp_path


def put(folder, monkeypatch, name, part, file, data):
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_bytes(data)
    entry = (file, hashlib.sha256(data).hexdigest())
    monkeypatch.setitem(real._FILES, name, {part: entry})


def test_a_frame_is_read_by_part(data_folder, monkeypatch):
    buffer = io.BytesIO()
    pd.DataFrame({"a": [1, 2]}).to_parquet(buffer)
    put(data_folder, monkeypatch, "adult", "train", "adult/train.parquet", buffer.getvalue())
    assert load("adult")["train"]["a"].tolist() == [1, 2]


def test_arrays_are_read_by_their_own_names(data_folder, monkeypatch):
    buffer = io.BytesIO()
    np.savez(buffer, x_train=np.zeros((2, 3)))
    put(data_folder, monkeypatch, "mnist", "arrays", "mnist/mnist.npz", buffer.getvalue())
    assert load("mnist")["x_train"].shape == (2, 3)


def test_a_file_with_another_hash_is_refused(data_folder):
    (data_folder / "mnist").mkdir()
    (data_folder / "mnist" / "mnist.npz").write_bytes(b"something else")
    with pytest.raises(ValueError, match="SHA-256"):
        load("mnist")


def test_an_absent_file_is_named_and_the_way_out_given(data_folder):
    with pytest.raises(
        FileNotFoundError, match=r"covertype/covtype\.parquet.*VEILFLOW_DATA"
    ) as info:
        load("covertype")
    assert str(data_folder) not in str(info.value)


def test_without_the_variable_the_cache_folder_is_searched(tmp_path, monkeypatch):
    monkeypatch.delenv("VEILFLOW_DATA", raising=False)
    monkeypatch.setattr(real, "_cache", lambda: tmp_path)
    with pytest.raises(FileNotFoundError, match="VEILFLOW_DATA is not set"):
        load("covertype")
    assert real.folder() == tmp_path / "veilflow"


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"adult.*got 'titanic'"):
        load("titanic")


def test_every_file_stays_inside_the_data_folder_and_has_a_whole_hash():
    for parts in real._FILES.values():
        for file, sha256 in parts.values():
            assert os.path.normpath(file) == file
            assert not os.path.isabs(file)
            assert len(bytes.fromhex(sha256)) == 32


@pytest.mark.data
@pytest.mark.parametrize("name", available())
def test_the_real_set_is_read(name):
    if not (real.folder() / name).is_dir():
        pytest.skip("the files are not on this machine")
    parts = load(name)
    assert parts
    assert all(len(part) > 0 for part in parts.values())
