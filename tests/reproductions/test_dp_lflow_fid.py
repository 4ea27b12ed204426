"""The second pass: FIDs of finished runs, where Inception is, tied to the samples they are of."""

import json

import numpy as np
import pytest
from reproductions.cache import Run
from reproductions.dp_lflow import SYSTEM as system
from reproductions.dp_lflow import estimators, fid, measures, probes, tables
from reproductions.dp_lflow.runs import REAL, Task

from reproductions.metrics.images import frechet_distance
from tests.reproductions import lflow_stand_in as stand_in

ONE = {"only": ["mnist/10/flows"]}
WITH_REAL = {"only": ["mnist/10/flows", "mnist/inf/real"]}


@pytest.fixture
def calls(monkeypatch):
    stand_in.measure_quickly(monkeypatch)
    monkeypatch.setattr("reproductions.cache.commit", lambda *paths: "abc1234")
    return stand_in.take_over(monkeypatch)


def quietly(tmp_path, **settings):
    lines: list[str] = []
    outcome = system.reproduce(out=tmp_path, say=lines.append, **settings)
    return outcome, lines


def fids(outcome):
    return {(r.table, r.row): r for r in outcome.made if r.metric == measures.FID.name}


def test_where_inception_is_not_the_rest_is_measured_and_the_way_is_told(
    tmp_path, calls, monkeypatch
):
    stand_in.install_inception(monkeypatch, possible=False)
    outcome, lines = quietly(tmp_path, **ONE)
    assert fids(outcome) == {}
    assert outcome.failures == []
    assert any("runs for the FID are left" in line and "--fid" in line for line in lines)


def test_a_later_pass_adds_the_distances_and_fits_nothing(tmp_path, calls, monkeypatch):
    stand_in.install_inception(monkeypatch, possible=False)
    quietly(tmp_path, **WITH_REAL)
    seen = stand_in.install_inception(monkeypatch)
    outcome, lines = quietly(tmp_path, fid=True)
    assert len(calls) == 1
    # test images once, then samples sharpened and raw, and training images
    assert seen == [probes.TESTED, stand_in.KEPT, stand_in.KEPT, probes.TRAINED]
    assert any("epsilon 10, seed 1, sharpened: FID" in line for line in lines)
    found = fids(outcome)
    assert {row for _, row in found} == {
        "ImageFlow", "ImageFlow without post-processing", "real images",
        "a flow for each class, one autoencoder", "as it comes",
    }  # fmt: skip
    record = found["1", "ImageFlow"]
    assert (record.paper, record.digits) == (16.8, 1)
    assert record.note == "on 100 samples"
    assert record.settings["method"] == "flows"
    assert record.epsilon is not None
    assert record.epsilon < 10
    quietly(tmp_path, fid=True)
    assert len(seen) == 4
    stand_in.install_inception(monkeypatch, possible=False)
    outcome, lines = quietly(tmp_path, **WITH_REAL)
    assert fids(outcome).keys() == found.keys()
    assert not any("are left" in line for line in lines)


def test_the_distance_is_that_of_the_kept_samples(tmp_path, calls, monkeypatch):
    stand_in.install_inception(monkeypatch)
    outcome, _ = quietly(tmp_path, **ONE)
    (path,) = (tmp_path / "runs").glob("mnist-flows-10-1-??????????.npz")
    with np.load(path) as arrays:
        samples = fid.inception_features(arrays["samples"])
    real = fid.inception_features(stand_in.load("mnist").test.pixels).astype(np.float32)
    expected = frechet_distance(samples, real)
    assert fids(outcome)["4", "a flow for each class, one autoencoder"].ours == pytest.approx(
        expected
    )
    assert fids(outcome)["1", "ImageFlow"].ours != pytest.approx(expected)


@pytest.mark.parametrize(("noise", "measured"), [(0, 0), (1, 2)])
def test_a_distance_stands_as_long_as_the_samples_do(noise, measured, tmp_path, calls, monkeypatch):
    seen = stand_in.install_inception(monkeypatch)
    quietly(tmp_path, **ONE)
    del seen[:]

    def build(method, spec, *, epsilon, delta, num_records, seed):
        return stand_in.StandIn(method, epsilon, delta, noise=noise)

    monkeypatch.setattr(estimators, "build", build)
    monkeypatch.setattr("reproductions.cache.commit", lambda *paths: "def5678")
    for path in (tmp_path / "runs").glob("mnist-flows-10-1-??????????.*"):
        path.unlink()
    outcome, _ = quietly(tmp_path, **ONE)
    assert len(seen) == measured
    commits = "def5678" if measured else "abc1234 and def5678"
    assert fids(outcome)["1", "ImageFlow"].commit == commits


def test_only_runs_whose_distance_a_table_shows_are_passed_over_again(tmp_path, calls, monkeypatch):
    seen = stand_in.install_inception(monkeypatch)
    others = ["mnist/3/flows", "mnist/10/published", "digits/10/flows"]
    outcome, _ = quietly(tmp_path, only=others)
    assert len(calls) == 3
    assert seen == []
    assert outcome.failures == []


def test_sets_are_passed_one_after_the_other_test_images_first(tmp_path, calls, monkeypatch):
    stand_in.install_inception(monkeypatch, possible=False)
    quietly(tmp_path, table=[2])
    chosen = [
        Task(data=name, method="flows", epsilon=1.0, split=1)
        for name in ("fashion", "mnist", "fashion")
    ]

    def find(task):
        (path,) = (tmp_path / "runs").glob(f"{task.name}-*.json")
        return Run(**json.loads(path.read_text("utf-8")))

    order = [type(task).__name__ + " " + task.data for task in tables.distances(chosen, find)]
    assert order[0] == "ReferenceFeatures fashion"
    assert order[-3:] == ["ReferenceFeatures mnist", "Fid mnist", "Fid mnist"]


def test_without_its_samples_a_distance_is_a_failure_that_is_told():
    task = fid.Fid(
        of=Task(data="mnist", method="flows", epsilon=10.0, split=1),
        part="raw",
        samples="abc",
    )
    with pytest.raises(LookupError, match="are not there"):
        fid.perform(task, lambda task: None)


def test_names_and_settings_tell_samples_and_measures_apart():
    task = Task(data="mnist", method=REAL, epsilon=float("inf"), split=1)
    one, other = (fid.Fid(of=task, part="raw", samples=samples) for samples in ("abc", "abd"))
    assert one.name == f"{task.name}-fid-raw"
    assert one.settings != other.settings
    assert one.settings["images"] == 60_000
    assert task.settings.items() <= one.settings.items()
