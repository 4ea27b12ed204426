"""Training on released rows: it ends when held-out rows have nothing more to gain."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow.models import pretraining


class Mean(eqx.Module):
    at: jax.Array


def loss(model, row, key):
    return jnp.square(model.at - row[0])


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setattr(pretraining, "_PART", 10)
    monkeypatch.setattr(pretraining, "_CYCLE", 20)
    return []


def trained(calls, *, rate: float, steps: int = 200, rows=None, held_out=None):
    rows = np.random.default_rng(0).normal(3.0, 1.0, (500, 1)).astype(np.float32)
    return pretraining.pretrain(
        Mean(jnp.zeros(())),
        rows,
        loss=loss,
        steps=steps,
        batch_size=50,
        learning_rate=rate,
        key=jax.random.key(0),
        monitor=calls.append,
        held_out=rows[:100] if held_out is None else held_out or None,
    )


def test_it_stops_where_nothing_is_gained(calls):
    trained(calls, rate=1e-9)
    # one cycle, a second one to see that it was useless; the monitor hears of the end all the same
    assert calls == [10, 20, 30, 40, 200]


def test_it_goes_on_where_something_is(calls):
    model = trained(calls, rate=0.05)
    assert calls[:3] == [10, 20, 30]
    assert len(calls) > 6
    assert float(model.at) == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("steps", [1, 25, 70])
def test_it_never_takes_more_steps_than_planned(calls, steps):
    trained(calls, rate=0.05, steps=steps)
    assert max(calls) == steps
    assert calls == sorted(calls)


def test_without_held_out_rows_it_takes_all_steps(calls):
    model = trained(calls, rate=0.2, steps=60, held_out=())
    assert calls == [10, 20, 30, 40, 50, 60]
    assert float(model.at) == pytest.approx(3.0, abs=0.2)
