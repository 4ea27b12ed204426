"""How much AUC a zoomed classifier loses to a non-private one, on generated problems only.

Logistic regression by `vf.ExpMechClassifier(sampler="zoom")` with a Gaussian prior of scale 2 and delta
0, on 4,000 records of three generated problems; scikit-learn's logistic regression is the non-private
one. Both are judged on 20,000 fresh records. A figure is the mean over problems of the median of
three fits. What decides is epsilon times the number of records, and the number of features: the
schedule in `releases/expm/zoom.py` was tuned on these problems.
"""

import statistics

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import veilflow as vf
from benchmarks.generated_labels import labeled
from benchmarks.records import Record, record

RECORDS, FRESH, PROBLEMS, FITS = 4000, 20_000, 3, 3
FEATURES = (5, 12, 30)
EPSILONS = (0.2, 0.8, 8.0)


def run(*, quick: bool = False) -> list[Record]:
    """The loss for each number of features and epsilon."""
    num, problems, fits = (200, 1, 1) if quick else (RECORDS, PROBLEMS, FITS)
    candidates = 64 if quick else vf.expm.ZoomSampler().num_candidates
    sampler = vf.expm.ZoomSampler(num_candidates=candidates)
    found = []
    for features in FEATURES[:1] if quick else FEATURES:
        for epsilon in EPSILONS[:1] if quick else EPSILONS:
            gaps = [
                _gap(problem, features, epsilon, num=num, fits=fits, sampler=sampler)
                for problem in range(problems)
            ]
            setting = f"{features} features, epsilon x records {epsilon * num:,.0f}"
            found.append(
                record(f"AUC lost, {setting}", statistics.mean(gaps), "AUC", peer="non-private")
            )
    return found


def _gap(
    problem: int, features: int, epsilon: float, *, num: int, fits: int, sampler: object
) -> float:
    rows, labels = labeled(num + FRESH, features, seed=1, problem=problem)
    fresh, truth = rows[num:], labels[num:]
    plain = LogisticRegression(C=100.0, max_iter=500).fit(rows[:num], labels[:num])
    estimator = vf.ExpMechClassifier(
        budget=vf.Budget(epsilon=epsilon, delta=0),
        prior=vf.GaussianPrior(2.0),
        sampler=sampler,
        bounds=(-1, 1),
        num_records=num,
    )
    models = [estimator.fit(rows[:num], labels[:num], progress=False) for _ in range(fits)]
    scores = [roc_auc_score(truth, model.predict_proba(fresh)[:, 1]) for model in models]
    return float(roc_auc_score(truth, plain.decision_function(fresh)) - np.median(scores))
