"""A few thousand damaged files of every kind; `python -m benchmarks fuzz` loads a hundred thousand."""

import random

import pytest

from tests.hostile import mutate
from tests.hostile.apart import hunt_apart
from tests.hostile.hunt import Loader, hunt, watched
from tests.hostile.loaders import FAST_MODELS, loaders

COUNT = 120
NATIVE = ("Arrow, numbers", "Arrow, table")
"""Read by native code that trusts files: there a hole takes the process with it."""


@pytest.mark.parametrize("name", [name for name in loaders() if name not in NATIVE])
def test_damaged_files_are_loaded_or_refused(name, tmp_path):
    found = hunt(loaders()[name](), tmp_path, count=COUNT, seed=2)
    assert found.inputs == COUNT
    assert 0 < found.loaded < COUNT  # some damage does no harm, and some does
    assert found.crashes == []
    assert found.hangs == []
    assert found.outside == []


@pytest.mark.parametrize("name", NATIVE)
def test_damaged_files_that_may_kill_a_process_are_loaded_in_another(name):
    found = hunt_apart(name, count=COUNT, seed=9, kinds=FAST_MODELS)
    assert found.inputs == COUNT
    assert found.crashes == []
    assert found.hangs == []
    assert found.outside == []


# -- the hunter hunted: what it must notice ---------------------------------------------------------


def loader(load, allowed=(ValueError,)) -> Loader:
    """A loader that is well with a whole file and does something else with a damaged one."""

    def on_damage(path):
        if path.read_bytes() != b"whole":
            load(path)

    def damage(data: bytes, rng: random.Random) -> bytes:
        return b"damaged"

    return Loader(on_damage, (b"whole",), damage, allowed)


def test_the_hunter_notices_an_error_that_is_not_allowed(tmp_path):
    def load(path):
        raise KeyError("cell")

    assert len(hunt(loader(load), tmp_path, count=3).crashes) == 3
    assert hunt(loader(load, allowed=(KeyError,)), new(tmp_path), count=3).clean


def test_the_hunter_notices_warnings_loops_and_files_outside(tmp_path, monkeypatch):
    import warnings

    from tests.hostile import hunt as hunter

    def warn(path):
        warnings.warn("odd", stacklevel=1)

    def loop(path):
        while True:
            pass

    def write(path):
        (path.parent.parent / "escaped").write_text("x")

    def peek(path):
        (path.parent / ".." / "bait").read_bytes()

    def run(path):
        import pickle

        pickle.loads(b"cos\ngetpid\n(tR.")

    assert hunt(loader(warn), new(tmp_path), count=1).crashes
    monkeypatch.setattr(hunter, "LONGEST", 0.05)
    assert hunt(loader(loop), new(tmp_path), count=1).hangs
    assert hunt(loader(write), new(tmp_path), count=1).outside
    assert hunt(loader(peek), new(tmp_path), count=1).outside
    assert hunt(loader(run), new(tmp_path), count=1).outside


def test_the_watch_is_over_when_its_block_is(tmp_path):
    with watched(tmp_path) as seen:
        pass
    (tmp_path.parent / f"{tmp_path.name}-beside").write_text("x")
    assert seen == []


def test_the_same_seed_damages_the_same_way_and_every_move_damages():
    whole = bytes(range(200))
    first, second = (
        [mutate.of_bytes(whole, random.Random(f"{seed}")) for seed in range(300)] for _ in range(2)
    )
    assert first == second
    assert len(set(first)) > 250
    assert sum(data == whole for data in first) < 10


def new(folder):
    made = folder / f"{len(list(folder.iterdir()))}-new"
    made.mkdir()
    return made
