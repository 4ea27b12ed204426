"""Cards and files of classifiers, posteriors, images and detectors, fitted to neighboring data.

A card must be the same to the last byte, and of a file only what the ledger pays for may differ.
Densities, mixtures, tables and imputers are in `test_card`.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import veilflow as vf
from tests.models.expm import test_classifier as classifiers
from tests.models.image import small as images
from tests.models.posterior import line
from tests.reports import kinds
from tests.reports.test_card import documents
from veilflow.models.artifact import Artifact
from veilflow.reports import release_card

EXTREME = np.vstack([[[1e9, -1e9]], kinds.ROWS[1:]])
ROWS = (EXTREME, EXTREME[1:], kinds.ROWS)
"""A row that stands out, none in its place, an ordinary one."""
X, Y = line.records(500)
RECORDS = tuple(
    (np.concatenate([x, X[1:]]), np.concatenate([y, Y[1:]]))
    for x, y in (([9.0], [9e3]), ([], []), (X[:1], Y[:1]))
)
LABELED = tuple(
    (np.vstack([*x, classifiers.ROWS[1:]]), np.append(y, classifiers.LABELS[1:]))
    for x, y in (([[[1e9]]], [0]), ([], []), ([classifiers.ROWS[:1]], classifiers.LABELS[:1]))
)
PIXELS = (np.full((1, 6, 6), 255, np.uint8), np.zeros((0, 6, 6), np.uint8), images.pixels()[:1])
PICTURES = tuple(
    (np.concatenate([one, images.pixels()[1:]]), np.append(images.places()[: len(one)], rest))
    for one, rest in zip(PIXELS, itertools.repeat(images.places()[1:]), strict=False)
)


def classifier(sampler: str) -> Callable[..., Any]:
    made = classifiers.estimator(sampler=classifiers.SMALL[sampler], seed=1)
    return lambda rows, labels: made.fit(rows, labels, progress=False)


def image_flow(kind: str, *, trained: bool = False, **settings: Any) -> Callable[..., Any]:
    made = images.estimator(**images.KINDS[kind], **settings)

    def fit(pixels: np.ndarray, places: np.ndarray) -> vf.FittedImageFlow:
        labels = places.astype(np.int32) if made.spec.classes else None
        if trained:
            return made.fit(pixels, labels, progress=False)
        with images.untrained(spoiled(pixels)):
            return made.fit(pixels, labels, progress=False)

    return fit


def spoiled(pixels: np.ndarray) -> Callable[[Any], Any]:
    """What training may do to the arrays, which are released: here, something of the data."""
    return lambda models: jax.tree.map(lambda x: x + np.float32(pixels.mean()), models)


def posterior(x: np.ndarray, y: np.ndarray, **settings: Any) -> vf.FittedPosterior:
    return kinds.posterior((x.astype(np.float32), y.astype(np.float32)), **settings)


def by_samples(rows: np.ndarray) -> vf.LikelihoodDetector:
    return vf.LikelihoodDetector(kinds.mixture(rows)).from_samples(2000, seed=1)


def by_private_rows(rows: np.ndarray) -> vf.LikelihoodDetector:
    made = vf.LikelihoodDetector(kinds.mixture(rows), false_alarm_rate=0.1)
    return made.from_private(rows, budget=vf.Budget(0.5, 0.0))


def of_images(pixels: np.ndarray, places: np.ndarray) -> vf.LikelihoodDetector:
    made = vf.LikelihoodDetector(image_flow("by class")(pixels, places), label="dot")
    return made.from_private(pixels[places == 1], budget=vf.Budget(0.5, 0.0))


KINDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{f"classifier by {name}": (classifier(name), LABELED) for name in classifiers.SMALL},
    **{f"images, {kind}": (image_flow(kind), PICTURES) for kind in images.KINDS},
    "images, count paid for": (image_flow("by class", num_records=None), PICTURES),
    "posterior": (posterior, RECORDS),
    "detector by samples": (lambda rows: by_samples(rows), ROWS),
    "detector by a private quantile": (lambda rows: by_private_rows(rows), ROWS),
    "detector of images": (of_images, PICTURES),
}
PAID = {
    "posterior": ("facts",),
    "images, count paid for": ("facts.num_records",),
    "detector by samples": ("threshold",),
    "detector by a private quantile": ("threshold",),
    "detector of images": ("threshold",),
}
"""Settings in a file that are made of released values: noisy counts, sums, quantiles."""


def fits(name: str) -> list[Any]:
    fit, neighbors = KINDS[name]
    return [fit(*some) if isinstance(some, tuple) else fit(some) for some in neighbors]


def check_files(found: list[Artifact], paid: tuple[str, ...] = ()) -> None:
    """All but arrays and what is paid for is equal; of arrays, their shapes are."""
    first, *others = found
    for other in others:
        for part in ("model", "ledger", "guarantee", "schema"):
            assert getattr(first, part) == getattr(other, part)
        assert unpaid(first.manifest, paid) == unpaid(other.manifest, paid)
        shapes = [{k: (v.shape, v.dtype) for k, v in x.arrays.items()} for x in (first, other)]
        assert shapes[0] == shapes[1]


def unpaid(manifest: dict[str, Any], paid: tuple[str, ...], start: str = "") -> dict[str, Any]:
    """Settings without those that are paid for, which are there, though."""
    names = {start + name for name in manifest}
    assert start or all(name.split(".")[0] in names for name in paid)
    return {
        name: unpaid(value, paid, f"{start}{name}.") if isinstance(value, dict) else value
        for name, value in manifest.items()
        if start + name not in paid
    }


@pytest.mark.few(3)
@pytest.mark.parametrize("name", KINDS)
def test_cards_of_neighbors_are_equal_and_files_differ_by_what_was_paid_for(name):
    models = fits(name)
    found = [model.to_artifact() for model in models]
    first, second, third = (documents(release_card(one)) for one in found)
    assert first == second == third
    check_files(found, PAID.get(name, ()))


def test_a_setting_that_nobody_paid_for_is_noticed():
    models = fits("detector by a private quantile")
    found = [model.to_artifact() for model in models]
    with pytest.raises(AssertionError):  # the threshold, which was taken for paid above
        check_files(found)
    found[0].manifest["model"]["settings"]["num_rows"] = 400
    with pytest.raises(AssertionError):
        check_files(found, ("threshold",))


@pytest.mark.slow
@pytest.mark.parametrize("kind", images.KINDS)
def test_cards_of_trained_images_are_equal(kind):
    fit = image_flow(kind, trained=True)
    first, second = (fit(*some).to_artifact() for some in PICTURES[:2])
    assert documents(release_card(first)) == documents(release_card(second))
    check_files([first, second])


@pytest.mark.parametrize("method", ["exponential", "noisy_max", "sparse_vector"])
def test_cards_of_ensembles_are_equal_whatever_they_have_answered(method, tmp_path):
    found = []
    for place, rows in enumerate(ROWS):
        ensemble = fitted_ensemble(rows, method, tmp_path / f"{place}.journal")
        ensemble.query([[0.0, 0.0]] * (1 + place))
        found.append(ensemble.to_artifact())
    first, second, third = (documents(release_card(one)) for one in found)
    assert first == second == third
    assert "There is no privacy" in first["json"]
    check_files(found, ("journal",))


def test_what_answers_cost_on_these_records_is_on_no_card_and_in_no_file(tmp_path):
    ensemble = fitted_ensemble(kinds.ROWS, "noisy_max", tmp_path / "journal")
    ensemble.query([[0.0, 0.0], [3.9, -3.9]])
    private = ensemble.data_dependent_epsilon().open()
    assert private > 0
    told = (*documents(release_card(ensemble)).values(), str(ensemble.to_artifact().manifest))
    for text in told:
        assert not any(f"{private:.{digits}g}" in text for digits in (4, 6, 17))


def fitted_ensemble(rows: np.ndarray, method: str, journal: Path) -> vf.FittedEnsemble:
    limit: dict[str, Any] = (
        {"max_anomalies": 2} if method == "sparse_vector" else {"max_queries": 6}
    )
    made = vf.EnsembleDetector(
        budget=vf.Budget(8.0, 1e-6),
        bounds=(-4, 4),
        parts=4,
        flow="mixture",
        num_components=1,
        answers=vf.Answering(method=method, journal=journal, **limit),
        seed=1,
    )
    return made.fit(rows, progress=False)
