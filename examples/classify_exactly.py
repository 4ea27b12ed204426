"""A private classifier with delta 0 by an exact sampler, so its guarantee is unconditional.

Run `python examples/classify_exactly.py`. It needs no data and takes seconds.
"""

import argparse

import numpy as np

import veilflow as vf

NUM_RECORDS = 8_000
LOW, HIGH = [18, 0, 0], [90, 80, 1]  # age, weekly hours, membership: what is possible


def people(num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and whether each person answered a letter."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 15, num_rows), 18, 90)
    hours = np.clip(rng.normal(36, 12, num_rows), 0, 80)
    member = rng.uniform(size=num_rows) < 0.3
    score = 0.06 * (age - 45) - 0.05 * (hours - 36) + 1.5 * member - 0.5
    answered = rng.uniform(size=num_rows) < 1 / (1 + np.exp(-score))
    return np.column_stack([age, hours, member]), np.where(answered, "yes", "no")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--candidates", type=int, default=16_384)
    sampler = vf.expm.ZoomSampler(num_candidates=parser.parse_args().candidates)
    estimator = vf.ExpMechClassifier(
        budget=vf.Budget(epsilon=1.0, delta=0),
        prior=vf.GaussianPrior(2.0),
        sampler=sampler,
        bounds=(LOW, HIGH),
        classes=("no", "yes"),
        num_records=NUM_RECORDS,
    )
    print(f"before a row is read: {estimator.plan()}")

    model = estimator.fit(*people(NUM_RECORDS, seed=0))
    rows, answers = people(4_000, seed=1)
    right = (model.predict(rows) == answers).mean()
    print(f"accuracy on new rows: {right:.1%}; always 'no': {(answers == 'no').mean():.1%}")
    chances = model.predict_proba([[70, 10, 1], [25, 60, 0]])[:, 1]
    print(f"a member of 70 with 10 hours: {chances[0]:.0%}; 25 with 60 hours: {chances[1]:.0%}")

    print("\nledger")
    for purpose, epsilon, share in model.ledger.shares(model.guarantee.delta):
        print(f"  {purpose}: epsilon {epsilon:.3g} alone, {share:.0%}")
    print(f"guarantee\n  {model.guarantee}")


if __name__ == "__main__":
    main()
