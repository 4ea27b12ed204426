"""A killed fit of images goes on to the very same model, and pays nothing twice."""

import stat
from dataclasses import replace

import pytest

import veilflow as vf
from tests.models.image import small
from veilflow.engine import Checkpoint
from veilflow.images import Images
from veilflow.releases import count


class Crash(Exception):
    """In place of a kill."""


def killed(estimator, path) -> tuple[bytes, bytes]:
    """Fit until a step is written down: the checkpoint before and after it."""
    begun, save = [], Checkpoint.save

    def save_and_stop(self, *args, **kwargs):
        begun.append(self.path.read_bytes())
        save(self, *args, **kwargs)
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Checkpoint.__init__.__kwdefaults__, "seconds", 0.0)
        patch.setattr(Checkpoint, "save", save_and_stop)
        with pytest.raises(Crash):
            estimator.fit(small.images(estimator.spec), progress=False, checkpoint=path)
    return begun[0], path.read_bytes()


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["by class", "unlabeled"])
def test_a_fit_goes_on_to_the_very_same_model(kind, tmp_path):
    made, path = small.estimator(**small.KINDS[kind]), tmp_path / "run.checkpoint"
    states = killed(made, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for step, state in enumerate(states):
        path.touch(0o600)
        path.write_bytes(state)
        assert Checkpoint(path).read().step == step
        # whoever goes on needs no seed: the run's secret is in the file
        again = replace(made, seed=None).fit(
            small.images(made.spec), progress=False, checkpoint=path
        )
        assert small.same(again, small.fitted(kind))
        assert not path.exists()


def test_a_paid_count_is_not_paid_again(tmp_path, monkeypatch):
    def crash(models):
        raise Crash

    made, path = small.estimator(num_records=None), tmp_path / "run.checkpoint"
    with small.untrained(crash), pytest.raises(Crash):
        made.fit(small.images(), progress=False, checkpoint=path)
    paid = Checkpoint(path).read().context["released"]["number of records"]
    monkeypatch.setattr(count, "count_records", lambda *_, **__: pytest.fail("counted again"))
    with small.untrained():
        model = made.fit(
            small.images(), progress=False, checkpoint=path, save_as=tmp_path / "m.veil"
        )
    assert model.facts["num_records"] == max(1, paid)
    assert [file.name for file in tmp_path.iterdir()] == ["m.veil"]


def test_others_may_not_go_on_with_it(tmp_path):
    made, path = small.estimator(), tmp_path / "run.checkpoint"
    _, before = killed(made, path)
    images = small.images()
    for other in (
        {"clip_norm": 0.1},
        {"temperature": 3.0},
        {"spec": replace(small.SPEC, high=1.0)},
    ):
        changed = small.estimator(**other)
        with pytest.raises(vf.PrivacyError, match="belongs to other settings"):
            changed.fit(small.pixels(), images.labels, progress=False, checkpoint=path)
    moved = images.pixels.copy()
    moved[3, 0, 0, 0] ^= 1
    relabeled = images.labels.copy()
    relabeled[0] = 2
    for pixels, labels in ((moved, images.labels), (images.pixels, relabeled)):
        with pytest.raises(vf.PrivacyError, match="another set of records"):
            made.fit(Images(pixels, labels, small.SPEC), progress=False, checkpoint=path)
    assert path.read_bytes() == before
