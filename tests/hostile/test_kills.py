"""A few deaths at random moments; `python -m benchmarks kills` has two hundred."""

import time

import numpy as np
import pytest

from tests.hostile import every_fit, kills, victims
from veilflow.models import artifact


def test_a_killed_save_leaves_the_old_file_or_the_new_one(tmp_path):
    deaths = kills.kill_saves(tmp_path, moments=6, seed=1)
    assert deaths.moments == 6
    assert deaths.clean, deaths


def test_a_killed_query_is_spent_once_or_not_at_all(tmp_path):
    deaths = kills.kill_queries(tmp_path, moments=3, seed=1)
    assert deaths.moments == 3
    assert deaths.clean, deaths
    assert deaths.notes["queries asked"] >= 3


@pytest.mark.slow
def test_a_killed_fit_goes_on_with_its_noise_and_is_paid_for_once(tmp_path):
    deaths = kills.kill_fits(tmp_path, moments=4, seed=1)
    assert deaths.moments >= 4
    assert deaths.clean, deaths
    assert deaths.notes["fits"] >= 1


@pytest.mark.slow
def test_a_killed_fit_of_any_estimator_goes_on_and_asks_nothing_twice(tmp_path):
    deaths = every_fit.kill_every_fit(tmp_path, moments=9, seed=1)
    assert deaths.moments == 9
    assert deaths.clean, deaths


def test_a_value_that_is_asked_for_again_is_noticed(tmp_path):
    (tmp_path / "log").write_text("ran a\nkept a\nran b\nran a\n")
    deaths = kills.Deaths()
    every_fit._look("DensityFlow", tmp_path, None, deaths)
    assert deaths.double == ["DensityFlow: a was asked again"]


def test_two_processes_that_save_over_one_file_leave_whole_ones_at_every_moment(tmp_path):
    expected = {one.model: one.arrays["all"] for one in victims.artifacts()}
    both = [kills._started(victims.save, tmp_path) for _ in range(2)]
    try:
        deadline, found = time.monotonic() + 1.5, set()
        while time.monotonic() < deadline:
            if (tmp_path / "m.veil").exists():
                read = artifact.read(tmp_path / "m.veil")
                np.testing.assert_array_equal(read.arrays["all"], expected[read.model])
                found.add(read.model)
        assert all(process.is_alive() for process in both)
    finally:
        for process in both:
            kills._killed(process, 0)
    assert found == set(expected)


def test_what_the_killer_must_notice_it_notices(tmp_path):
    (tmp_path / "0000").mkdir()
    deaths = kills.Deaths()
    checked = kills._Checked(tmp_path, b"", deaths)
    checked.before_a_start()
    (tmp_path / "0000" / "m.veil").write_bytes(b"half a model")
    checked.after_a_death()
    assert not deaths.clean
