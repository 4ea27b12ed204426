"""Cells that are no finite number: refused, or replaced by declared facts, row by row."""

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.detect.models import mixture
from tests.models.table import small
from veilflow.models import domain as domains
from veilflow.models.settings import read_for

BUDGET = vf.Budget(epsilon=4.0, delta=1e-4)
ROWS = [
    [0.5, 1.0],
    [0.25, None],
    ["x", 0.0],
    [float("inf"), -float("inf")],
    [1j, "0.75"],
    [9, 10**400],
]
BOX = domains.declared(bounds=([-1, 0], [1, 2]), row_norm=None)
BALL = domains.declared(bounds=None, row_norm=1.0)
BAD_LINES = b'a,b\n0.5,1\n0.25,1,SECRET\n"0.5,1\n0.5,\xff\n,\n' + b"0.1,0.2\n" * 59
LABELS = ["SECRET", None, 1, [0], *[1] * 60]


def test_bad_cells_become_the_lower_bound_and_infinite_ones_the_nearer_bound():
    values = read_for(BOX, ROWS, invalid="replace").values
    assert np.isfinite(values).all()
    inside = BOX.clamp(values)
    assert inside.tolist() == [[0.5, 1], [0.25, 0], [-1, 0], [1, 0], [-1, 0.75], [1, 2]]
    # the bounds still count rows that lie outside of them, as they do rows of finite numbers
    assert BOX.outside(values).tolist() == [False, False, False, True, False, True]


def test_in_a_ball_bad_cells_become_zero_and_infinite_ones_point_outwards():
    inside = BALL.clamp(read_for(BALL, ROWS, invalid="replace").values)
    assert np.allclose(inside[2:5], [[0, 0], [2**-0.5, -(2**-0.5)], [0, 0.75]])
    assert (np.linalg.norm(inside, axis=1) <= 1 + 1e-12).all()


@pytest.mark.parametrize("domain", [BOX, BALL], ids=["box", "ball"])
def test_rows_of_finite_numbers_are_not_changed(domain):
    rows = np.random.default_rng(0).normal(size=(20, 2))
    assert np.array_equal(read_for(domain, rows, invalid="replace").values, rows)


def density(source, **how):
    estimator = vf.DensityFlow(budget=BUDGET, bounds=(0, 1), num_records=60)
    return estimator.fit(source, progress=False, **how)


def mixture_density(source, **how):
    estimator = vf.MixtureDensity(budget=BUDGET, bounds=(0, 1), num_components=1, steps=1)
    return estimator.fit(source, progress=False, **how)


def ensemble(source, **how):
    estimator = vf.EnsembleDetector(
        budget=BUDGET,
        answers=vf.Answering(max_queries=1),
        bounds=(0, 1),
        parts=2,
        flow="mixture",
        num_components=1,
    )
    return estimator.fit(source, progress=False, **how)


def classifier(source, **how):
    estimator = vf.ExpMechClassifier(
        budget=vf.Budget(1.0, 0.0),
        prior=vf.GaussianPrior(1.0),
        bounds=(0, 1),
        num_records=60,
        sampler=vf.expm.ZoomSampler(num_candidates=16, rounds=2),
    )
    return estimator.fit(source, LABELS, progress=False, **how)


def threshold(source, **how):
    detector = vf.LikelihoodDetector(mixture(columns=("a", "b")), false_alarm_rate=0.2)
    return detector.from_private(source, budget=vf.Budget(1.0, 0.0), **how)


ESTIMATORS = [density, mixture_density, ensemble, classifier, threshold]


@pytest.mark.parametrize("fit", ESTIMATORS, ids=lambda fit: fit.__name__)
def test_every_estimator_of_numbers_takes_any_cell_and_any_line(fit, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(BAD_LINES)
    rows = [[None, "SECRET"], [1j, b"x"], [[1], 10**400], [float("nan"), 0.5]] + [[0.1, 0.2]] * 60
    for source in (path, rows, pd.DataFrame(rows, columns=["a", "b"])):
        assert fit(source, invalid="replace")
        with pytest.raises(ValueError, match=r"numeric|more cells|UTF-8") as info:
            fit(source)
        assert "SECRET" not in str(info.value)


@pytest.mark.parametrize("fit", ESTIMATORS, ids=lambda fit: fit.__name__)
def test_other_words_are_refused(fit):
    with pytest.raises(ValueError, match="invalid must be one of 'error', 'replace'"):
        fit([[0.1, 0.2]] * 64, invalid="skip")


def test_a_threshold_of_a_table_takes_any_line_too(tmp_path):
    model = small.fitted()
    path = tmp_path / "t.csv"
    small.frame(50).to_csv(path, index=False)
    path.write_bytes(path.read_bytes() + b'1,2,3,4,5,6,7,8,9,10,11\n"\n\xff\n')
    detector = vf.LikelihoodDetector(model, false_alarm_rate=0.2)
    budget = vf.Budget(1.0, 0.0)
    assert detector.from_private(path, budget=budget, invalid="replace").threshold is not None
    with pytest.raises(ValueError, match=r"UTF-8|more cells"):
        detector.from_private(path, budget=budget)
