"""Steps of a plan that ask nothing: free, shown, kept, and out of reach of the records."""

import numpy as np
import pytest

import veilflow as vf
from veilflow._core.keys import Secret
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.count import Count
from veilflow.releases.plan import FitPlan
from veilflow.releases.release import Derived, Query, Tools
from veilflow.releases.run import Run

BUDGET = vf.Budget(1.0, 1e-6)
COUNT, STEP = Count(epsilon=0.5), Derived(purpose="long work", steps=7)
PLAN = FitPlan(model="Test", budget=BUDGET, releases=(COUNT, STEP), declared=("bounds",))


def test_it_costs_nothing_and_is_in_the_plan():
    alone = FitPlan(model="Test", budget=BUDGET, releases=(COUNT,), declared=("bounds",))
    assert PLAN.ledger == alone.ledger
    assert PLAN.guarantee == alone.guarantee
    assert PLAN.identity != alone.identity
    assert "long work" in str(PLAN)


def test_records_are_refused():
    with pytest.raises(vf.PrivacyError, match="must not receive records"):
        STEP.run(Sensitive(np.zeros(3)), Tools(Secret.fresh()), make=lambda monitor: 1)  # type: ignore[arg-type]


def test_a_run_keeps_what_it_made(tmp_path):
    rows, path, made = Sensitive(np.zeros((5, 2))), tmp_path / "run", []

    def make(monitor):
        made.append(1)
        monitor(7)
        return {"numbers": np.arange(3), "word": "x"}

    for _ in range(2):
        with Run(PLAN, rows, seed=None, progress=False, checkpoint=path) as run:
            run.pay(COUNT, Query(rows))
            value = run.pay(STEP, Query(None, {"make": make}))
        np.testing.assert_array_equal(value["numbers"], np.arange(3))
        assert value["word"] == "x"
    assert made == [1]
