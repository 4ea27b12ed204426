"""What is measured of posteriors and of synthetic patients."""

import math
from typing import Any

import numpy as np

from reproductions.dp_nf_vi.data import PRESSURES, Posterior, pressure

THRESHOLD = 20.0


def compared(found: Posterior, reference: Posterior) -> dict[str, Any]:
    """Errors of means in the reference's deviations, ratios of deviations, and of correlations."""
    signed = (found.mean - reference.mean) / reference.sd
    errors = np.abs(signed)
    ratios = found.sd / reference.sd
    pairs = np.triu_indices(len(errors), 1)
    off = np.abs((found.correlation - reference.correlation)[pairs])
    names = [f"{i}{j}" for i, j in zip(*pairs, strict=True)]
    return {
        "signed": {str(i): _plain(e) for i, e in enumerate(signed)},
        "error": {str(i): _plain(e) for i, e in enumerate(errors)},
        "ratio": {str(i): _plain(r) for i, r in enumerate(ratios)},
        "off": {str(i): _plain(e) for i, e in enumerate(np.abs(found.mean - reference.mean))},
        "pairs": {name: _plain(e) for name, e in zip(names, off, strict=True)},
        "largest_error": _plain(errors.max()),
        "least_ratio": _plain(ratios.min()),
        "largest_ratio": _plain(ratios.max()),
        "correlation": _plain(off.max()),
    }


def _plain(value: float) -> float | None:
    """As JSON has it: a posterior that is a point has no correlation."""
    return float(value) if math.isfinite(value) else None


def patients(rows: np.ndarray, test: np.ndarray, *, seed: int) -> dict[str, Any]:
    """How well rows teach the label and the pressure of test patients, with and without truncation.

    Rows are inside the declared ranges already. Without truncation they are told apart by what the
    paper truncates: here both are the same, and one number is measured.
    """
    return {
        "accuracy": _accuracy(rows, test, seed=seed),
        "mse": _error(rows, test, seed=seed),
        "share": float((pressure(rows) > THRESHOLD).mean()),
    }


def _accuracy(rows: np.ndarray, test: np.ndarray, *, seed: int) -> float:
    """Of a support vector machine, cut where the Fowlkes-Mallows index on its own rows is largest."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    rows = rows[:3_000]
    labels = pressure(rows) > THRESHOLD
    truth = pressure(test) > THRESHOLD
    if labels.all() or not labels.any():
        return float((truth == labels[0]).mean())
    number = min(np.bincount(labels.astype(int)))
    if number < 3:
        return float((truth == (labels.mean() > 0.5)).mean())
    machine = CalibratedClassifierCV(
        SVC(random_state=seed),
        cv=min(3, number),
        ensemble=False,  # pyright: ignore[reportArgumentType]
    )
    fitted = make_pipeline(StandardScaler(), machine).fit(rows, labels)
    own, scores = (fitted.predict_proba(x)[:, 1] for x in (rows, test))
    cuts = np.unique(np.quantile(own, np.linspace(0.02, 0.98, 49)))
    best = max(cuts, key=lambda cut: _fowlkes_mallows(own > cut, labels))
    return float(((scores > best) == truth).mean())


def _fowlkes_mallows(said: np.ndarray, truth: np.ndarray) -> float:
    right = float((said & truth).sum())
    return right / math.sqrt(max(said.sum(), 1) * max(truth.sum(), 1))


def _error(rows: np.ndarray, test: np.ndarray, *, seed: int) -> float:
    """Mean squared error of a random forest that predicts the pressure from the other attributes."""
    from sklearn.ensemble import RandomForestRegressor

    others = [i for i in range(rows.shape[1]) if i not in PRESSURES]
    forest = RandomForestRegressor(n_estimators=50, random_state=seed, min_samples_leaf=2)
    forest.fit(rows[:2_000, others], pressure(rows)[:2_000])
    return float(np.mean((forest.predict(test[:, others]) - pressure(test)) ** 2))
