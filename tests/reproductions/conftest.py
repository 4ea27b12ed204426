import pytest

from tests.reproductions import stand_in


@pytest.fixture
def quick(monkeypatch):
    return stand_in.take_over(monkeypatch)


@pytest.fixture
def at_home(monkeypatch, tmp_path):
    stand_in.move_home(monkeypatch, tmp_path)
    return tmp_path
