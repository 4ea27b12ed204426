"""Anomalies among two moons: by a released density, for free, and by paid answers of an ensemble.

Run `python examples/anomalies.py`. It needs no data and takes seconds.
"""

import numpy as np

import veilflow as vf

BOUNDS = ([-1.5, -1.0], [2.5, 1.5])
"""Known from the generator. For real records, bounds come from knowledge of the domain."""


def main() -> None:
    records = vf.datasets.moons(20_000)
    normal = vf.datasets.moons(100, seed=1)
    odd = np.random.default_rng(2).uniform([-1.4, -0.9], [2.4, 1.4], size=(100, 2))

    # A released density answers any number of queries. Its own samples set the threshold, for free.
    budget = vf.Budget(epsilon=1.0, delta=1e-6)
    model = vf.MixtureDensity(budget=budget, bounds=BOUNDS).fit(records, progress=False)
    detector = vf.LikelihoodDetector(model, false_alarm_rate=0.05).from_samples(10_000)
    print(f"density: {detector.predict(normal).mean():.0%} of normal rows are flagged,", end=" ")
    print(f"{detector.predict(odd).mean():.0%} of rows from anywhere")
    far = np.array([[0.5, 1.4]])
    cells = detector.explain(far)[0].round(2)
    print(f"  the row {far[0]} scores {detector.score(far)[0]:.2f}; by cell: {cells}")

    # An ensemble releases no model, only answers, and each of them costs.
    estimator = vf.EnsembleDetector(
        budget=vf.Budget(epsilon=4.0, delta=1e-6),
        answers=vf.Answering(max_queries=200),
        bounds=BOUNDS,
        parts=100,
        flow="mixture",
    )
    epsilon = estimator.plan().answers.epsilon
    print(f"ensemble: epsilon {epsilon:.3g} per answer, known before a row is read")
    ensemble = estimator.fit(records, progress=False)
    print(f"  {ensemble.query(normal).mean():.0%} of normal rows are flagged,", end=" ")
    print(f"{ensemble.query(odd).mean():.0%} of rows from anywhere")
    try:
        ensemble.query(normal[:1])
    except vf.BudgetError as error:
        print(f"  then: {error}")

    print("\nledger")
    for purpose, epsilon, share in ensemble.ledger.shares(ensemble.guarantee.delta):
        print(f"  {purpose}: epsilon {epsilon:.3g} alone, {share:.0%}")
    print(f"guarantee\n  {ensemble.guarantee}")


if __name__ == "__main__":
    main()
