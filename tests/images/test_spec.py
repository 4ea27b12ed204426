"""A specification is public, small and strict; its file gives it back."""

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilflow as vf


def composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
names = names.filter(lambda name: name == name.strip())


@given(
    sizes=st.tuples(st.integers(1, 512), st.integers(1, 512), st.sampled_from([1, 3])),
    ends=st.tuples(st.floats(-1e9, 0), st.floats(1e-3, 1e9)),
    classes=st.lists(names, max_size=5, unique_by=composed)
    | st.lists(st.integers(), unique=True, max_size=5),
)
def test_json_and_toml_give_the_specification_back(tmp_path_factory, sizes, ends, classes):
    spec = vf.ImageSpec(*sizes, *ends, classes)
    assert vf.ImageSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    path = tmp_path_factory.mktemp("spec") / "spec.toml"
    spec.to_file(path)
    assert vf.ImageSpec.from_file(path) == spec
    assert hash(vf.ImageSpec.from_file(path)) == hash(spec)


def test_defaults_are_gray_bytes_without_classes():
    spec = vf.ImageSpec(28, 20)
    assert (spec.shape, spec.low, spec.high, spec.classes) == ((1, 28, 20), 0.0, 255.0, ())
    assert spec.is_byte
    assert not vf.ImageSpec(28, 28, high=1).is_byte


def test_classes_of_numpy_and_ranges_become_plain_values():
    assert vf.ImageSpec(1, 1, classes=range(3)).classes == (0, 1, 2)
    spec = vf.ImageSpec(np.int64(2), 2, classes=np.array(["a", "b"]))
    assert spec.classes == ("a", "b")
    json.dumps(spec.to_json())


def test_accents_are_the_same_composed_or_not():
    assert vf.ImageSpec(1, 1, classes=["e\u0301"]) == vf.ImageSpec(1, 1, classes=["\u00e9"])


BAD = {
    "no height": ({"height": 0, "width": 2}, "height must be at least 1, got 0"),
    "real width": ({"height": 2, "width": 2.5}, "width must be a whole number, got 2.5"),
    "channels": ({"height": 2, "width": 2, "channels": 4}, r"1 \(gray\) or 3 \(color\), got 4"),
    "range": ({"height": 2, "width": 2, "low": 1, "high": 1}, "low must be below high"),
    "endless": ({"height": 2, "width": 2, "high": float("inf")}, "high must be finite"),
    "too wide": ({"height": 2, "width": 2, "low": -1e308, "high": 1e308}, "distance finite"),
    "one word": ({"height": 2, "width": 2, "classes": "cat"}, "classes must have an order"),
    "no order": ({"height": 2, "width": 2, "classes": {1, 2}}, "classes must have an order"),
    "mixed": ({"height": 2, "width": 2, "classes": [1, "1"]}, "all text or all whole numbers"),
    "truths": ({"height": 2, "width": 2, "classes": [True, False]}, "all text or all whole"),
    "twice": ({"height": 2, "width": 2, "classes": [1, 2, 1]}, "classes must be distinct"),
    "spaces": ({"height": 2, "width": 2, "classes": ["cat "]}, "without spaces around"),
    "surrogate": ({"height": 2, "width": 2, "classes": ["\ud800"]}, "valid Unicode"),
    "unknown": ({"height": 2, "width": 2, "count": 60000}, "unknown field 'count'"),
    "missing": ({"height": 2}, "the field 'width' is missing"),
    "a list": ([], "must be a table of fields"),
}


@pytest.mark.parametrize(("document", "message"), BAD.values(), ids=BAD.keys())
def test_what_is_not_allowed_is_said(document, message):
    with pytest.raises(ValueError, match=message):
        vf.ImageSpec.from_json(document)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"height = ", r"spec.toml: it is not valid TOML \(at"),
        (b"\xff\xfe", "spec.toml: it is not UTF-8"),
        (b"height = 3\n", "spec.toml: the field 'width' is missing"),
    ],
)
def test_files_that_are_no_specification_are_refused_by_name(tmp_path, data, message):
    (tmp_path / "spec.toml").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        vf.ImageSpec.from_file(tmp_path / "spec.toml")
