import collections
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow._core.errors import ArtifactError
from veilflow.privacy import events as ev

positive = st.floats(1e-6, 1e6)
fraction = st.floats(1e-9, 0.999)

plain = st.one_of(
    st.builds(ev.Gaussian, positive),
    st.builds(ev.Laplace, positive),
    st.builds(ev.ZeroConcentrated, positive),
    st.builds(ev.PureDP, positive),
    st.builds(ev.ExponentialMechanism, positive),
    st.builds(ev.ApproximateDP, positive, fraction),
    st.builds(ev.TotalVariation, fraction),
    st.just(ev.NonPrivate()),
)
any_event = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.builds(ev.PoissonSampled, st.floats(1e-6, 1.0), inner),
        st.builds(ev.Repeated, st.integers(1, 10**9), inner),
        st.builds(ev.Together, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "event", "events", "times", "epsilon", "noise_multiplier"]),
            inner | st.sampled_from(["gaussian", "repeated", "together", "pure"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(any_event)
def test_an_event_survives_json_text_unchanged(event):
    text = json.dumps(event.to_json(), allow_nan=False)
    assert ev.from_json(json.loads(text)) == event


@given(json_values)
def test_hostile_json_is_an_artifact_error_or_a_valid_event(data):
    try:
        event = ev.from_json(data)
    except ArtifactError:
        return
    assert ev.from_json(event.to_json()) == event


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "gaussian",
        {"kind": []},
        {"kind": {"kind": "gaussian"}},
        {"kind": "gaussian"},
        {"kind": "gaussian", "noise_multiplier": math.nan},
        {"kind": "gaussian", "noise_multiplier": math.inf},
        {"kind": "gaussian", "noise_multiplier": 10**400},
        {"kind": "gaussian", "noise_multiplier": "1"},
        {"kind": "gaussian", "noise_multiplier": True},
        {"kind": "gaussian", "noise_multiplier": 1.0, "comment": "x"},
        {"kind": "repeated", "times": 1.5, "event": {"kind": "non-private"}},
        {"kind": "repeated", "times": 0, "event": {"kind": "non-private"}},
        {"kind": "together", "events": {}},
        {"kind": "together", "events": []},
        {"kind": "poisson-sampled", "sampling_rate": 1.5, "event": {"kind": "non-private"}},
    ],
)
def test_a_malformed_event_is_refused(data):
    with pytest.raises(ArtifactError):
        ev.from_json(data)


def test_an_unknown_kind_is_named_by_its_word_or_by_the_type_of_what_stands_there():
    named = {"'newer'": {"kind": "newer"}, "'int'": {"kind": 3}, "'list'": [], "'dict'": {}}
    for shown, data in named.items():
        with pytest.raises(ArtifactError, match=f"unknown kind {shown}"):
            ev.from_json(data)


def test_events_nested_beyond_reason_are_refused():
    data = {"kind": "non-private"}
    for _ in range(5000):
        data = {"kind": "repeated", "times": 2, "event": data}
    with pytest.raises(ArtifactError, match="nested"):
        ev.from_json(data)


def test_numpy_settings_are_written_as_plain_numbers():
    event = ev.Repeated(np.int64(3), ev.Gaussian(np.float32(1.5)))
    assert ev.from_json(json.loads(json.dumps(event.to_json()))) == event


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize(
    "make", [ev.Gaussian, ev.Laplace, ev.ZeroConcentrated, ev.PureDP, ev.ExponentialMechanism]
)
def test_no_event_is_made_without_protection_by_accident(make, bad):
    with pytest.raises(ValueError, match="must be"):
        make(bad)


def expanded(event):
    """Every single release of a small event, by brute force; what shares a batch is one release."""
    if isinstance(event, ev.Repeated):
        return [one for _ in range(event.times) for one in expanded(event.event)]
    if isinstance(event, ev.Together):
        return [one for part in event.events for one in expanded(part)]
    return [event]


ATOMS = [ev.Gaussian(1.0), ev.Gaussian(2.0), ev.Laplace(1.0), ev.PureDP(0.5), ev.NonPrivate()]
small_events = st.recursive(
    st.sampled_from([*ATOMS, *(ev.PoissonSampled(0.5, one) for one in ATOMS[:-1])]),
    lambda inner: (
        st.builds(ev.Repeated, st.integers(1, 3), inner)
        | st.builds(ev.Together, st.lists(inner, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@given(small_events)
def test_flat_counts_every_release_once(event):
    assert ev.flat(event) == collections.Counter(expanded(event))
    assert list(ev.flat(event)) == list(dict.fromkeys(expanded(event)))
    assert ev.flat([event, event]) == collections.Counter(2 * expanded(event))


def test_nothing_is_flat():
    assert ev.flat(None) == ev.flat(()) == {}
    with pytest.raises(TypeError, match="must be Event, got str"):
        ev.flat(["gaussian"])


NOISE = ev.Gaussian(1.0)
SHARED = ev.Together((NOISE, NOISE))
SAMPLED = {
    "once": (ev.PoissonSampled(0.5, NOISE), ev.PoissonSampled(0.5, NOISE)),
    "always": (ev.PoissonSampled(1.0, NOISE), NOISE),
    "twice": (
        ev.PoissonSampled(0.5, ev.PoissonSampled(0.5, NOISE)),
        ev.PoissonSampled(0.25, NOISE),
    ),
    "one batch, two releases": (ev.PoissonSampled(0.5, SHARED), ev.PoissonSampled(0.5, SHARED)),
    "one batch of all, two releases": (ev.PoissonSampled(1, SHARED), ev.PoissonSampled(1, SHARED)),
    "without privacy": (ev.PoissonSampled(0.5, ev.NonPrivate()), ev.NonPrivate()),
    "without privacy, among others": (
        ev.PoissonSampled(0.5, ev.Together((NOISE, ev.Repeated(2, ev.NonPrivate())))),
        ev.NonPrivate(),
    ),
}


@pytest.mark.parametrize(("event", "release"), SAMPLED.values(), ids=SAMPLED.keys())
def test_sampling_is_resolved_where_that_changes_nothing(event, release):
    assert ev.flat(ev.Repeated(3, event)) == {release: 3}


def test_rates_that_vanish_stay_rates():
    event = NOISE
    for _ in range(5):
        event = ev.PoissonSampled(1e-300, event)
    (release,) = ev.flat(event)
    assert 0 < release.sampling_rate <= 1e-300
