"""The search on generated garments: choices can be planned, and finished fits are not done again."""

import json
import math

import pytest
from reproductions.dp_lflow import search

import veilflow as vf

SPEC = vf.ImageSpec(height=28, width=28, classes=range(10))


@pytest.mark.parametrize("name", search.EVERYWHERE | search.OPEN)
def test_a_choice_differs_from_what_is_planned_in_something(name):
    epsilon = math.inf if name in search.OPEN else 10.0
    budget = vf.Budget(epsilon=epsilon, delta=1e-5)
    usual = vf.ImageFlow(spec=SPEC, budget=budget, num_records=60_000, seed=1)
    chosen = (search.EVERYWHERE | search.OPEN)[name](usual)
    assert (chosen.plan() == usual.plan()) == (name == "as planned")


def fit(name, epsilon, seed, better=0.0):
    reached = {"LR": 80.0 + better, "MLP": 81.0, "CNN": 82.0, "distance": 0.5}
    told = {"choice": name, "epsilon": epsilon, "seed": seed, "ood": 0.9}
    return {**told, "raw": reached, "sharpened": reached}


def test_finished_fits_are_kept_and_not_done_again(tmp_path, monkeypatch):
    class Pool:
        def __init__(self, workers, mp_context):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, fn, *given):
            asked.append(given[1:])
            done = search.futures.Future()
            done.set_result(fn(*given))
            return done

    asked: list[tuple] = []
    monkeypatch.setattr(search.futures, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(search, "measure", fit)
    path = tmp_path / "search.json"
    settings = {"seeds": 1, "workers": 2, "epsilons": (10.0,)}
    search.run(path, minutes=1, **settings)
    assert {name for name, *_ in asked} == set(search.EVERYWHERE)
    assert len(json.loads(path.read_text())) == len(asked) == len(search.EVERYWHERE)
    asked.clear()
    search.run(path, minutes=1, **settings)
    assert asked == []
    search.run(path, minutes=-1, **{**settings, "epsilons": (1.0,)})
    assert asked
    assert len(search.read(path)) == len(search.EVERYWHERE)


def test_the_best_choice_of_an_epsilon_comes_first():
    done = [fit("as planned", 1.0, 1), fit("told decoder", 1.0, 1, better=3.0)]
    lines = search.table([*done, fit("as planned", "inf", 1)]).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["1", "1", "inf"]
    assert "told decoder" in lines[1]
