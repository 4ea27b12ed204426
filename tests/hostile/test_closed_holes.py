"""Holes in loaders that damaged files found, and that are closed: each with the file that found it.

None of them showed a record. Errors were of the wrong kind; and Arrow files ended the process.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import veilflow as vf
from tests.hostile import loaders, seeds
from veilflow.engine.checkpoint import Checkpoint
from veilflow.images import read_images
from veilflow.models import artifact, registry
from veilflow.tabular.io import read_rows
from veilflow.tabular.schema_file import to_text

ROOT = Path(__file__).parents[2]


def test_an_arrow_file_with_false_offsets_is_refused_and_kills_nothing(tmp_path):
    import pyarrow as pa

    table = pa.table({"sex": pa.array(["F", "M", "M"]), "age": [1.0, 2.0, 3.0]})
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    offsets = np.array([0, 1, 2, 3], np.int32).tobytes()
    data = path.read_bytes()
    assert data.count(offsets) == 1
    path.write_bytes(data.replace(offsets, np.array([0, 2**30, 1, 2**31 - 1], np.int32).tobytes()))
    code = (
        "import sys, veilflow as vf\n"
        "from veilflow.tabular.codec import encode\n"
        "schema = vf.Schema(sex=vf.Categorical('F', 'M'), age=vf.Numeric(0, 9))\n"
        "try:\n    encode(sys.argv[1], schema)\nexcept ValueError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert "not a readable arrow file" in done.stdout


def test_a_schema_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text("x = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(ValueError, match=r"schema\.toml"):
        vf.Schema.from_file(path)


def test_a_bound_beyond_floats_is_refused(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(to_text(seeds.SCHEMA).replace("high = 100", f"high = {10**400}"))
    with pytest.raises(ValueError, match=r"schema\.toml"):
        vf.Schema.from_file(path)


def test_a_constraint_on_lists_is_refused():
    document = seeds.SCHEMA.to_json()
    document["constraints"][0]["columns"][0] = ["sex"]
    with pytest.raises(ValueError, match="constraint"):
        vf.Schema.from_json(document)


def test_names_that_are_no_text_are_refused(tmp_path):
    names = np.array([0x7FFFFFFF, 1, 2], np.uint32).view("<U1")
    path = tmp_path / "rows.npz"
    path.write_bytes(seeds.npz(values=seeds.ROWS, columns=names))
    with pytest.raises(ValueError, match=r"rows\.npz"):
        read_rows(path)


def test_bounds_nested_too_deeply_make_no_model(tmp_path):
    (tmp_path / "m.veil").write_bytes(seeds.models(("grid",))[0])
    whole = artifact.read(tmp_path / "m.veil")
    low = 0.0
    for _ in range(51):
        low = [low]
    whole.manifest["plan"]["domain"]["low"] = low
    with pytest.raises(vf.ArtifactError):
        registry.from_artifact(whole)


def test_a_checkpoint_at_step_infinity_is_refused(tmp_path):
    def late(header):
        meta = {**json.loads(header["__metadata__"]["veilflow"]), "step": float("inf")}
        return {**header, "__metadata__": {"veilflow": json.dumps(meta)}}

    path = tmp_path / "run"
    path.write_bytes(loaders.with_header(seeds.checkpoint(), late))
    path.chmod(0o600)
    with pytest.raises(vf.ArtifactError):
        Checkpoint(path).read()


def test_an_npz_of_images_whose_directory_is_nowhere_is_refused(tmp_path):
    whole = bytearray(seeds.npz(images=np.zeros((1, 6, 5), np.uint8), labels=np.zeros(1, np.uint8)))
    end = whole.rindex(b"PK\x05\x06")
    whole[end + 16 : end + 20] = (2**32 - 2).to_bytes(4, "little")
    path = tmp_path / "images.npz"
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"images\.npz"):
        read_images(path, seeds.DIGITS)
