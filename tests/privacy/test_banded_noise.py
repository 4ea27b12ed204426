"""Correlated noise: exact arithmetic, the promised law, and what one record changes in a turn."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow._core.threefry import KEY_WORDS
from veilflow.privacy import banded_noise as banded
from veilflow.privacy.banded_noise import BandedNoise
from veilflow.privacy.grid_noise import on_grid
from veilflow.privacy.guarantees import ClippedSum
from veilflow.privacy.mechanisms.gaussian import correlated

BANDS = (2, 4, 16)
CUT = 2**27 - 1
every_width = pytest.mark.parametrize("bands", BANDS)

recalled = eqx.filter_jit(banded._recalled)


def words(steps: int, *, seed: int = 0) -> np.ndarray:
    return Secret.from_seed(seed).words("noise", 0, steps, size=KEY_WORDS)


def made(bands: int, size: int = 5, **changes: float) -> BandedNoise:
    settings = {"noise_multiplier": 1.0, **changes}
    return BandedNoise.of(
        settings.pop("clip_norm", 1.0), num_coordinates=size, bands=bands, **settings
    )


@eqx.filter_jit
def step_of(noise: BandedNoise, past, step, key):
    return noise.next(past, step, key)


@eqx.filter_jit
def draws(noise: BandedNoise, key):
    return noise.noise.draws(key, noise.num_coordinates)


def drawn_of(noise: BandedNoise, key: np.ndarray) -> np.ndarray:
    return np.asarray(draws(noise, jnp.asarray(key)))


def run(noise: BandedNoise, steps: int, *, seed: int = 0) -> np.ndarray:
    """The noise of the first steps, as whole numbers."""
    past, found = noise.init(), []
    for step, key in enumerate(words(steps, seed=seed)):
        now, past = step_of(noise, past, jnp.int32(step), jnp.asarray(key))
        found.append(np.asarray(now))
    return np.stack(found).astype(object)  # Python's integers, which never overflow


def recall(earlier: np.ndarray, bands: int) -> np.ndarray:
    """round(c_1 W_{t-1} + ...) by Python's integers; the last row is the last step."""
    weights = banded.coefficients(bands)[1:]
    terms = [c * w for c, w in zip(weights, earlier[::-1], strict=False)]
    total = sum(terms, np.zeros(earlier.shape[1:], object))
    return (total + 2**11) // 2**12


def correlation(bands: int, steps: int) -> np.ndarray:
    """The matrix C."""
    c = np.array(banded.coefficients(bands)) / 2**12
    places = np.arange(steps)[:, None] - np.arange(steps)
    return np.where((places >= 0) & (places < bands), c[np.clip(places, 0, bands - 1)], 0.0)


def test_the_coefficients_are_those_of_a_square_root_of_prefix_sums():
    c = np.array(banded.coefficients(128)) / 2**12
    np.testing.assert_allclose(c[:4], [1, 1 / 2, 3 / 8, 5 / 16])
    exact = [math.comb(2 * i, i) / 4**i for i in range(128)]
    np.testing.assert_allclose(c, exact, atol=2**-13)
    np.testing.assert_allclose(np.convolve(c, c)[:128], 1.0, atol=0.01)
    assert banded.coefficients(4) == banded.coefficients(128)[:4]


@pytest.mark.parametrize("bands", [2, 3, 16, 128])
def test_what_is_recalled_is_exact_for_the_largest_numbers(bands: int):
    rng = np.random.default_rng(bands)
    size = 200
    extreme = rng.choice([-CUT, CUT, -CUT + 1, 0, 1, -1, 4095, -4096], (bands - 1, size))
    extreme[:, 0], extreme[:, 1] = CUT, -CUT
    usual = rng.integers(-CUT, CUT, (bands - 1, size), endpoint=True)
    for earlier in (extreme, usual):
        for step in (bands - 1, 7 * bands + 3, 10**6):
            past = np.empty_like(earlier)
            for age, row in enumerate(earlier[::-1]):
                past[(step - 1 - age) % (bands - 1)] = row
            found = recalled(jnp.asarray(past, jnp.int32), jnp.int32(step), bands)
            assert (np.asarray(found) == recall(earlier.astype(object), bands)).all()


@every_width
def test_the_filter_of_the_noise_gives_back_independent_draws(bands: int):
    noise, steps = made(bands, size=6), 3 * bands + 2
    found = run(noise, steps)
    fresh = [found[t] + recall(found[max(0, t - bands + 1) : t], bands) for t in range(steps)]
    drawn = [drawn_of(noise, key) for key in words(steps)]
    np.testing.assert_array_equal(np.stack(fresh).astype(int), np.stack(drawn))


@every_width
def test_covariances_are_those_of_the_inverse_matrix(bands: int):
    noise, steps, size = made(bands, size=40_000), 2 * bands + 1, 40_000
    found = run(noise, steps).astype(float) / noise.grid.sigma
    inverse = np.linalg.inv(correlation(bands, steps))
    expected = inverse @ inverse.T
    # each covariance has an error of about 1.5 / sqrt(size): six of them
    np.testing.assert_allclose(found @ found.T / size, expected, atol=9 / math.sqrt(size))
    # for the same sensitivity, sums of all steps are more precise than those of independent noise
    assert np.var(found.sum(axis=0)) / steps < 0.9 / banded.column_norm(bands) ** 2


def test_noise_of_the_past_is_cut_and_never_leaves_its_type():
    noise = made(4)
    for sign in (1, -1):
        # the next step takes back more than the cut, and what is kept is cut again
        past = jnp.full((3, 5), -sign * CUT, jnp.int32)
        now, kept = step_of(noise, past, jnp.int32(3), jnp.asarray(words(1)[0]))
        fresh = drawn_of(noise, words(1)[0]).astype(object)
        expected = fresh - recall(np.full((3, 5), -sign * CUT, object), 4)
        assert (np.asarray(now) == expected).all()
        assert (np.abs(expected) > CUT).all()
        assert (np.asarray(kept)[0] == sign * CUT).all()


def centers(noise: BandedNoise, sums: np.ndarray, released: np.ndarray, start: int) -> np.ndarray:
    """What each step releases but for its fresh noise, given all that was released before.

    `sums` are real numbers, in a place for each step; earlier ones than `start` are zero.
    """
    spacing, none = noise.grid.spacing, jnp.zeros(sums.shape[1], jnp.int32)
    rounded = np.stack(
        [np.asarray(on_grid(jnp.asarray(x, jnp.float32), none, spacing)) for x in sums]
    )
    units = np.rint(rounded.astype(float) / spacing).astype(np.int64)
    kept = np.clip(released - units, -CUT, CUT)
    past = np.zeros((noise.bands - 1, sums.shape[1]), np.int64)
    found = []
    for step in range(start, start + len(sums)):
        took = np.asarray(recalled(jnp.asarray(past, jnp.int32), jnp.int32(step), noise.bands))
        found.append(units[step - start] - took.astype(np.int64))
        past[step % (noise.bands - 1)] = kept[step - start]
    return np.stack(found).astype(float)


@every_width
@pytest.mark.parametrize("case", ["rounding", "usual", "saturated"])
def test_a_record_changes_a_turn_by_at_most_the_norm_that_is_paid_for(bands: int, case: str):
    size, clip_norm, turn = 300, 1.0, bands + 1
    # much noise on a coarse grid: then rounding matters
    root = math.sqrt(banded.rounded_coordinates(size, bands=bands))
    noise = made(bands, size=size, clip_norm=clip_norm, noise_multiplier=9e5 / root)
    grid, rng = noise.grid, np.random.default_rng(1)
    allowed = grid.sensitivity / grid.spacing + math.sqrt(grid.num_coordinates)
    steps, worst = 3 * bands, 0.0
    for _ in range(8):
        sums = rng.normal(size=(steps, size))
        one = rng.choice([-1.0, 1.0], size)
        if case == "rounding":  # just below a boundary of the grid, which the record crosses
            sums = (np.rint(sums / grid.spacing) + np.where(one > 0, 0.499, -0.499)) * grid.spacing
        reach = 2.0 if case == "saturated" else 1e-6
        released = rng.integers(-(2**28), 2**28, (steps, size)) * reach
        if case == "saturated":
            sums[turn] = rng.choice([-1, 1], size) * 2.0**30 * grid.spacing
        more = sums.copy()
        more[turn] += clip_norm * (1 - 1e-6) * one / np.linalg.norm(one)
        released = released.astype(np.int64)
        moved = centers(noise, more, released, 5) - centers(noise, sums, released, 5)
        assert not moved[:turn].any()
        assert not moved[turn + bands :].any()
        worst = max(worst, float(np.linalg.norm(moved)))
    assert worst <= allowed
    if case != "saturated":
        # and by more than a single step would pay for
        assert worst > clip_norm / grid.spacing * math.sqrt(1.2)


@every_width
def test_the_grid_is_made_for_the_norm_of_the_proof(bands: int):
    size, clip_norm, multiplier = 1000, 3.0, 7.0
    grid = made(bands, size=size, clip_norm=clip_norm, noise_multiplier=multiplier).grid
    column = math.sqrt(sum(c * c for c in banded.coefficients(bands))) / 2**12
    change = column * (clip_norm / grid.spacing + math.sqrt(size)) + math.sqrt((bands - 1) * size)
    assert math.sqrt(grid.sigma**2 - 1 / 12) >= multiplier * change
    assert grid.sigma <= 1.002 * multiplier * change
    assert column > 1.1


def test_one_band_is_rounded_like_independent_noise():
    assert banded.column_norm(1) == 1.0
    assert banded.rounded_coordinates(7, bands=1) == 7


@pytest.mark.parametrize("bands", [0, -1, 129, 2.5, True, float("nan")])
def test_numbers_of_bands_that_cannot_be_are_refused(bands):
    with pytest.raises((ValueError, TypeError), match="noise_bands"):
        banded.check_bands(bands)


def test_independent_noise_is_not_banded():
    with pytest.raises(ValueError, match="at least 2 bands, got 1"):
        made(1)


def test_a_release_has_the_event_of_a_turn_and_the_noise_of_the_step():
    noise, total = made(4, size=3, noise_multiplier=2.5), {"a": jnp.ones(2), "b": jnp.zeros(1)}
    now = {"past": noise.init(), "step": jnp.int32(0), "words": jnp.asarray(words(1)[0])}
    released, past = correlated(ClippedSum(total, 1.0), noise=noise, **now)
    assert released.event.noise_multiplier == 2.5
    drawn = drawn_of(noise, words(1)[0])
    np.testing.assert_array_equal(past[0], drawn)
    np.testing.assert_allclose(released.value["b"], drawn[2:] * noise.grid.spacing, rtol=1e-6)
    with pytest.raises(ValueError, match=r"a turn that changes 1\.2.*Build it with"):
        correlated(ClippedSum(total, 1.01), noise=noise, **now)
    with pytest.raises(ValueError, match="for 3 coordinates, got 2"):
        correlated(ClippedSum(total["a"], 1.0), noise=noise, **now)
