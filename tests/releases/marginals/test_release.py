"""Marginals as an entry of a plan: a price that codes do not change, a value that a file can keep."""

import json

import jax
import numpy as np
import pytest

from tests.releases.marginals.chained import chained
from veilflow._core import codec
from veilflow._core.keys import Secret
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.marginals import MarginalPlan, private_marginal_model
from veilflow.releases.marginals import fit as fits
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.release import Release, Tools

RELEASE = Marginals(most_codes=(40, 40, 40, 9), label=3, mu=2.0)


def test_the_price_does_not_depend_on_how_many_codes_there_turn_out_to_be():
    fewer = Marginals(most_codes=(2, 3, 2, 2), label=3, mu=2.0)
    assert fewer.event == RELEASE.event
    assert fewer.rounds == RELEASE.rounds
    assert fewer.num_draws < RELEASE.num_draws
    assert codec.restored(Release, json.loads(json.dumps(codec.plain(RELEASE)))) == RELEASE


def test_the_value_stands_for_the_model_that_was_fitted(monkeypatch):
    monkeypatch.setattr(fits, "_ROWS", 2048)
    # so that both choose the same tables
    monkeypatch.setattr(
        fits, "private_choice", lambda tally, found, *, step, **_: found[: step.num_choices]
    )
    table = chained(500, seed=0)
    rows, sizes = table.train, table.sizes
    known = {"ordered": table.ordered, "num_records": 500}
    plan = MarginalPlan.of(sizes, mu=4.0, label=table.label, **known)
    model = private_marginal_model(Sensitive(rows), plan=plan, secret=Secret.from_seed(2)).value
    release = Marginals(most_codes=sizes, label=table.label, mu=4.0)
    released = release.run(Sensitive(rows), Tools(Secret.from_seed(2)), sizes=sizes, **known)
    again = release.result(released.value)
    key = jax.random.key(1)
    np.testing.assert_array_equal(model.sample(300, key), again.sample(300, key))
    assert (model.sizes, model.num_records) == (again.sizes, again.num_records)


def test_codes_beyond_the_sizes_are_refused_without_being_named():
    tools = Tools(Secret.from_seed(0))
    with pytest.raises(ValueError, match="Clamp them"):
        RELEASE.run(
            Sensitive(np.full((3, 4), 7)), tools, sizes=[2] * 4, ordered=[False] * 4, num_records=3
        )
