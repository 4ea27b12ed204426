"""ICU stays become records: what is in one stay's arrays comes from that stay's events alone."""

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from reproductions.expm_nf import mimic
from reproductions.expm_nf.data import (
    DESCRIPTORS,
    NAMES,
    SERIES,
    UNITS,
    Scale,
    carried,
    load,
    since_measured,
    stays,
)

HOURS = 4
IDS = np.array([30, 10, 20])
LABELS = np.array([True, False, True])


def frame(*events) -> pd.DataFrame:
    return pd.DataFrame(events, columns=["RecordID", "minute", "parameter", "value"])


def arrays(events: pd.DataFrame):
    return stays(events, IDS, LABELS, hours=HOURS)


def column(name: str) -> int:
    return NAMES.index(name)


def test_hourly_means_are_scaled_by_declared_numbers():
    found = arrays(
        frame(
            (10, 0, "HR", 67.0),
            (10, 59, "HR", 103.0),  # the same hour: a mean of 85, which is usual
            (10, 60, "HR", 103.0),
            (20, 239, "Lactate", 4.0),
            (20, 240, "Lactate", 9.0),  # beyond the hours
        )
    )
    rate, lactate = column("HR"), column("Lactate")
    assert found.values[1, :, rate].tolist() == [0, 1, 0, 0]
    assert found.mask[1, :, rate].tolist() == [1, 1, 0, 0]
    expected = (np.log(5) - np.log(3)) / 0.45
    assert found.values[2, 3, lactate] == pytest.approx(expected, rel=1e-6)
    assert found.mask[2, :, lactate].tolist() == [0, 0, 0, 1]
    assert found.mask.sum() == 3
    assert found.labels.tolist() == [1, 0, 1]


def test_time_since_starts_anew_with_every_stay():
    found = arrays(frame((30, 200, "HR", 80.0), (10, 70, "HR", 80.0)))
    days = np.arange(HOURS) / 24
    rate = column("HR")
    np.testing.assert_allclose(found.since[0, :, rate], days)  # measured last, too late to matter
    np.testing.assert_allclose(found.since[1, :, rate], days[[0, 1, 1, 2]], rtol=1e-6)
    np.testing.assert_allclose(found.since[2, :, rate], days)  # never measured


def test_gaps_are_filled_from_the_same_stay_and_hour_before():
    mask = np.array([[0, 1, 0, 1], [0, 0, 0, 0]], np.float32)[..., None]
    values = np.array([[9, 1, 9, 2], [9, 9, 9, 9]], np.float32)[..., None]
    assert carried(values, mask)[..., 0].tolist() == [[0, 1, 1, 2], [0, 0, 0, 0]]
    assert (since_measured(mask)[0, :, 0] * 24).round().tolist() == [0, 1, 1, 2]


def test_descriptors_hold_for_all_hours_and_units_have_a_column_each():
    found = arrays(frame((10, 0, "Age", 82.0), (10, 0, "ICUType", 3.0), (20, 0, "Height", -1.0)))
    assert found.values[1, :, column("Age")].tolist() == [1] * HOURS
    units = [column(f"ICUType={code}") for code in UNITS]
    assert found.values[1][:, units].tolist() == [[0, 0, 1, 0]] * HOURS
    assert found.mask[2].sum() == 0  # -1 stands for unknown


def test_flat_columns_are_within_one_and_have_descriptors_once():
    found = arrays(frame((10, 0, "SaO2", 20.0), (10, 0, "Age", 82.0), (10, 61, "HR", 103.0)))
    flat = found.flat()
    assert flat.shape == (3, HOURS * len(SERIES) + len(DESCRIPTORS) + len(UNITS))
    by_hour = flat[1, : HOURS * len(SERIES)].reshape(HOURS, -1)
    assert by_hour[:, column("SaO2")].tolist() == [-1] * HOURS
    assert by_hour[:, column("HR")].tolist() == [0, 0.25, 0.25, 0.25]
    assert flat[1, HOURS * len(SERIES) :].tolist() == [0.25, *[0] * 6]


def test_last_values_are_the_last_hour_of_the_flat_columns():
    found = arrays(frame((10, 0, "SaO2", 20.0), (10, 0, "Age", 82.0), (10, 61, "HR", 103.0)))
    flat, last = found.flat(), found.last()
    assert last.shape == (3, len(SERIES) + len(DESCRIPTORS) + len(UNITS))
    np.testing.assert_array_equal(last, flat[:, -last.shape[1] :])


values = st.one_of(
    st.floats(), st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 0.0, 1e38, 37.0, 3.0])
)
events = st.tuples(
    st.sampled_from([10, 10, 10, 20, 99]),
    st.integers(-10, 60 * HOURS + 100),
    st.sampled_from(["HR", "Temp", "Urine", "Age", "ICUType", "MechVent", "nobody knows"]),
    values,
)


@given(
    own=st.lists(events.filter(lambda event: event[0] != 10), max_size=8),
    others=st.lists(events.map(lambda event: (10, *event[1:])), max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_one_stay_changes_no_other(own, others, order):
    alone = arrays(frame(*own))
    mixed = [*own, *others]
    order.shuffle(mixed)
    # a stay's own events keep their order: a mean rounds by it
    places = [i for i, event in enumerate(mixed) if event[0] != 10]
    for i, event in zip(places, own, strict=True):
        mixed[i] = event
    beside = arrays(frame(*mixed))
    rest = IDS != 10
    for name in ("values", "mask", "since"):
        a, b = getattr(alone, name), getattr(beside, name)
        np.testing.assert_array_equal(a[rest], b[rest])
        assert np.isfinite(b).all()
    np.testing.assert_array_equal(alone.flat()[rest], beside.flat()[rest])
    assert np.abs(beside.flat()).max() <= 1


def test_a_stay_without_events_is_a_record_of_gaps_and_a_stay_twice_is_refused():
    found = arrays(frame())
    assert found.values.shape == (3, HOURS, len(NAMES))
    assert not found.mask.any()
    with pytest.raises(ValueError, match="twice"):
        stays(frame(), np.array([1, 1]), np.array([True, True]), hours=HOURS)


@pytest.mark.parametrize("name", [*SERIES, *DESCRIPTORS])
def test_every_declared_scale_makes_sense(name):
    scale: Scale = (SERIES | DESCRIPTORS)[name]
    assert scale.low <= scale.usual <= scale.high
    ends = scale(np.array([scale.low, scale.usual, scale.high], float))
    assert ends[1] == 0
    assert (np.diff(ends) >= 0).all()
    assert max(-ends[0], ends[2]) >= 1  # within a spread of the usual there is room on a side


def hourly_file(*, hours=40, num=60):
    """Frames of the layout that MIMIC-Extract writes, with made-up numbers."""
    rng = np.random.default_rng(0)
    stay = np.repeat(np.arange(num), hours)
    keys = [stay + 1_000, stay + 5_000, stay + 9_000, np.tile(np.arange(hours), num)]
    index = pd.MultiIndex.from_arrays(
        keys, names=["subject_id", "hadm_id", "icustay_id", "hours_in"]
    )
    columns = pd.MultiIndex.from_product([["heart rate", "ph", "unheard of"], ["mean"]])
    numbers = rng.normal([85, 7.38, 0], [18, 0.08, 1], (len(index), 3))
    numbers[rng.random(numbers.shape) < 0.5] = np.nan
    patients = pd.DataFrame(
        {
            "age": np.where(np.arange(num) == 0, 300.0, 65.0),
            "gender": np.where(np.arange(num) % 2, "M", "F"),
            "mort_icu": np.arange(num) % 3 == 0,
            "los_icu": np.linspace(2, 6, num),
            "max_hours": np.where(np.arange(num) < 50, hours, 30),
        },
        index=pd.MultiIndex.from_arrays(
            [np.arange(num) + base for base in (1_000, 5_000, 9_000)], names=index.names[:3]
        ),
    )
    return pd.DataFrame(numbers, index=index, columns=columns), patients


def test_the_papers_file_goes_through_the_same_code():
    vitals, patients = hourly_file()
    data = mimic.from_frames(vitals, patients, "mortality")
    sizes = [len(part.labels) for part in data]
    assert sum(sizes) == 50  # those with six hours beyond the window
    assert sizes[0] > sizes[2] > 0
    assert data.train.values.shape[1:] == (24, len(NAMES))
    rate = data.train.mask[:, :, column("HR")].mean()
    assert rate == pytest.approx(0.5, abs=0.05)
    assert (data.train.mask[:, :, column("Age")] == 1).all()
    assert sum(part.labels.sum() for part in data) == 17
    longer = mimic.from_frames(vitals, patients, "stay")
    assert sum(part.labels.sum() for part in longer) == int((patients.los_icu[:50] > 3).sum())
    with pytest.raises(ValueError, match="mortality and stay"):
        mimic.from_frames(vitals, patients, "readmission")


def test_one_more_patient_leaves_everybody_in_the_same_part():
    vitals, patients = hourly_file()
    fewer = mimic.from_frames(vitals.iloc[40:], patients.iloc[1:], "mortality")
    whole = mimic.from_frames(vitals, patients, "mortality")
    sizes = [len(a.labels) - len(b.labels) for a, b in zip(whole, fewer, strict=True)]
    assert sorted(sizes) == [0, 0, 1]


def test_a_file_of_the_papers_layout_is_read_or_the_missing_package_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"all_hourly_data\.h5"):
        mimic.read(tmp_path / "all_hourly_data.h5")
    path = tmp_path / "all_hourly_data.h5"
    vitals, patients = hourly_file(hours=31, num=3)
    try:
        vitals.to_hdf(path, key="vitals_labs_mean")
        patients.to_hdf(path, key="patients")
    except ImportError:
        path.write_bytes(b"")
        with pytest.raises(ImportError, match="PyTables"):
            mimic.read(path)
        return
    found = mimic.read(path)
    pd.testing.assert_frame_equal(found[0], vitals)
    pd.testing.assert_frame_equal(found[1], patients)


def test_tasks_and_hours_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="mortality and stay"):
        load("readmission")
    with pytest.raises(ValueError, match="1 to 48"):
        load("mortality", hours=49)


@pytest.mark.data
@pytest.mark.slow
def test_the_sets_of_the_challenge_have_the_published_sizes_and_deaths():
    data = load("mortality", hours=24)
    assert [len(part.labels) for part in data] == [4_000] * 3
    assert [int(part.labels.sum()) for part in data] == [554, 568, 585]
    for part in data:
        assert np.isfinite(part.values).all()
        # the declared scales fit: within a spread or so of the usual, about a spread wide
        for index, name in enumerate(SERIES):
            measured = part.values[:, :, index][part.mask[:, :, index] > 0]
            assert abs(measured.mean()) < 1.5, name
    longer = load("stay", hours=24)
    assert [len(part.labels) for part in longer] == [3_940, 3_946, 3_947]
