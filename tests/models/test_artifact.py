import dataclasses
import json
import sys
import types
import zipfile

import numpy as np
import pytest

from veilflow._core import store
from veilflow._core.errors import ArtifactError
from veilflow.models import artifact as artifacts
from veilflow.models import registry
from veilflow.models.artifact import Artifact
from veilflow.privacy.assumptions import Conditional, Seeded
from veilflow.privacy.events import Gaussian, NonPrivate, PoissonSampled, Repeated, Together
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Adjacency, Unit

LEDGER = (
    Ledger()
    .spend(Gaussian(50.0), purpose="count")
    .spend(Repeated(10, PoissonSampled(0.1, Gaussian(5.0))), purpose="training")
    .assuming(Conditional("nobody has two rows"))
)
GUARANTEE = Guarantee(
    epsilon=1.0, delta=1e-5, assumptions=(Conditional("nobody has two rows"), Seeded())
)
ARTIFACT = Artifact(
    model="DensityFlow",
    manifest={"blocks": 5, "hidden": [64, 64]},
    ledger=LEDGER,
    guarantee=GUARANTEE,
    schema={"columns": ["a", "b"]},
    arrays={"w": np.arange(3.0), "count": np.array(3)},
)


def changed(path, name, change):
    """The model file with one of its JSON documents changed."""
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    document = json.loads(members[name])
    change(document)
    members[name] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return path


@pytest.fixture
def saved(tmp_path):
    artifacts.save(ARTIFACT, tmp_path / "m.veil")
    return tmp_path / "m.veil"


def test_an_artifact_is_read_back_as_it_was_saved(saved):
    read = artifacts.read(saved)
    for field in ("model", "manifest", "ledger", "guarantee", "schema"):
        assert getattr(read, field) == getattr(ARTIFACT, field)
    assert read.arrays.keys() == ARTIFACT.arrays.keys()
    for name, array in ARTIFACT.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array, strict=True)


def test_saving_again_replaces_the_file_and_gives_the_same_bytes(saved):
    before = saved.read_bytes()
    saved.write_bytes(b"something else")
    artifacts.save(ARTIFACT, saved)
    assert saved.read_bytes() == before


def test_a_guarantee_without_privacy_survives_the_file(tmp_path):
    honest = dataclasses.replace(
        ARTIFACT,
        ledger=LEDGER.spend(NonPrivate(), purpose="training"),
        guarantee=dataclasses.replace(GUARANTEE, epsilon=float("inf")),
    )
    artifacts.save(honest, tmp_path / "m.veil")
    assert artifacts.read(tmp_path / "m.veil").guarantee.epsilon == float("inf")


CONTRADICTIONS = {
    "adjacency": ({"guarantee": {"adjacency": Adjacency.REPLACE_ONE}}, "adjacency 'replace-one'"),
    "unit": ({"guarantee": {"unit": Unit.USER}}, "unit 'user'"),
    "assumption": ({"guarantee": {"assumptions": ()}}, "nobody has two rows"),
    "non-private": ({"ledger": NonPrivate()}, "without privacy"),
    "non-private inside": (
        {"ledger": Repeated(2, Together((Gaussian(1.0), PoissonSampled(0.5, NonPrivate()))))},
        "without privacy",
    ),
}


@pytest.mark.parametrize(("change", "message"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_guarantee_that_contradicts_its_ledger_is_neither_saved_nor_read(
    change, message, tmp_path, monkeypatch
):
    lie = ARTIFACT
    if "guarantee" in change:
        lie = dataclasses.replace(
            lie, guarantee=dataclasses.replace(GUARANTEE, **change["guarantee"])
        )
    if "ledger" in change:
        lie = dataclasses.replace(lie, ledger=LEDGER.spend(change["ledger"], purpose="training"))
    with pytest.raises(ArtifactError, match=message):
        artifacts.save(lie, tmp_path / "m.veil")
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "check", lambda artifact: None)
        artifacts.save(lie, tmp_path / "m.veil")
    with pytest.raises(ArtifactError, match=message):
        artifacts.read(tmp_path / "m.veil")


MALFORMED = {
    "no model": ("manifest.json", lambda d: d.pop("model"), "must hold model"),
    "more": ("manifest.json", lambda d: d.update(extra=1), "must hold model"),
    "model a number": ("manifest.json", lambda d: d.update(model=3), "malformed"),
    "settings a list": ("manifest.json", lambda d: d.update(settings=[]), "malformed"),
    "guarantee a list": ("manifest.json", lambda d: d.update(guarantee=[]), "guarantee"),
    "no delta": ("manifest.json", lambda d: d["guarantee"].pop("delta"), "guarantee"),
    "epsilon nan": ("manifest.json", lambda d: d["guarantee"].update(epsilon="nan"), "guarantee"),
    "epsilon below 0": ("manifest.json", lambda d: d["guarantee"].update(epsilon=-1), "guarantee"),
    "adjacency": ("manifest.json", lambda d: d["guarantee"].update(adjacency="x"), "guarantee"),
    "assumptions": ("manifest.json", lambda d: d["guarantee"].update(assumptions=3), "guarantee"),
    "ledger": ("ledger.json", lambda d: d.pop("entries"), "ledger"),
    "event": ("ledger.json", lambda d: d["entries"][0].update(event={"kind": "x"}), "unknown kind"),
}


@pytest.mark.parametrize(("name", "change", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_document_is_an_artifact_error(name, change, message, saved):
    with pytest.raises(ArtifactError, match=message):
        artifacts.read(changed(saved, name, change))


@pytest.fixture
def stand_in(monkeypatch):
    """A module with a model class, known to the registry."""

    class Model:
        @classmethod
        def from_artifact(cls, artifact):
            model = cls()
            model.weight = artifact.arrays["w"]
            return model

    module = types.ModuleType("stand_in")
    module.Model = Model
    monkeypatch.setitem(sys.modules, "stand_in", module)
    monkeypatch.setitem(registry._MODELS, "DensityFlow", ("stand_in", "Model"))
    return Model


def test_load_makes_the_model_the_file_names(stand_in, saved):
    loaded = registry.load(saved)
    assert type(loaded) is stand_in
    np.testing.assert_array_equal(loaded.weight, np.arange(3.0))


def test_a_model_name_that_is_not_in_the_table_is_refused_and_nothing_imported(saved):
    changed(saved, "manifest.json", lambda d: d.update(model="antigravity"))
    with pytest.raises(ArtifactError, match=r"'antigravity'; known: ChainedImputer, DensityFlow"):
        registry.load(saved)
    assert "antigravity" not in sys.modules


def test_arrays_that_do_not_make_the_model_are_an_artifact_error(stand_in, tmp_path):
    artifacts.save(dataclasses.replace(ARTIFACT, arrays={}), tmp_path / "m.veil")
    with pytest.raises(ArtifactError, match="do not make a DensityFlow"):
        registry.load(tmp_path / "m.veil")


def test_the_file_names_neither_the_time_nor_the_machine(saved):
    contents = store.read_veil(saved)
    text = json.dumps([contents.manifest, contents.ledger, contents.schema])
    assert str(saved.parent) not in text
    assert set(contents.manifest) == {"model", "guarantee", "settings"}
