"""The simulated cohort has the attributes, ranges and gaps of the paper's table."""

import pytest
from reproductions.dp_nf_vi.simulator import cohort

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


@pytest.fixture(scope="module")
def patients():
    return cohort.hospital(500, seed=3)


def test_there_are_26_attributes_of_which_19_are_kept(patients):
    assert list(patients.columns) == list(cohort.ATTRIBUTES)
    assert len(cohort.ATTRIBUTES) == 26
    assert len(cohort.KEPT) == 19


def test_values_are_in_the_declared_ranges(patients):
    for name, attribute in cohort.ATTRIBUTES.items():
        values = patients[name].dropna()
        assert values.between(attribute.low, attribute.high).all(), name


def test_cells_are_there_as_often_as_in_the_paper(patients):
    for name, attribute in cohort.ATTRIBUTES.items():
        share = patients[name].notna().mean()
        assert share == pytest.approx(attribute.observed / cohort.PATIENTS, abs=0.09), name


def test_a_seed_gives_the_same_patients(patients):
    assert patients.equals(cohort.hospital(500, seed=3))
